"""Change records in flight for an operator: end their lock, settle them, or set how often they were delivered."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.share_partitions.runs import find_run, part
from coordinator.core.share_partitions.transition import change_runs, free, settle
from coordinator.core.share_partitions.values import TERMINAL, Change, Limits, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState


class RecordAction(StrEnum):
    """What can be done to records in flight."""

    EXPIRE = "expire"  # their lock ends
    RELEASE = "release"  # as their member does it
    ACCEPT = "accept"
    REJECT = "reject"


class ChangeRecords(Struct, frozen=True):
    """Change records of a share group that are in flight: an operator's verb."""

    group_id: str
    topic_id: bytes
    partition: int
    first_offset: int
    last_offset: int
    action: RecordAction | None = None
    delivery_count: int | None = None  # that they have from now on


FREES: Final = frozenset({RecordAction.EXPIRE, RecordAction.RELEASE})
_SETTLED: Final = {RecordAction.ACCEPT: DeliveryState.ACKNOWLEDGED, RecordAction.REJECT: DeliveryState.ARCHIVED}


def change_records(partition: SharePartition, verb: ChangeRecords, limits: Limits) -> Change | str:
    """Return what becomes of the partition, or why nothing can be done to these records, in a sentence.

    Only what a member has acquired can be freed. The rest is done to what is acquired or available; records that are
    acknowledged or archived stay as they are.
    """
    runs = _runs_between(partition, verb.first_offset, verb.last_offset)
    if not runs:
        return f"no record from {verb.first_offset} to {verb.last_offset} is in flight: {_describe(partition)}"
    if verb.action in FREES:
        runs = [run for run in runs if run.state == DeliveryState.ACQUIRED]
        if not runs:
            return f"no member has acquired a record from {verb.first_offset} to {verb.last_offset}"
    else:
        runs = [run for run in runs if run.state not in TERMINAL]
        if not runs:
            return f"the records from {verb.first_offset} to {verb.last_offset} are acknowledged or archived"
    return change_runs(partition, [_change(run, verb, limits) for run in runs])


def _runs_between(partition: SharePartition, first_offset: int, last_offset: int) -> list[Run]:
    """Return the runs of the records from one offset to another, cut to them."""
    found = []
    for run in partition.runs[find_run(partition.runs, first_offset) :]:
        if run.first_offset > last_offset:
            break
        found.append(part(run, max(run.first_offset, first_offset), min(run.last_offset, last_offset)))
    return found


def _describe(partition: SharePartition) -> str:
    if not partition.runs:
        return f"none are, and {partition.start_offset} comes next"
    return f"{partition.start_offset} to {partition.end_offset - 1} are"


def _change(run: Run, verb: ChangeRecords, limits: Limits) -> Run:
    if verb.delivery_count is not None:
        run = replace(run, delivery_count=verb.delivery_count)
    if verb.action in FREES:
        return free(run, limits.delivery_count_limit)
    return run if verb.action is None else settle(run, _SETTLED[verb.action])


def list_ranges(ranges: Collection[tuple[int, int]], most: int) -> str:
    """Return ranges of offsets as people write them, so many of them: `5-9, 12 and 3 more`."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in list(ranges)[:most]]
    rest = len(ranges) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
