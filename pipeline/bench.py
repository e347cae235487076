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

import msgspec
import pyarrow.parquet as pq

from pipeline.decode import plain
from pipeline.decode.headers import Headers, chain, crc_ok
from pipeline.decode.latest import latest
from pipeline.decode.layout import TOPIC, LogDir, log_dirs, segments, spans
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.jobs.compact import compact, settle
from pipeline.jobs.ingest import Follower
from pipeline.session import Settings
from pipeline.synth import Plan, enlarge_log, write_logs

ROUNDS = 3
CHUNK_MB = 16  # what a worker reads at a time
Report = Callable[[str], None]


class Figure(msgspec.Struct, frozen=True):
    """One ratio: what was measured, against what in the same run, and the goal: at least, or at most so much."""

    what: str
    against: str
    ratio: float
    goal: float
    at_least: bool = True
    more: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal was reached."""
        return self.ratio >= self.goal if self.at_least else self.ratio <= self.goal

    def __str__(self) -> str:
        sign, judged = ">=" if self.at_least else "<=", "met" if self.met else "MISSED"
        return (
            f"{self.ratio:6.1f}x {self.against} (goal {sign} {self.goal:g}x, {judged}){self.more and '; ' + self.more}"
        )


def bench(mb: int, out: Path | None, settings: Settings, report: Report) -> dict[str, Any]:
    """Return all figures with their goals, how time and memory grow, and under which conditions."""
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        root = Path(scratch)
        figures = _decoding(root, report)
        growth, memory_figure = _growth(root, mb, report)
        on_spark, start = _spark(root, mb, settings, report)
        figures += [memory_figure, _measure_follow(root, report), *on_spark]
    return {
        "figures": {figure.what: str(figure) for figure in figures},
        "goals": f"{sum(figure.met for figure in figures)} of {len(figures)} met",
        "growth": growth,
        "conditions": _conditions() | start,
    }


def _conditions() -> dict[str, str]:
    return {
        "shape": "offset commits of value v3, 1-40 records a batch unless said, about 85 bytes a record, uncompressed",
        "cache": "warm page cache",
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


def make_log(root: Path, name: str, batch: tuple[int, int], records: int, copies: int = 1) -> Path:
    """Return a made-up log of one partition in which one shape of batches is repeated."""
    write_logs(
        root / f"{name}-seed",
        Plan(
            partitions=1, records=records, batch=batch, segment_bytes=1 << 40, codecs=(0,), versions=(3,), txn_share=0.0
        ),
    )
    (log,) = log_dirs([str(root / f"{name}-seed")])
    source = root / f"{name}-seed" / segments(log)[0].path
    enlarge_log(source, root / name / f"{TOPIC}-0", copies)
    return root / name


def whole(log: LogDir, tables: tuple[str, ...] = ("offset_commits",)) -> int:
    """Decode a log; rows of the tables."""
    options = Options(tables=frozenset(tables))
    return sum(rows.batch.num_rows for span in spans(log) for rows in SpanDecoder(span, options))


def one_by_one(log: LogDir) -> int:
    """Return the same with the plain reader, offset commits only."""
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
        crc_ok(data, Headers.at(data, found))


def _decoding(root: Path, report: Report) -> list[Figure]:
    figures: list[Figure] = []
    # shape: batch sizes, records, goal against the plain reader
    shapes = {
        "mixed batches": ((1, 40), 60_000, 12.0),
        "1 record a batch": ((1, 1), 20_000, 8.0),
        "10,000 a batch": ((10_000, 10_000), 60_000, 12.0),
    }
    for shape, (batch, records, goal) in shapes.items():
        (log,) = log_dirs([str(make_log(root, shape.replace(" ", "-").replace(",", ""), batch, records, 4))])
        slow = fastest(lambda log=log: one_by_one(log))  # type: ignore[misc]  # a default binds the loop's log
        whole(log)  # compiles, and fills the cache
        quick = fastest(lambda log=log: whole(log))  # type: ignore[misc]  # as above
        rate = f"{4 * records / quick / 1e6:.2f} M records/s"
        figures.append(Figure(f"decode, {shape}", "the plain Python reader", slow / quick, goal, more=rate))
        report(f"decoded {shape}")
        if shape == "mixed batches":
            figures += _against(log, quick)
    return figures


def _against(log: LogDir, decoding: float) -> list[Figure]:
    """Decoding against what must be done in any case, and against the reader of aiokafka where it is installed."""
    walking = fastest(lambda: _walk(log))
    reading = fastest(lambda: [log.store.read(segment.path) for segment in segments(log)])
    figures = [
        Figure("headers and checksums, time", "reading the bytes", walking / reading, 8, at_least=False),
    ]
    if importlib.util.find_spec("aiokafka"):
        seconds = fastest(lambda: _iterate(log))
        # aiokafka does not decode keys and values, which is most of the work here
        figures.append(Figure("decode, speed", "aiokafka iterating over records only", seconds / decoding, 0.8))
    with tempfile.TemporaryDirectory() as scratch:
        targets = (Path(scratch) / f"compacted-{number}" for number in range(ROUNDS))  # each must be new
        took = fastest(lambda: list(compact(log.store.uri, next(targets))))
        proving = fastest(lambda: settle(log))
    figures.append(
        Figure("compaction with its proof, time", "two replays, which are the proof", took / (2 * proving), 1.5, False)
    )
    return figures


def _iterate(log: LogDir) -> None:
    from aiokafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]  # it ships no types

    for segment in segments(log):
        records = MemoryRecords(log.store.read(segment.path))
        while (batch := records.next_batch()) is not None:
            batch.validate_crc()
            for _ in batch:
                pass


def _growth(root: Path, mb: int, report: Report) -> tuple[dict[str, str], Figure]:
    """Time and memory of `reduce=latest` on one core as the log grows, each in a process of its own."""
    figures = {}
    seconds, size, peak = 0.0, 0, 0
    base = _measure(make_log(root, "nothing", (1, 1), 1))[1]
    for want in sorted({min(10, mb), min(100, mb), mb}):
        path = make_log(root, f"grown-{want}", (1, 40), 120_000, max(1, want // 10))
        size = sum(segment.size for log in log_dirs([str(path)]) for segment in segments(log))
        seconds, peak = _measure(path)
        rate = f"{size / seconds / 1e6:.0f} MB/s a core"
        figures[f"latest of {size >> 20} MB"] = f"{seconds:.2f} s, {rate}, peak {peak >> 10} MB of memory"
        report(f"latest of {size >> 20} MB")
    hours = 1e12 / (size / seconds) / 3600
    figures["1 TB, by extrapolation from the last line"] = (
        f"{hours:.1f} core hours: {hours * 60 / 50:.0f} minutes on 50 cores, one for each of 50 logs; memory as above"
    )
    chunks = (peak - base) / 1024 / CHUNK_MB
    return figures, Figure("memory of a worker", f"its chunk of {CHUNK_MB} MB", chunks, 25, at_least=False)


def _measure(path: Path) -> tuple[float, int]:
    """(seconds, peak kilobytes) of one reduction in a process of its own."""
    child = f"from pipeline.bench import measure; measure({str(path)!r})"
    said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), int(said[1])


def measure(path: str) -> None:
    """Print seconds and peak kilobytes of one reduction."""
    (log,) = log_dirs([path])
    started = time.perf_counter()
    latest(spans(log), Options(tables=frozenset()))
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _spark(root: Path, mb: int, settings: Settings, report: Report) -> tuple[list[Figure], dict[str, str]]:
    from pipeline.session import session

    master = settings.master or "local[*]"
    path = str(make_log(root, "spark", (1, 40), 120_000, max(1, mb // 10)))
    started = time.perf_counter()
    spark = session(settings=settings)
    ready = time.perf_counter() - started
    try:
        started = time.perf_counter()
        _noop(spark.read.format("kafkalog").load(path))
        first = time.perf_counter() - started
        figures = _source_figures(spark, root, path, report)
        figures += _lag_figures(spark, root, path, report)
    finally:
        spark.stop()
    return figures, {"Spark": master, "Spark's start and first job": f"{ready:.1f} s and {first:.1f} s"}


def _noop(rows: Any) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _source_figures(spark: Any, root: Path, path: str, report: Report) -> list[Figure]:
    (log,) = log_dirs([path])

    def source(**options: str) -> Any:
        return spark.read.format("kafkalog").options(**options).load(path)

    rows = fastest(lambda: _noop(source()))
    empty = fastest(lambda: _noop(_decode_in_spark(spark, path)))
    report("Spark: rows handed over")
    slow = fastest(lambda: one_by_one(log))
    reduced = fastest(lambda: _noop(source(reduce="latest")))
    crossing = fastest(lambda: _crossing(source()))
    report("Spark: latest offsets")
    sink = str(root / "ours")
    ours = fastest(lambda: source(sink=f"parquet:{sink}").collect())
    theirs = fastest(lambda: source().write.mode("overwrite").parquet(str(root / "theirs")))
    report("Spark: Parquet")
    return [
        Figure("Spark source to noop, speed", "the plain reader on one core", slow / rows, 5),
        Figure("Spark source to noop, time", "decoding in workers, handing nothing over", rows / empty, 2.5, False),
        Figure("latest, reduced in the worker, speed", "reducing rows in Spark", crossing / reduced, 2.5),
        Figure("Parquet of all raw tables by the worker, speed", "Spark's writer, commits only", theirs / ours, 2),
    ]


def _decode_in_spark(spark: Any, path: str) -> Any:
    """Return the same spans, decoded in the workers by `mapInArrow`, of which no row comes back."""
    from collections.abc import Iterator

    import pyarrow as pa

    cut = [span for log in log_dirs([path]) for span in spans(log)]

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for _ in SpanDecoder(cut[number], Options(tables=frozenset({"offset_commits"}))):
                    pass
            yield pa.RecordBatch.from_pydict({"id": pa.array([], pa.int64())})

    return spark.range(0, len(cut), 1, len(cut)).mapInArrow(decode, "id bigint")


def _lag_figures(spark: Any, root: Path, path: str, report: Report) -> list[Figure]:
    """Lag status of all that was ingested, and a stream that follows a log, by the times that Spark reports."""
    from pipeline.tables.commits import offset_commits
    from pipeline.tables.lag import lag_status, log_end_offsets

    files = [str(file) for file in (root / "ours" / "offset_commits").glob("*.parquet")]
    newest = max(pq.read_metadata(file).num_rows for file in files)
    raw = spark.read.parquet(*files)
    scan = fastest(lambda: _noop(raw))
    batches = spark.read.parquet(str(root / "ours" / "batches"))
    commits = offset_commits(raw, batches)
    lag = fastest(lambda: _noop(lag_status(commits, log_end_offsets(None, commits), 0)))
    report("Spark: lag status")
    return [
        Figure("lag status of the history, time", "scanning it", lag / scan, 8, False, more=f"{newest} rows in a file")
    ]


def _measure_follow(root: Path, report: Report) -> Figure:
    """Return how long one step of `follow` takes, against its usual pause: what a reader waits beside that pause."""
    from pipeline.synth import Writer, commit

    writer, steps = Writer(root / "followed" / f"{TOPIC}-0"), []
    with Follower([str(root / "followed")], root / "followed-tables").lock_tables() as follower:
        for number in range(40):
            writer.append([commit(("g", "t", 0), number, number)])
            started = time.perf_counter()
            follower.step()
            steps.append(time.perf_counter() - started)
    report("follow")
    return Figure("follow, a step, time", "its pause of 500 ms", sorted(steps)[len(steps) // 2] / 0.5, 0.2, False)


def _crossing(rows: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

    last = rows.groupBy("group", "topic", "partition").agg(F.max_by("committed_offset", "log_offset"))
    _noop(last)
