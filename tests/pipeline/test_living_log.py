"""Reading on while a log lives: each record that is there when its turn comes is read once, within the limit."""

from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from pipeline import manifest
from pipeline.decode.layout import TOPIC
from pipeline.decode.logs import START
from pipeline.jobs.ingest import Follower, ingest
from tests.pipeline.ingested import ids
from tests.pipeline.living_log import LivingLog

NAME = f"{TOPIC}-0"


def read_on(logs: Path, out: Path, max_bytes: int | None) -> int:
    """Take a step, as one that follows does, or read all that is there; the offset up to which the log was read."""
    if max_bytes:
        with Follower([str(logs)], out, max_bytes).lock_tables() as follower:
            before = follower.known.logs.get(NAME, START).next_offset
            reached = follower.step()
            after = follower.known.logs.get(NAME, START).next_offset
            assert after == before + reached
    return (manifest.load(out) if max_bytes else ingest(None, [str(logs)], out)).logs.get(NAME, START).next_offset


@pytest.mark.parametrize("seed", range(8))
def test_each_record_is_read_once_and_no_step_goes_beyond_its_limit(seed: int, tmp_path: Path) -> None:
    dice, logs, out = Random(seed), tmp_path / "logs", tmp_path / "out"
    log, turn, wanted = LivingLog(logs / NAME), 0, set[int]()
    for _ in range(25):
        for _ in range(dice.randrange(6)):
            log.live(dice)
        sizes = [sum(map(len, segment.values())) for segment in log.segments.values()]
        max_bytes = dice.choice((None, dice.randrange(1, 600), max(1, sum(sizes[: dice.randrange(1, 4)]))))
        after = read_on(logs, out, max_bytes)
        wanted |= log.offsets(turn, after)
        read = [len(batch) for batch in log.batches(turn, after)]
        assert max_bytes is None or sum(read[:-1]) < max_bytes, (sizes, turn, after)
        turn = after
    log.finish()
    assert read_on(logs, out, None) == log.next_offset
    assert ids(out) == [(0, offset) for offset in sorted(wanted | log.offsets(turn, log.next_offset))]
    rows = [row for file in out.glob("raw/log_problems/*") for row in pq.ParquetFile(file).read().to_pylist()]
    assert [row for row in rows if row["severity"] == "problem"] == []
