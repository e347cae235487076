"""Histories that are read from records."""

from pathlib import Path

from pipeline.history.activity import read_histories
from pipeline.history.records import Row
from tests.pipeline.group_logs import read_rows


def read(directory: Path) -> list[Row]:
    """All rows of a log that has no transactions."""
    return list(read_histories(*(read_rows(directory, table) for table in ("group_records", "offset_commits"))))
