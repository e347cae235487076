"""Logs that are read through the data source."""

from pathlib import Path
from typing import Any

from pipeline.decode import replay
from pipeline.decode.layout import log_dirs


def load(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("kafkalog").options(**options).load(str(path))


def offsets(rows: Any) -> dict[tuple[str, str, int], int]:
    return {(row["group"], row["topic"], row["partition"]): row["committed_offset"] for row in rows}


def replayed(directory: Path) -> dict[tuple[str, str, int], int | None]:
    state = replay.State()
    for log in log_dirs([str(directory)]):
        state.pending = {}
        replay.replay(replay.read(log), state)
    return {key: value.offset for key, (_, value) in state.offsets.items()}
