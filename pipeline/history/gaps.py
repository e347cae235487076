"""Outages as seen from outside: partitions that changed hands, from the last commit before to the first one after.

Each partition counts for itself. The group as a whole may commit all the time while one of its partitions stands still.
"""

from collections.abc import Collection, Iterable, Mapping

from pipeline.history.ownership import Partition
from pipeline.history.records import Activity, Rebalance

NAMED_SHARE = 0.8  # of the largest gap: partitions that stood still for as long are named with it


class CommitGaps:
    """Fills in `commit_gap_ms` of rebalances once the partitions that changed hands are committed again."""

    def __init__(self) -> None:
        self._last_ts: dict[Partition, int] = {}
        self._interval_ms: dict[Partition, int] = {}  # between two commits, on an average
        self._waiting: dict[Partition, list[Rebalance]] = {}
        self._found: dict[int, dict[Partition, int]] = {}  # by the offset of a rebalance that waits: its gaps so far
        self._awaited: dict[int, int] = {}  # by the same: of how many partitions it waits for a commit

    def wait(self, rebalance: Rebalance, partitions: Collection[Partition]) -> None:
        """Note a rebalance in which these partitions changed hands."""
        known = [one for one in partitions if one in self._last_ts]
        for partition in known:
            earlier = [one for one in self._waiting.get(partition, ()) if self.is_waiting(one)]
            self._waiting[partition] = [*earlier, rebalance]
        if known:
            self._found[rebalance.log_offset], self._awaited[rebalance.log_offset] = {}, len(known)

    def is_waiting(self, rebalance: Rebalance) -> bool:
        """Return whether a partition has not been committed since the rebalance."""
        return rebalance.log_offset in self._awaited

    def give_up(self, rebalance: Rebalance) -> None:
        """Wait no longer for commits after a rebalance."""
        self._awaited.pop(rebalance.log_offset, None)
        self._found.pop(rebalance.log_offset, None)

    def close(self, step: Mapping[Partition, Activity]) -> None:
        """End a step with these commits."""
        ended: dict[int, Rebalance] = {}
        for partition, activity in step.items():
            for rebalance in self._waiting.pop(partition, ()):
                if not self.is_waiting(rebalance):
                    continue
                if (gap := activity.first_ts - self._last_ts[partition]) >= 0:
                    self._found[rebalance.log_offset][partition] = gap
                else:  # the broker's clock has gone back
                    self._awaited[rebalance.log_offset] -= 1
                ended[rebalance.log_offset] = rebalance
        for rebalance in ended.values():
            self._fill_in(rebalance)
        for partition, activity in step.items():
            self._last_ts[partition] = activity.last_ts
            if activity.commits > 1:
                self._interval_ms[partition] = (activity.last_ts - activity.first_ts) // (activity.commits - 1)

    def _fill_in(self, rebalance: Rebalance) -> None:
        if gaps := self._found[rebalance.log_offset]:
            longest = max(gaps, key=lambda one: (gaps[one], one))
            rebalance.commit_gap_ms = gaps[longest]
            rebalance.commit_interval_ms = self._interval_ms.get(longest)
            rebalance.commit_gap_partitions = format_partitions(
                one for one, gap in gaps.items() if gap >= NAMED_SHARE * gaps[longest]
            )
        if len(gaps) == self._awaited[rebalance.log_offset]:
            self.give_up(rebalance)


def format_partitions(partitions: Iterable[Partition]) -> str:
    """Return partitions as people write them: `orders 0, 3-5, payments 2`."""
    numbers: dict[str, list[list[int]]] = {}
    for topic, number in sorted(partitions):
        ranges = numbers.setdefault(topic, [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    parts = [
        f"{topic} {', '.join(str(first) if first == last else f'{first}-{last}' for first, last in ranges)}"
        for topic, ranges in numbers.items()
    ]
    return ", ".join(parts)
