"""Measure the pipeline. Every figure is a ratio of two things measured in the same run, one after the other.

Time is that of the processor, of this process and of those that it started: on a machine that does other work beside,
seconds by the clock say more of the others. Seconds differ between machines and between hours; ratios of neighbours
much less. Logs are made up, read once before they are measured (page cache), and a work is done `ROUNDS` times, of
which the fastest counts. On Spark each work is done once on a small log before, which compiles it; a log from
`LARGE_MB` on is then read once.
"""

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from pipeline.decode import plain
from pipeline.decode.headers import Headers, chain, crc_ok
from pipeline.decode.latest import latest
from pipeline.decode.layout import TOPIC, log_dirs, segments, spans
from pipeline.decode.logs import LogDir
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.jobs.compact import compact, settle
from pipeline.jobs.ingest import Follower
from pipeline.synth import Plan, enlarge_log, write_logs

ROUNDS = 3
LARGE_MB = 200
SEED_MB, SEED_RECORDS = 10, 120_000  # of the part of which larger logs are many copies
CHUNK_MB = 16  # what a worker reads at a time
Report = Callable[[str], None]
Work = Callable[[], object]
OpenSession = Callable[[], AbstractContextManager[Any]]  # of Spark


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


class Stopwatch:
    """Measures works in seconds of the processor, and keeps every round."""

    def __init__(self, report: Report) -> None:
        self.report, self.rounds = report, dict[str, list[float]]()

    def measure(
        self, name: str, work: Work, rounds: int = ROUNDS, clock: Callable[[], float] = time.process_time
    ) -> float:
        """Return the seconds of the fastest round."""
        for _ in range(rounds):
            started = clock()
            work()
            self.rounds.setdefault(name, []).append(round(clock() - started, 4))
        self.report(f"{name}: {min(self.rounds[name]):.2f} s of the processor")
        return min(self.rounds[name])


class ProcessTree:
    """The processor time of this process and of those below it: Spark's Java, and Python workers below that.

    Of a process that has ended the time counts that was seen last, since Spark's daemon does not wait for its workers
    and no account of them is left. Needs Linux: elsewhere this is the clock's time.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], int] = {}  # (process, when it started) -> ticks

    def seconds(self) -> float:
        """Return the time that was spent until now."""
        processes = Path("/proc")
        if not (processes / "self" / "stat").exists():
            return time.perf_counter()
        parents: dict[int, int] = {}
        spent: dict[int, tuple[str, int]] = {}
        for directory in processes.iterdir():
            if directory.name.isdigit():
                try:
                    fields = (directory / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended
                parents[int(directory.name)] = int(fields[1])
                spent[int(directory.name)] = fields[19], int(fields[11]) + int(fields[12])
        generation = {os.getpid()}
        while generation:
            self._seen |= {(one, spent[one][0]): spent[one][1] for one in generation if one in spent}
            generation = {process for process, parent in parents.items() if parent in generation}
        return sum(self._seen.values()) / os.sysconf("SC_CLK_TCK")


def bench(mb: int, out: Path | None, open_session: OpenSession, report: Report) -> dict[str, Any]:
    """Return all figures with their goals, how time and memory grow, and under which conditions."""
    watch = Stopwatch(report)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        root = Path(scratch)
        figures = _measure_decoding(root, watch)
        growth, memory_figure = _growth(root, mb, report)
        figures += [memory_figure, _measure_follow(root, report)]
        on_spark, start = _spark(root, mb, open_session, watch)
        figures += on_spark
    return {
        "figures": {figure.what: str(figure) for figure in figures},
        "goals": f"{sum(figure.met for figure in figures)} of {len(figures)} met",
        "growth": growth,
        "seconds of the processor": watch.rounds,
        "conditions": _conditions() | start,
    }


def _conditions() -> dict[str, str]:
    return {
        "shape": "offset commits of value v3, 1-40 records a batch unless said, about 85 bytes a record, uncompressed",
        "cache": "warm page cache",
        "python": sys.version.split()[0],
    }


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


def copies_of(mb: int) -> int:
    """Return how often the seed is in a log of so many megabytes."""
    return max(1, mb // SEED_MB)


def grow_log(root: Path, mb: int) -> Path:
    """Return a made-up log of mixed batches of about so many megabytes."""
    name = f"grown-{mb}"
    return root / name if (root / name).is_dir() else make_log(root, name, (1, 40), SEED_RECORDS, copies_of(mb))


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


def _measure_decoding(root: Path, watch: Stopwatch) -> list[Figure]:
    figures: list[Figure] = []
    # shape: batch sizes, records, goal against the plain reader
    shapes = {
        "mixed batches": ((1, 40), 60_000, 12.0),
        "1 record a batch": ((1, 1), 20_000, 8.0),
        "10,000 a batch": ((10_000, 10_000), 60_000, 12.0),
    }
    for shape, (batch, records, goal) in shapes.items():
        (log,) = log_dirs([str(make_log(root, shape.replace(" ", "-").replace(",", ""), batch, records, 4))])
        slow = watch.measure(f"plain reader, {shape}", partial(one_by_one, log))
        whole(log)  # compiles, and fills the cache
        quick = watch.measure(f"decode, {shape}", partial(whole, log))
        rate = f"{4 * records / quick / 1e6:.2f} M records/s"
        figures.append(Figure(f"decode, {shape}", "the plain Python reader", slow / quick, goal, more=rate))
        if shape == "mixed batches":
            figures += _against(log, quick, watch)
    return figures


def _against(log: LogDir, decoding: float, watch: Stopwatch) -> list[Figure]:
    """Compare decoding with what must be done in any case, and with the reader of aiokafka where it is installed."""
    walking = watch.measure("headers and checksums", partial(_walk, log))
    reading = watch.measure("reading", lambda: [log.store.read(segment.path) for segment in segments(log)])
    figures = [
        Figure("headers and checksums, time", "reading the bytes", walking / reading, 8, at_least=False),
    ]
    if importlib.util.find_spec("aiokafka"):
        seconds = watch.measure("aiokafka", partial(_iterate, log))
        # Its reader is compiled too, and leaves keys and values as they are: to decode those is most of the work here.
        figures.append(Figure("decode, time", "aiokafka iterating over records only", decoding / seconds, 3, False))
    with tempfile.TemporaryDirectory() as scratch:
        targets = (Path(scratch) / f"compacted-{number}" for number in count())  # each must be new
        took = watch.measure("compaction", lambda: list(compact(log.store.uri, next(targets))))
        proving = watch.measure("one replay", partial(settle, log))
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
        path = grow_log(root, want)
        size = sum(segment.size for log in log_dirs([str(path)]) for segment in segments(log))
        seconds, peak = _measure(path)
        rate = f"{size / seconds / 1e6:.0f} MB/s a core"
        figures[f"latest of {size >> 20} MB"] = (
            f"{seconds:.2f} s of the processor, {rate}, peak {peak >> 10} MB of memory"
        )
        report(f"latest of {size >> 20} MB")
    hours = 1e12 / (size / seconds) / 3600
    figures["1 TB, by extrapolation from the last line"] = (
        f"{hours:.1f} core hours: {hours * 60 / 50:.0f} minutes on 50 cores, one for each of 50 logs; memory as above"
    )
    chunks = (peak - base) / 1024 / CHUNK_MB
    return figures, Figure("memory of a worker", f"its chunk of {CHUNK_MB} MB", chunks, 25, at_least=False)


def _measure(path: Path) -> tuple[float, int]:
    """Return (seconds, peak kilobytes) of one reduction in a process of its own."""
    child = f"from {__package__}.bench import measure; measure({str(path)!r})"
    said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), int(said[1])


def measure(path: str) -> None:
    """Print seconds and peak kilobytes of one reduction."""
    (log,) = log_dirs([path])
    started = time.process_time()
    latest(spans(log), Options(tables=frozenset()))
    print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _spark(root: Path, mb: int, open_session: OpenSession, watch: Stopwatch) -> tuple[list[Figure], dict[str, str]]:
    small, large = Sources(root, SEED_MB), Sources(root, mb)
    cpu = ProcessTree().seconds
    started, spent = time.perf_counter(), cpu()
    with open_session() as spark:
        master = spark.conf.get("spark.master", "Spark Connect")
        ready, ready_cpu = time.perf_counter() - started, cpu() - spent
        started, spent = time.perf_counter(), cpu()
        _noop(small.read(spark))
        first, first_cpu = time.perf_counter() - started, cpu() - spent
        rounds = ROUNDS if mb < LARGE_MB else 1
        seconds = {}
        for name, work in WORKS.items():
            work(small, spark)
            watch.report(f"Spark: {name}, compiled")
            seconds[name] = watch.measure(f"Spark: {name}", partial(work, large, spark), rounds, cpu)
    return _spark_figures(seconds, large), {
        "Spark": master,
        "Spark's log": f"{large.bytes >> 20} MB",
        "Spark's start": f"{ready:.1f} s, {ready_cpu:.1f} of the processor",
        "Spark's first job": f"{first:.1f} s, {first_cpu:.1f} of the processor",
    }


class Sources:
    """A made-up log, and the tables that are made of it."""

    def __init__(self, root: Path, mb: int) -> None:
        self.path = str(grow_log(root, mb))
        (self.log,) = log_dirs([self.path])
        self.bytes = sum(segment.size for segment in segments(self.log))
        self.ours, self.theirs = str(root / f"ours-{mb}"), str(root / f"theirs-{mb}")

    def read(self, spark: Any, **options: str) -> Any:
        """Return rows of the log's source."""
        return spark.read.format("kafkalog").options(**options).load(self.path)

    def files(self, table: str) -> list[str]:
        """Return the files of a raw table that the last round wrote."""
        found = sorted((Path(self.ours) / table).glob("*.parquet"), key=lambda file: file.stat().st_mtime)
        return [str(file) for file in found]


def _noop(rows: Any) -> None:
    rows.write.format("noop").mode("overwrite").save()


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


def _write_ours(of: Sources, spark: Any) -> None:
    shutil.rmtree(of.ours, ignore_errors=True)
    of.read(spark, sink=f"parquet:{of.ours}").collect()


def _write_theirs(of: Sources, spark: Any) -> None:
    of.read(spark).write.mode("overwrite").parquet(of.theirs)


def _scan(of: Sources, spark: Any) -> None:
    _noop(spark.read.parquet(*of.files("offset_commits")))


def _judge_lag(of: Sources, spark: Any) -> None:
    """Lag status of all that was ingested."""
    from pipeline.tables.commits import offset_commits
    from pipeline.tables.lag import lag_status, log_end_offsets

    raw, batches = (spark.read.parquet(*of.files(name)) for name in ("offset_commits", "batches"))
    commits = offset_commits(raw, batches)
    _noop(lag_status(commits, log_end_offsets(None, commits), 0))


WORKS: dict[str, Callable[[Sources, Any], None]] = {
    "source to noop": lambda of, spark: _noop(of.read(spark)),
    "decoding, nothing handed over": lambda of, spark: _noop(_decode_in_spark(spark, of.path)),
    "latest, reduced in the worker": lambda of, spark: _noop(of.read(spark, reduce="latest")),
    "latest, rows reduced by Spark": lambda of, spark: _cross(of.read(spark)),
    "Parquet by the worker": _write_ours,
    "Parquet by Spark": _write_theirs,
    "scan": _scan,
    "lag status": _judge_lag,
}


def _spark_figures(seconds: dict[str, float], of: Sources) -> list[Figure]:
    rows, scan, lag = seconds["source to noop"], seconds["scan"], seconds["lag status"]
    reduced, crossing = seconds["latest, reduced in the worker"], seconds["latest, rows reduced by Spark"]
    commits = sum(pq.read_metadata(file).num_rows for file in of.files("offset_commits"))
    rate = f"{commits / rows / 1e6:.2f} M records/s a core"
    return [
        Figure("Spark source to noop, beside Parquet", "scanning its rows in Parquet", rows / scan, 4, False, rate),
        Figure(
            "Spark source to noop, time", "decoding in workers, handing nothing over",
            rows / seconds["decoding, nothing handed over"], 2.5, False,
        ),
        Figure("latest, reduced in the worker, speed", "reducing rows in Spark", crossing / reduced, 2.5),
        Figure(
            "Parquet of all raw tables by the worker, speed", "Spark's writer, commits only",
            seconds["Parquet by Spark"] / seconds["Parquet by the worker"], 2,
        ),
        Figure("lag status of the history, time", "scanning it", lag / scan, 8, False, f"{commits:,} rows"),
    ]  # fmt: skip


def _measure_follow(root: Path, report: Report) -> Figure:
    """Return the processor time of one step of `follow`, against its usual pause: its share of a core."""
    from pipeline.synth import Writer, commit

    writer, steps = Writer(root / "followed" / f"{TOPIC}-0"), []
    with Follower([str(root / "followed")], root / "followed-tables").lock_tables() as follower:
        for number in range(40):
            writer.append([commit(("g", "t", 0), number, number)])
            started = time.process_time()
            follower.step()
            steps.append(time.process_time() - started)
    report("follow")
    return Figure("follow, a step, time", "its pause of 500 ms", sorted(steps)[len(steps) // 2] / 0.5, 0.2, False)


def _cross(rows: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

    last = rows.groupBy("group", "topic", "partition").agg(F.max_by("committed_offset", "log_offset"))
    _noop(last)
