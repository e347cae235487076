"""The last effective record of each key, however its records and the ends of transactions are cut into chunks."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pipeline.decode.latest import Reduction
from pipeline.jobs.compact import KEYED

Event = tuple[str, int, bool, str]  # key, producer, whether it is in a transaction; what it is: row, tombstone, 0 or 1


def find_winners(events: list[Event]) -> dict[str, int]:
    """By definition: of those that count, the one with the highest offset; none if that is a tombstone."""
    last: dict[str, int] = {}
    for at, (key, producer, is_txn, what) in enumerate(events):
        ends = [end for _, of, _, end in events[at:] if of == producer and end in ("0", "1")]
        if what == "tombstone" or (what == "row" and (not is_txn or ends[:1] == ["1"])):
            last[key] = at
    return {key: at for key, at in last.items() if events[at][3] == "row"}


def draw(dice: Random) -> Event:
    """An event of one of two producers, or of none."""
    producer = dice.choice((-1, 7, 7, 7, 8, 8, 8))
    what = dice.choice(("row", "row", "row", "0", "1") if producer > 0 else ("row", "row", "tombstone"))
    what = dice.choice((what,) * 15 + ("tombstone",))  # of a transaction, too
    return dice.choice("aaab"), producer, producer > 0, what


def to_row(at: int, event: Event) -> dict[str, Any]:
    key, producer, is_txn, what = event
    return {
        "key": key.encode(), "log_offset": at, "record_ts": 0, "producer_id": producer, "is_txn": is_txn,
        "is_tombstone": what == "tombstone", "leader_epoch_of_log": 0, "log_dir": "log",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_chunks_and_when_they_are_settled_change_nothing(seed: int) -> None:
    dice = Random(seed)
    for _ in range(40):
        events = [draw(dice) for _ in range(dice.randrange(1, 12))]
        reduction, at = Reduction(["key"], KEYED), 0
        while at < len(events):
            chunk = list(enumerate(events))[at : at + dice.randrange(1, 4)]
            reduction.mark((producer, n, int(what)) for n, (_, producer, _, what) in chunk if what in ("0", "1"))
            rows = [to_row(n, event) for n, event in chunk if event[3] not in ("0", "1")]
            reduction.add(pa.Table.from_pylist(rows, schema=KEYED))
            if dice.random() < 0.5:
                reduction.settle()
            at += len(chunk)
        found = {row["key"].decode(): row["log_offset"] for row in reduction.result().to_pylist()}
        assert found == find_winners(events), events
