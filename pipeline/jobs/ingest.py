"""Logs to raw tables: once, reading on from where the manifest says, or for as long as the logs grow."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from pipeline import manifest
from pipeline.decode.layout import TOPIC, logs_at
from pipeline.decode.positions import START, Position

Written = list[tuple[str, str, int]]


def ingest(spark: SparkSession, paths: list[str], out: Path, **options: str) -> manifest.Manifest:
    """Read what the logs hold beyond the manifest; what the manifest is then. Running it again changes nothing."""
    with manifest.locked(out):
        known = _known(paths, out, options)
        rows = _options(spark.read.format("kafkalog"), known, out, options).load("\n".join(paths)).collect()
        after = _after(known, rows, out, paths)
        manifest.save(out, after)
        return after


@contextmanager
def follow(
    spark: SparkSession, paths: list[str], out: Path, every_ms: int = 500, once: bool = False, **options: str
) -> Iterator[Any]:
    """A stream that ingests what is written, as the running query; it is stopped when the block is left.

    Until then nobody else may read logs into these tables (TablesInUseError); to build others of them is fine. Spark's
    checkpoint is scratch and begins anew each time: where to go on is in the manifest, which is replaced in one step
    after the files of a batch are there. So a batch that was cut short is read again as a whole, and one that was saved
    is never read twice.
    """
    with manifest.locked(out):
        scratch = out / "checkpoint"
        shutil.rmtree(scratch, ignore_errors=True)
        saved = _Saved(_known(paths, out, options), out, paths)
        rows = _options(spark.readStream.format("kafkalog"), saved.last, out, options).load("\n".join(paths))
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{every_ms} milliseconds"}
        writer = rows.writeStream.foreachBatch(saved).option("checkpointLocation", str(scratch.absolute()))
        query = writer.trigger(**trigger).start()
        try:
            yield query
        finally:
            saved.end()
            query.stop()


class _Saved:
    """Puts the batches of a stream into the manifest, until its end."""

    def __init__(self, last: manifest.Manifest, out: Path, paths: list[str]) -> None:
        self.last, self.out, self.paths = last, out, paths
        self._ended = False
        self._saving = threading.Lock()

    def __call__(self, batch: DataFrame, _number: int) -> None:
        """Called on a thread of Spark's, which a stream that is stopped does not wait for: it may come too late."""
        rows = batch.collect()
        with self._saving:
            if self._ended:
                return
            if (
                manifest.load(self.out).logs != self.last.logs
            ):  # where files cannot be locked: some network file systems
                raise manifest.TablesInUseError(f"{self.out} was written to by another process; nothing more is saved")
            self.last = _after(self.last, rows, self.out, self.paths)
            manifest.save(self.out, self.last)

    def end(self) -> None:
        """Save nothing more: the lock is about to be released."""
        with self._saving:
            self._ended = True


def _known(paths: list[str], out: Path, options: dict[str, str]) -> manifest.Manifest:
    """The manifest, with where the logs lie that are there now."""
    found = logs_at(paths, options.get("topic", TOPIC))
    return manifest.load(out).at({log.name: log.place for log in found})


def _options(reader: Any, known: manifest.Manifest, out: Path, options: dict[str, str]) -> Any:
    starting = {name: msgspec.structs.astuple(position) for name, position in known.logs.items()}
    return reader.options(**options, sink=f"parquet:{out.absolute() / 'raw'}", starting=json.dumps(starting))


def _after(known: manifest.Manifest, rows: list[Any], out: Path, paths: list[str]) -> manifest.Manifest:
    """The manifest once what the workers wrote counts. A position never goes back."""
    root = out.absolute()
    written: Written = [(row.table, str(Path(row.file).relative_to(root)), row.rows) for row in rows if row.file]
    reached = {row.log: Position(*json.loads(row.position)) for row in rows if row.log}
    later = {n: p for n, p in reached.items() if p.next_offset >= known.logs.get(n, START).next_offset}
    return known.at({row.log: row.place for row in rows if row.log}).having(later, written, paths)
