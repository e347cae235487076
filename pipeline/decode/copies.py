"""Compare the copies of one log that the brokers of a cluster have: which part of a copy has diverged.

A leader epoch ends where the next one begins. A copy may hold records of an old epoch beyond that offset: its broker
was cut off, and would truncate them when it followed the new leader. Such a tail has diverged, and is left out.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

NEVER = 1 << 62


Batch = tuple[str, int, int, int]  # log, leader epoch, base offset, last offset


def find_epoch_ends(batches: Iterable[Batch]) -> dict[int, int]:
    """Return the offset at which each leader epoch ends (exclusive), from the batches of all copies in log order.

    An epoch that is followed by a lower one in the same copy is ignored as damage: no checksum covers that field.
    """
    begins: dict[int, int] = {}
    lowest: dict[str, int] = {}  # of what follows in the same copy
    for log, epoch, base, _ in reversed(list(batches)):
        if epoch <= lowest.get(log, epoch):
            lowest[log] = epoch
            begins[epoch] = min(base, begins.get(epoch, base))
    newest_first = sorted(begins, reverse=True)
    ends = dict.fromkeys(newest_first[:1], NEVER)
    for later, epoch in pairwise(newest_first):
        ends[epoch] = min(begins[later], ends[later])
    return ends


def find_divergence(partition: int, batches: Iterable[Batch]) -> list[dict[str, Any]]:
    """Return a row of `log_problems` for each copy of the partition's log with a tail that does not count."""
    rows = list(batches)
    ends = find_epoch_ends(rows)
    tails: dict[str, tuple[int, int, int]] = {}  # log -> epoch, first and last offset
    for log, epoch, base, last in rows:
        if last >= (limit := ends.get(epoch, NEVER)):
            _, first, end = tails.get(log, (epoch, max(base, limit), last))
            tails[log] = (epoch, min(first, max(base, limit)), max(end, last))
    text = "records of leader epoch {} at offsets that a later epoch has reached in another copy: left out"
    return [
        _problem("diverged_copy", log, partition, first, last, text.format(epoch))
        for log, (epoch, first, last) in sorted(tails.items())
    ]


def describe_conflict(partition: int, log: str, offset: int) -> dict[str, Any]:
    """Return the row of `log_problems` for a copy that holds another record at an offset, of the same leader epoch."""
    text = "another copy has another record at this offset, of the same leader epoch: these are not copies of one log"
    return _problem("conflicting_copy", log, partition, offset, offset, text)


def _problem(kind: str, log: str, partition: int, first: int, last: int, detail: str) -> dict[str, Any]:
    return {
        "log_dir": log, "log_partition": partition, "segment_base": -1, "pos": 0, "length": 0,
        "kind": kind, "severity": "problem", "from_offset": first, "to_offset": last, "detail": detail,
    }  # fmt: skip
