"""The operator's view of records in flight, and the verb that changes them."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from coordinator.core.result import Call
from coordinator.core.share_partitions.operate import ChangeRecords, change_records
from coordinator.core.share_partitions.tally import LOCK
from coordinator.core.share_partitions.values import NO_MEMBER, SharePartition
from coordinator.core.share_state.values import DeliveryState, StateKey
from coordinator.core.verbs import BY, VerbResponse
from coordinator.dataplane.share.changes import apply, limits_of
from coordinator.dataplane.state import State
from protocol.errors import ErrorCode

RUNS_MAX: Final = 10_000  # that a view shows


class RecordsView(Struct, frozen=True):
    """Records of a share partition that follow each other, in the same state."""

    first: int
    last: int
    state: str  # available, acquired, acknowledged or archived
    deliveries: int
    member: str = ""  # of the member that has acquired them
    locked_until_ms: int | None = None  # by the coordinator's clock


class SharePartitionView(Struct, frozen=True):
    """A partition as a share group reads it: its window of records in flight."""

    topic: str
    partition: int
    start: int  # of the window: what is before is done
    end: int  # what comes from here on was never delivered
    records: list[RecordsView]


def view_records(
    state: State, group_id: str, topic: str, most: int, others: Mapping[StateKey, SharePartition]
) -> Iterator[SharePartitionView]:
    """Yield the share partitions of a group, in order of their names, with so many runs in all.

    With a `topic` only those of it. `others` has those that are not served.
    """
    served = {key: state.share.served[key] for key in state.share.of_group(group_id)}
    named = [(state.name_of(key.topic_id) or "", key.partition, key) for key in (*served, *others)]
    for name, _, key in sorted(named, key=lambda one: one[:2]):
        if topic in ("", name) and most > 0:
            view = _view(name, key, served.get(key) or others[key], most)
            most -= max(len(view.records), 1)
            yield view


def view_partition(state: State, key: StateKey) -> SharePartitionView:
    """Return a share partition that is served."""
    return _view(state.name_of(key.topic_id) or "", key, state.share.served[key], RUNS_MAX)


def _view(name: str, key: StateKey, partition: SharePartition, most: int) -> SharePartitionView:
    views = [
        RecordsView(
            run.first_offset,
            run.last_offset,
            DeliveryState(run.state).name.lower(),
            run.delivery_count,
            run.member_id,
            None if run.member_id == NO_MEMBER else run.locked_until_ms,
        )
        for run in partition.runs[:most]
    ]
    return SharePartitionView(name, key.partition, partition.start_offset, partition.end_offset, views)


def perform(state: State, verb: ChangeRecords, call: Call) -> VerbResponse:
    """Change records in flight, and have the fetches look again that may go on."""
    key = StateKey(verb.group_id, verb.topic_id, verb.partition)
    partition = state.share.find(key)
    if partition is None:
        where = f"{state.name_of(verb.topic_id)}-{verb.partition}"
        return VerbResponse(f"there is no {where} that share group {verb.group_id!r} reads")
    if key in state.share.changing:
        return VerbResponse("its acknowledgements are being decided: try again")
    change = change_records(partition, verb, limits_of(state, verb.group_id))
    if isinstance(change, str):
        return VerbResponse(change)
    by = LOCK if verb.action == "expire" else BY
    error = apply(state, key, change, by, call.now_ms)
    return VerbResponse(f"the share coordinator refuses it: {ErrorCode(error).name}" if error else "")
