"""The sink: what workers write counts as a whole or is not there."""

from pathlib import Path

import pytest

from pipeline.decode.files import Store
from pipeline.decode.layout import TOPIC, log_dirs, spans
from pipeline.decode.rows import Options
from pipeline.decode.schema import TABLES
from pipeline.errors import LogDamagedError
from pipeline.plan import Task
from pipeline.sink import write
from pipeline.synth import Writer, commit


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / f"{TOPIC}-0", segment_bytes=100)
    for n in range(3):
        writer.append([commit(("g", "t", 0), n, n)])
    last = max((tmp_path / f"{TOPIC}-0").glob("*.log"))
    whole = last.read_bytes()
    last.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    task = Task(tuple(spans(log_dirs([str(tmp_path)])[0])))
    options, raw = Options(tables=frozenset(TABLES), on_error="fail"), tmp_path / "raw"
    with pytest.raises(LogDamagedError):
        write(task, options, Store.of(raw))
    assert raw.exists(), "it failed after it had begun to write"
    assert [file for file in raw.rglob("*") if file.is_file()] == []
    last.write_bytes(whole)
    said = [row for row in write(task, options, Store.of(raw)).to_pylist() if row["table"]]
    assert {row["table"]: row["rows"] for row in said} == {"batches": 3, "offset_commits": 3}
    assert {str(file.relative_to(raw)) for file in raw.rglob("*") if file.is_file()} == {row["file"] for row in said}
