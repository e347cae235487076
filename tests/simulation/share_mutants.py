"""Share groups with one mistake each. A promise of `deliveries.py` that none of them breaks would promise nothing."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.share_partitions import acknowledge as acknowledging_core
from coordinator.core.share_partitions import acquire as acquiring
from coordinator.core.share_partitions import locks
from coordinator.core.share_partitions.acquire import Acquisition
from coordinator.core.share_partitions.values import Change, Limits, Run, SharePartition
from coordinator.dataplane.share import acknowledging, changes, fetching, opening
from coordinator.runtime.share_state_log import StateLog
from protocol.errors import ErrorCode
from tests.mistakes import Faulty, Plant, replacing

SHARE_MUTANTS: Final[dict[str, Plant]] = {}


def instead(owner: Any, name: str, *, every: int = 1) -> Callable[[Faulty], Faulty]:
    """Register a mistake: call it as `faulty(method, *arguments)`, at one of so many calls."""

    def register(faulty: Faulty) -> Faulty:
        SHARE_MUTANTS[faulty.__name__] = replacing(owner, name, faulty, every)
        return faulty

    return register


@instead(fetching, "acquire", every=5)
def acquires_and_forgets_it(method: Any, partition: SharePartition, *args: Any) -> Acquisition:
    """Give records to a member, and to the next one as well."""
    found: Acquisition = method(partition, *args)
    return replace(found, partition=partition)


@instead(acquiring._Taker, "_take", every=3)
def does_not_count_a_delivery(method: Any, taker: Any, run: Run, size: int) -> None:
    """Deliver a record again with the count of before."""
    method(taker, replace(run, delivery_count=run.delivery_count - 1), size)


@instead(acknowledging, "apply", every=3)
def writes_no_acknowledgement(method: Any, state: Any, key: Any, change: Change, now_ms: int) -> ErrorCode:
    """Keep an acknowledgement in memory, and not in the log."""
    error: ErrorCode = method(state, key, replace(change, update=None), now_ms)
    return error


@instead(acknowledging, "apply", every=5)
def keeps_no_acknowledgement(method: Any, state: Any, key: Any, change: Change, now_ms: int) -> ErrorCode:
    """Write an acknowledgement, and forget it."""
    before = state.share.find(key)
    error: ErrorCode = method(state, key, change, now_ms)
    if not error:
        state.share.put(key, before)
    return error


@instead(acknowledging_core, "free", every=4)
def archives_what_is_released(method: Any, run: Run, limit: int) -> Run:
    """Archive a record that its member gives back."""
    freed: Run = method(run, 1)
    return freed


@instead(locks, "free")
def delivers_beyond_the_limit(method: Any, run: Run, limit: int) -> Run:
    """Make a record available after its last delivery."""
    freed: Run = method(run, limit + 1)
    return freed


@instead(changes, "release_member")
def releases_what_others_have(method: Any, partition: SharePartition, member_id: str, limits: Limits) -> Change:
    """Release the records of all members when one session ends, as if each delivery had been the last."""
    found: Change = locks.expire_locks(partition, replace(limits, delivery_count_limit=1), 1 << 62)
    return found


@instead(acknowledging, "acknowledge")
def takes_acknowledgements_of_anybody(method: Any, partition: SharePartition, member_id: str, *args: Any) -> Any:
    """Let a member acknowledge what another one has."""
    runs = tuple([replace(run, member_id=member_id) if run.member_id else run for run in partition.runs])
    return method(replace(partition, runs=runs), member_id, *args)


@instead(opening, "load_partition")
def loads_no_batches(method: Any, state: Any, first: int) -> SharePartition:
    """Read a share partition without what became of records behind its start."""
    found: SharePartition = method(replace(state, batches=()), first)
    return found


@instead(changes, "expire")
def ends_no_lock(method: Any, state: Any, key: Any, now_ms: int) -> None:
    """Leave records locked for ever."""


@instead(fetching, "next_fetch_offset")
def delivers_nothing_again(method: Any, partition: SharePartition) -> int:
    """Go on behind what was acquired, and leave out what is available again."""
    return partition.end_offset


@instead(StateLog, "flush", every=4)
def loses_a_write_of_states(method: Any, log: StateLog, append: Any) -> None:
    """Say that a state is written that is not."""
    log._batch, log._records = None, []
