"""The sink: what workers write counts as a whole or is not there."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.decode.files import Store
from pipeline.decode.layout import TOPIC, log_dirs, spans
from pipeline.decode.rows import Options
from pipeline.decode.schema import TABLES
from pipeline.errors import LogDamagedError
from pipeline.plan import Task
from pipeline.sink import UnfinishedFile, read_file, write
from pipeline.synth import Writer
from tests.pipeline.group_logs import fill, flip


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    fill(Writer(tmp_path / f"{TOPIC}-0", segment_bytes=100), range(3))
    last = max((tmp_path / f"{TOPIC}-0").glob("*.log"))
    flip(last)
    task = Task(tuple(spans(log_dirs([str(tmp_path)])[0])))
    options, raw = Options(tables=frozenset(TABLES), on_error="fail"), tmp_path / "raw"
    with pytest.raises(LogDamagedError):
        write(task, options, Store.of(raw))
    assert raw.exists(), "it failed after it had begun to write"
    assert [file for file in raw.rglob("*") if file.is_file()] == []
    flip(last)
    said = [row for row in write(task, options, Store.of(raw)).to_pylist() if row["table"]]
    assert {row["table"]: row["rows"] for row in said} == {"batches": 3, "offset_commits": 3}
    for _ in range(2):  # a task may run again though it has succeeded
        assert {str(file.relative_to(raw)) for file in raw.rglob("*") if file.is_file()} == {
            row["file"] for row in said
        }
        assert [row for row in write(task, options, Store.of(raw)).to_pylist() if row["table"]] == said


@pytest.mark.parametrize("is_first_finished", [True, False])
def test_two_attempts_at_one_file_do_not_meet(is_first_finished: bool, tmp_path: Path) -> None:
    """Spark may run a task twice at once: each file is there as a whole, whoever else is still writing or gives up."""
    store, rows = Store.of(tmp_path), pa.record_batch({"n": list(range(5))})
    attempts = [UnfinishedFile(store, "raw/t/a.parquet", rows.schema) for _ in range(2)]
    for _ in range(2):
        for one in attempts:
            one.write(rows)
    assert not (tmp_path / "raw/t/a.parquet").exists()
    finished, given_up = attempts if is_first_finished else reversed(attempts)
    assert (finished.close(), finished.rows) == ("raw/t/a.parquet", 10)
    for one in (given_up, finished):
        one.discard()
        assert read_file(store, "raw/t/a.parquet").to_pydict() == {"n": [*range(5)] * 2}
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["a.parquet"]
