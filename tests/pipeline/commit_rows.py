"""Rows of raw commits, as DataFrames."""

from typing import Any

import pyarrow as pa


def frame(spark: Any, rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))


def commit_row(at: int, ts: int, offset: int | None, group: str = "g", **columns: Any) -> dict[str, Any]:
    """An offset commit, or with None for its offset a tombstone."""
    return {
        "log_dir": "d", "log_partition": 0, "log_offset": at, "record_ts": ts, "commit_ts": None if offset is None else ts,
        "group": group, "topic": "t", "partition": 0, "is_tombstone": offset is None, "committed_offset": offset,
        "is_txn": False, "undecodable": False, "leader_epoch_of_log": 0, "producer_id": -1, "batch_base": at,
    } | columns  # fmt: skip
