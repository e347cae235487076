"""Summarize logs without Spark: totals of each log, and every problem."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pipeline.decode.layout import entries, logs_at, skipped_files, spans
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.decode.schema import TABLES

Report = Callable[[str], None]


class LogTotals(msgspec.Struct, frozen=True):
    """The contents of the logs in numbers, and the files of a cleaner that were not read.

    `bytes` are those of the segments; of a log on a cluster, those of the batches that it sent.
    """

    bytes: int
    batches: int
    ignored: list[str]


class ScanReport(msgspec.Struct, frozen=True):
    """Totals by log, rows by table, problems as in `log_problems`."""

    logs: dict[str, "LogTotals"]
    rows: dict[str, int]
    problems: list[dict[str, Any]]


def scan(
    paths: list[str], topics: Sequence[str], on_error: str = "record", report: Report = lambda _line: None
) -> ScanReport:
    """Read all logs once; nothing is kept but counts and problems."""
    rows = dict.fromkeys(TABLES, 0)
    logs: dict[str, LogTotals] = {}
    problems: list[dict[str, Any]] = []
    for log in logs_at(paths, topics):
        report(f"reading {log.name}")
        size = batches = 0
        for span in spans(log):
            size += span.end - span.start
            for part in SpanDecoder(span, Options(on_error=on_error)):
                rows[part.table] += part.batch.num_rows
                if part.table == "batches":
                    batches += part.batch.num_rows
                    size += sum(part.batch["size"].to_pylist()) if log.is_on_cluster else 0
                problems += part.batch.to_pylist() if part.table == "log_problems" else []
        logs[log.name] = LogTotals(size, batches, skipped_files(entries(log)))
    return ScanReport(logs, rows, problems)
