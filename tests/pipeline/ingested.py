"""What an ingestion has written."""

from pathlib import Path

import pyarrow.parquet as pq

from pipeline import manifest
from pipeline.decode.files import Store
from pipeline.jobs.ingest import ingest


def ids(out: Path, table: str = "offset_commits") -> list[tuple[int, int]]:
    """(partition of the log, offset) of every row that the manifest counts."""
    files = manifest.load(out).files.get(table, ())
    rows = [row for file in files for row in pq.ParquetFile(out / file).read().to_pylist()]
    return sorted((row["log_partition"], row["log_offset"]) for row in rows)


def read(logs: Path, out: Path | Store) -> manifest.Manifest:
    return ingest(None, [str(logs)], out)
