"""Measure the pipeline. Every figure is a ratio of two things measured in the same run, one after the other.

Seconds differ between machines and between hours; ratios of neighbours much less. Logs are made up, read once before
they are measured (page cache), and a part is measured `ROUNDS` times, of which the fastest counts.
"""

import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.decode import kernels, plain
from pipeline.decode.headers import Headers, chain, crc_ok
from pipeline.decode.latest import latest
from pipeline.decode.layout import TOPIC, LogDir, log_dirs, segments, spans
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.jobs.compact import compact
from pipeline.synth import Plan, enlarged, write_logs

ROUNDS = 3
Report = Callable[[str], None]


def bench(mb: int, out: Path | None, master: str, memory: str, report: Report) -> dict[str, Any]:
    """All figures, by name: what was measured, the ratio, the goal."""
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        root = Path(scratch)
        figures = _decoding(root, report)
        figures |= _growth(root, mb, report)
        figures |= _spark(root, mb, master, memory, report)
    return {"figures": figures, "conditions": _conditions()}


def _conditions() -> dict[str, str]:
    return {
        "shape": "offset commits of value v3, 1-40 records a batch unless said, about 85 bytes a record, uncompressed",
        "cache": "warm page cache",
        "numba": "yes" if kernels.HAS_NUMBA else "no",
        "python": sys.version.split()[0],
    }


def fastest(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def made(root: Path, name: str, batch: tuple[int, int], records: int, copies: int = 1) -> Path:
    """A made-up log of one partition in which one shape of batches is repeated."""
    write_logs(
        root / f"{name}-seed",
        Plan(
            partitions=1, records=records, batch=batch, segment_bytes=1 << 40, codecs=(0,), versions=(3,), txn_share=0.0
        ),
    )
    (log,) = log_dirs([str(root / f"{name}-seed")])
    source = root / f"{name}-seed" / segments(log)[0].path
    enlarged(source, root / name / f"{TOPIC}-0", copies)
    return root / name


def whole(log: LogDir, decoder: str, tables: tuple[str, ...] = ("offset_commits",)) -> int:
    """Decode a log; rows of the tables."""
    options = Options(decoder=decoder, tables=frozenset(tables))
    return sum(rows.batch.num_rows for span in spans(log) for rows in SpanDecoder(span, options))


def one_by_one(log: LogDir) -> int:
    """The same with the plain reader, offset commits only."""
    count = 0
    for segment in segments(log):
        data = log.store.read(segment.path)
        for batch in plain.batches(data):
            count += sum(plain.commit(record) is not None for record in plain.records(data, batch))
    return count


def _walk(log: LogDir) -> None:
    for segment in segments(log):
        data = log.store.read(segment.path)
        found, _ = chain(data, 0, len(data))
        crc_ok(data, Headers.at(data, np.array(found, np.int64)))


def _decoding(root: Path, report: Report) -> dict[str, str]:
    figures = {}
    shapes = {
        "mixed batches": ((1, 40), 60_000),
        "1 record a batch": ((1, 1), 20_000),
        "10,000 a batch": ((10_000, 10_000), 60_000),
    }
    for shape, (batch, records) in shapes.items():
        (log,) = log_dirs([str(made(root, shape.replace(" ", "-").replace(",", ""), batch, records, 4))])
        slow = fastest(lambda log=log: one_by_one(log), 1)  # type: ignore[misc]  # a default binds the loop's log
        for decoder in ("numba", "numpy") if kernels.HAS_NUMBA else ("numpy",):
            whole(log, decoder)  # compiles, and fills the cache
            quick = fastest(lambda log=log, decoder=decoder: whole(log, decoder))  # type: ignore[misc]  # as above
            rate = 4 * records / quick / 1e6
            figures[f"{decoder}, {shape}"] = f"{slow / quick:.1f}x the plain reader ({rate:.2f} M records/s)"
        report(f"decoded {shape}")
        if shape == "mixed batches":
            figures |= _against(log, fastest(lambda log=log: whole(log, "auto")))  # type: ignore[misc]  # as above
    return figures


def _against(log: LogDir, decoding: float) -> dict[str, str]:
    """Decoding against what must be done in any case, and against the reader of aiokafka where it is installed."""
    walking = fastest(lambda: _walk(log))
    reading = fastest(lambda: [log.store.read(segment.path) for segment in segments(log)])
    figures = {
        "decode": f"{decoding / walking:.1f}x the time of walking headers with their checksums",
        "headers and checksums": f"{walking / reading:.1f}x the time of reading the bytes",
    }
    if importlib.util.find_spec("aiokafka"):
        from aiokafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]  # it ships no types

        def iterate() -> None:
            for segment in segments(log):
                records = MemoryRecords(log.store.read(segment.path))
                while (batch := records.next_batch()) is not None:
                    for _ in batch:
                        pass

        figures["decode, against aiokafka iterating only"] = f"{fastest(iterate) / decoding:.1f}x as fast"
    with tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        list(compact(log.store.uri, Path(scratch) / "compacted"))
        took = time.perf_counter() - started
    figures["compaction with its proof"] = f"{took / walking:.0f}x headers and checksums"
    return figures


def _growth(root: Path, mb: int, report: Report) -> dict[str, str]:
    """Time and memory of `reduce=latest` on one core as the log grows, each in a process of its own."""
    figures = {}
    seconds = 0.0
    size = 0
    for want in sorted({min(10, mb), min(100, mb), mb}):
        path = made(root, f"grown-{want}", (1, 40), 120_000, max(1, want // 10))
        (log,) = log_dirs([str(path)])
        size = sum(segment.size for segment in segments(log))
        child = f"from pipeline.bench import measure; measure({str(path)!r})"
        said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout.split()
        seconds = float(said[0])
        figures[f"latest of {size >> 20} MB"] = (
            f"{seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s a core, peak {int(said[1]) >> 10} MB"
        )
        report(f"latest of {size >> 20} MB")
    hours = 1e12 / (size / seconds) / 3600
    figures["1 TB, by extrapolation"] = (
        f"{hours:.1f} core hours: {hours * 60 / 50:.0f} minutes on 50 cores, one for each of 50 logs"
    )
    return figures


def measure(path: str) -> None:
    """Print seconds and peak kilobytes of one reduction."""
    (log,) = log_dirs([path])
    started = time.perf_counter()
    latest(spans(log), Options(tables=frozenset()))
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _spark(root: Path, mb: int, master: str, memory: str, report: Report) -> dict[str, str]:
    from pipeline.session import session

    path = str(made(root, "spark", (1, 40), 120_000, max(1, mb // 10)))
    (log,) = log_dirs([path])
    started = time.perf_counter()
    spark = session(master, memory=memory)
    ready = time.perf_counter() - started

    def source(**options: str) -> Any:
        return spark.read.format("kafkalog").options(**options).load(path)

    try:
        started = time.perf_counter()
        source().write.format("noop").mode("overwrite").save()
        first = time.perf_counter() - started
        rows = fastest(lambda: source().write.format("noop").mode("overwrite").save())
        report("Spark: rows handed over")
        slow = fastest(lambda: one_by_one(log), 1)
        reduced = fastest(lambda: source(reduce="latest").write.format("noop").mode("overwrite").save())
        crossing = fastest(lambda: _crossing(source()), 2)
        report("Spark: latest offsets")
        ours = fastest(lambda: source(sink=f"parquet:{root / 'ours'}").collect(), 2)
        theirs = fastest(lambda: source().write.mode("overwrite").parquet(str(root / "theirs")), 2)
        report("Spark: Parquet")
    finally:
        spark.stop()
    return {
        "Spark start and first job": f"{ready:.1f} s and {first:.1f} s",
        f"Spark, rows to noop, {master}": f"{slow / rows:.1f}x the plain reader on one core",
        "latest reduced in the worker": f"{crossing / reduced:.1f}x as fast as reducing rows in Spark",
        "Parquet from the worker (all raw tables)": f"{theirs / ours:.1f}x as fast as Spark's writer (commits only)",
    }


def _crossing(rows: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

    last = rows.groupBy("group", "topic", "partition").agg(F.max_by("committed_offset", "log_offset"))
    last.write.format("noop").mode("overwrite").save()
