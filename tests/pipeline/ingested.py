"""What an ingestion has written."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline import manifest
from pipeline.decode.files import Store
from pipeline.jobs.ingest import ingest


def ids(out: Path, table: str = "offset_commits") -> list[tuple[int, int]]:
    """(partition of the log, offset) of every row that the manifest counts."""
    return sorted((row["log_partition"], row["log_offset"]) for row in rows(out, table))


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """Every row of a raw table that the manifest counts."""
    files = manifest.load(out).files.get(table, ())
    return [row for file in files for row in pq.ParquetFile(out / file).read().to_pylist()]


def read(logs: Path, out: Path | Store) -> manifest.Manifest:
    return ingest(None, [str(logs)], out)
