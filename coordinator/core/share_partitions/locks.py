"""Free records that their member has no longer: the lock has ended, or its session is closed."""

from collections.abc import Callable

from coordinator.core.share_partitions.runs import select
from coordinator.core.share_partitions.transition import change_runs, free
from coordinator.core.share_partitions.values import Change, Limits, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState


def expire_locks(partition: SharePartition, limits: Limits, now_ms: int) -> Change:
    """Free the records whose lock has ended. Kafka: `releaseAcquisitionLockOnTimeout`."""
    return _free(partition, limits, lambda run: run.locked_until_ms <= now_ms)


def release_member(partition: SharePartition, member_id: str, limits: Limits, session: int) -> Change:
    """Free all records that a member has acquired, in a session or before it. Kafka: `releaseAcquiredRecords`.

    A member may be back, with another session, before its last one is released.
    """
    return _free(partition, limits, lambda run: run.member_id == member_id and run.session <= session)


def release_all(partition: SharePartition, limits: Limits) -> Change:
    """Free all records that members have acquired."""
    return _free(partition, limits, lambda run: True)


def _free(partition: SharePartition, limits: Limits, is_meant: Callable[[Run], bool]) -> Change:
    acquired = select(partition.runs, lambda run: run.state == DeliveryState.ACQUIRED and is_meant(run))
    if not acquired:
        return Change(partition)
    return change_runs(partition, [free(run, limits.delivery_count_limit) for run in acquired])


def next_lock_ms(partition: SharePartition) -> int | None:
    """Return when the next lock ends; None if no record is acquired."""
    return min(
        (run.locked_until_ms for run in partition.runs if run.state == DeliveryState.ACQUIRED),
        default=None,
    )
