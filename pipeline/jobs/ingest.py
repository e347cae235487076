"""Logs to raw tables: once, reading on from where the manifest says, or for as long as the logs grow."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from pipeline import manifest
from pipeline.decode.positions import START, Position

Written = list[tuple[str, str, int]]


def ingest(spark: SparkSession, paths: list[str], out: Path, **options: str) -> manifest.Manifest:
    """Read what the logs hold beyond the manifest; what the manifest is then. Running it again changes nothing."""
    with manifest.locked(out):
        return _ingest(spark, paths, out, options)


def _ingest(spark: SparkSession, paths: list[str], out: Path, options: dict[str, str]) -> manifest.Manifest:
    known = manifest.load(out)
    rows = (
        spark.read.format("kafkalog")
        .options(**options, sink=f"parquet:{out.absolute() / 'raw'}", starting=_said(known.logs))
        .load("\n".join(paths))
        .collect()
    )
    after = known.having(_reached(rows), _relative(out, rows), paths)
    manifest.save(out, after)
    return after


def follow(
    spark: SparkSession, paths: list[str], out: Path, every_ms: int = 500, once: bool = False, **options: str
) -> Any:
    """Start a stream that ingests what is written; the streaming query, running.

    Spark's checkpoint is scratch and begins anew each time: where to go on is in the manifest, which is replaced in one
    step after the files of a batch are there. So a batch that was cut short is read again as a whole, and one that was
    saved is never read twice.
    """
    known = manifest.load(out)
    scratch = out / "checkpoint"
    shutil.rmtree(scratch, ignore_errors=True)
    rows = (
        spark.readStream.format("kafkalog")
        .options(**options, sink=f"parquet:{out.absolute() / 'raw'}", starting=_said(known.logs))
        .load("\n".join(paths))
    )

    def save(batch: DataFrame, _number: int) -> None:
        written = batch.collect()
        with manifest.locked(out):
            before = manifest.load(out)
            later = {
                n: p for n, p in _reached(written).items() if p.next_offset >= before.logs.get(n, START).next_offset
            }
            manifest.save(out, before.having(later, _relative(out, written), paths))

    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{every_ms} milliseconds"}
    writer = rows.writeStream.foreachBatch(save).option("checkpointLocation", str(scratch.absolute()))
    return writer.trigger(**trigger).start()


def _reached(rows: list[Any]) -> dict[str, Position]:
    return {row.log: Position(*json.loads(row.position)) for row in rows if row.log}


def _said(positions: dict[str, Position]) -> str:
    return json.dumps({name: msgspec.structs.astuple(position) for name, position in positions.items()})


def _relative(out: Path, rows: list[Any]) -> Written:
    root = out.absolute()
    return [(row.table, str(Path(row.file).relative_to(root)), row.rows) for row in rows if row.file]
