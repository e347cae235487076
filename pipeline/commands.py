"""The jobs as commands: arguments in, lines or JSON out, an exit code.

Whatever can be checked without Spark is checked before it starts, and before anything is imported that decodes: wrong
use is told in less than a second.
"""

import argparse
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from coordinator.client import ClientError
from coordinator.control.printable import make_printable
from pipeline import locks, manifest
from pipeline.decode.files import Store, is_cluster, is_uri, normalize, with_command_config, without_secrets
from pipeline.decode.layout import TOPIC, TOPICS, logs_at
from pipeline.errors import CompactionRefusedError, LogDamagedError, TablesInUseError, UsageError
from pipeline.session import JavaNotFoundError, Settings, check, check_values

OK, FAILED, USAGE, PROBLEMS, MISMATCH = 0, 1, 2, 3, 4
FILES = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_ARROWS_DETAIL = re.compile(r"\. Detail: \[errno \d+\] ")
_NUMBER = re.compile(r"^\[Errno \d+\] ")
QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
COMMAND_CONFIG_VARIABLE = "MUSTER_COMMAND_CONFIG"
SMALL_BYTES = 100 << 20  # tables that were made of less are built with settings for little data

DELTA = {  # what Delta's jar asks of a session
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def run(args: argparse.Namespace) -> int:
    """Run one job. What the user can mend is said in one line."""
    try:
        return JOBS[args.job](args)
    except BrokenPipeError:
        raise
    except Exception as error:
        if (failure := _failure(error)) is None:
            raise
        code, line = failure
        print(f"muster pipeline {args.job}: {make_printable(without_secrets(line))}", file=sys.stderr)
        return code


class SparkFailedError(RuntimeError):
    """Spark did not start, or gave up; the message names its log."""


def _failure(error: Exception) -> tuple[int, str] | None:
    """Return the exit code and one line for what the user can mend; None for mistakes of ours, which need their
    traceback."""
    if isinstance(error, LogDamagedError | CompactionRefusedError):
        return PROBLEMS, str(error)
    if isinstance(error, OSError) and error.errno is not None:  # the system says so, and not a check of ours
        return FAILED, _in_one_line(error)
    if isinstance(error, (UsageError, JavaNotFoundError, TablesInUseError, *FILES)):
        return USAGE, str(error)
    if isinstance(error, OSError | SparkFailedError | ClientError):
        return FAILED, str(error)
    return _failure_of_spark(error)


def _in_one_line(error: OSError) -> str:
    """Return what the system said as `PATH: reason`. Arrow has the path in a sentence."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return _ARROWS_DETAIL.sub(": ", error.strerror or str(error))


def _failure_of_spark(error: Exception) -> tuple[int, str] | None:
    """Find the message of a worker or of Spark itself; None for an error of another origin."""
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    lines = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
    codes = {"LogDamagedError": PROBLEMS, "UsageError": USAGE, "TablesInUseError": USAGE}
    codes |= dict.fromkeys(("ClientError", "BrokerError", "LogTruncatedError"), FAILED)
    codes |= {"OSError": FAILED} | {one.__name__: FAILED for one in FILES}  # it was all right when the work was planned
    for line in reversed(lines):
        name, _, message = line.partition(": ")
        if (code := codes.get(name.rpartition(".")[2])) is not None:
            return code, _ARROWS_DETAIL.sub(": ", _NUMBER.sub("", message))
    # Of an error in Java the first line only says what PySpark called.
    return FAILED, next((line.removeprefix(": ") for line in lines[1:2] if line.startswith(": ")), lines[0])


class Progress:
    """Prints on standard error what goes on, with the seconds since the command began."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, line: str) -> None:
        print(
            f"[{time.monotonic() - self.started:7.1f} s] {make_printable(without_secrets(line))}",
            file=sys.stderr,
            flush=True,
        )


def show(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Print the result, for people or for machines."""
    if args.json:
        print(msgspec.json.encode(result).decode())
        return
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, one in value.items():
                print(f"  {make_printable(key):24} {_in_words(one)}")
        elif isinstance(value, list):
            print(f"{name}:{'' if value else ' none'}")
            for one in value:
                print(f"  {_in_words(one)}")
        else:
            print(f"{name}: {_in_words(value)}")


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(one)}" for name, one in value.items() if one not in (None, [], ""))
    return make_printable(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _local(given: str, given_by: str) -> Path:
    """Return a path that must lie on this machine, as most do. Raises UsageError for a URI."""
    if not given or is_uri(given):
        raise UsageError(f"invalid {given_by} {given or repr(given)}: expected a path of this machine")
    return Path(given)


def _settings(args: argparse.Namespace, is_small: bool = False, more: dict[str, str] | None = None) -> Settings:
    """Return the settings of the command line; `more` of Spark's go behind them."""
    conf = tuple(((more or {}) | dict(args.conf)).items())
    settings = Settings(args.master, args.memory, args.executor_memory, conf, tuple(args.py_files), is_small)
    _check_spark_log(args)
    check(settings)
    return settings


def _check_values(args: argparse.Namespace) -> None:
    """Check the settings of a job that may do without Spark."""
    _check_spark_log(args)
    check_values(Settings(args.master, args.memory, args.executor_memory, py_files=tuple(args.py_files)))


def _check_spark_log(args: argparse.Namespace) -> None:
    if args.spark_log:
        _check_file(_local(args.spark_log, "--spark-log"), "--spark-log")


@contextmanager
def _spark(args: argparse.Namespace, settings: Settings, progress: Progress) -> Iterator[Any]:
    """Start a session of Spark, whose own log goes to a file that is removed unless something fails."""
    from pyspark.logger import PySparkLogger

    from pipeline.session import quiet, session

    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True  # they print each error once more, as JSON with its stack trace
    logging.getLogger().addHandler(logging.NullHandler())  # Py4J logs an interrupt there, with its stack trace
    is_named = False
    log = Path(args.spark_log or tempfile.mkstemp(prefix="muster-spark-", suffix=".log")[1])
    progress("starting Spark")
    try:
        with _own_interrupts(), quiet(log):
            spark = session(settings=settings)
        progress("Spark is ready")
        try:
            with _report_tasks(spark, progress):
                yield spark
        finally:
            spark.stop()
    except Exception as error:
        code, line = _failure_of_spark(error) or (None, "")
        is_named = code in (FAILED, None)  # None: a mistake of ours
        if code != FAILED:
            raise
        raise SparkFailedError(f"{_telling_line(log) or line} (Spark's log: {log})") from error
    finally:
        if not args.spark_log and not is_named:
            log.unlink(missing_ok=True)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Handle Ctrl-C as before: a session puts its own handler in the place, which asks Java while Java is answering."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _telling_line(log: Path) -> str:
    """Return the last line of Spark's log that names an error; no line of a stack trace does."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()] if log.exists() else []
    named = (line for line in reversed(lines) if "Error" in line or "Exception" in line)
    return next((line for line in named if not line.startswith("at ")), "")


@contextmanager
def _report_tasks(spark: Any, progress: Progress, every_s: float = 5.0) -> Iterator[None]:
    """Print now and then how far Spark's stages are, from a thread of its own."""
    ended = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        shown = ""
        while not ended.wait(every_s):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            line = ", ".join(f"{s.numCompletedTasks} of {s.numTasks} tasks" for s in stages if s and s.numTasks > 1)
            if line and line != shown:
                progress(f"Spark: {line}")
                shown = line

    thread = threading.Thread(target=watch, daemon=True)
    if not hasattr(type(spark), "client"):  # Spark Connect has no status tracker
        thread.start()
    try:
        yield
    finally:
        ended.set()


def _options(args: argparse.Namespace) -> dict[str, str]:
    return {"on_error": args.on_error} | ({"topic": args.topic} if args.topic else {})


def ingest(args: argparse.Namespace) -> int:
    """Read logs into raw tables."""
    progress, paths = Progress(), _log_paths(args)
    _check_values(args)
    from pipeline.jobs.ingest import FEW_BYTES, bytes_to_read
    from pipeline.jobs.ingest import ingest as job

    size = bytes_to_read(paths, args.out, _options(args))
    on_spark = args.engine == "spark" or (args.engine == "auto" and (bool(args.master) or size >= FEW_BYTES))
    progress(f"{size / 1e6:,.1f} MB to read, by {'Spark' if on_spark else 'this process'}")
    if on_spark:
        with _spark(args, _settings(args), progress) as spark:
            after = job(spark, paths, args.out, progress, **_options(args))
    else:
        after = job(None, paths, args.out, progress, **_options(args))
    problems = _problems(args.out, after)
    progress("done")
    reached = {log: position.next_offset for log, position in after.logs.items()}
    show(args, {"rows": after.rows, "next offsets": reached, "problems": problems})
    return PROBLEMS if problems else OK


def build(args: argparse.Namespace) -> int:
    """Make the derived tables of the raw ones."""
    progress = Progress()
    if not Store.of(args.out).exists(manifest.NAME):
        raise FileNotFoundError(f"{args.out} holds no tables: run ingest first")
    manifest.load(args.out)
    counts, problems = _build(args, args.out, progress)
    show(args, {"rows": counts, "problems": problems})
    return PROBLEMS if problems else OK


def _build(args: argparse.Namespace, out: str, progress: Progress) -> tuple[dict[str, int], int]:
    """Make the derived tables; return their numbers of rows, and how many problems the logs have."""
    events, ends = _check_evidence(args)
    size = sum(file.size for file in Store.of(out).tree("raw"))
    form = getattr(args, "format", None) or _format(out)
    settings = _settings(args, size < SMALL_BYTES and not args.master, DELTA if form == "delta" else None)
    # Locked before Spark starts, which takes long: a second process is told at once.
    with locks.lock_tables(out, locks.BUILDER, progress) as check, _spark(args, settings, progress) as spark:
        from pipeline.jobs.build import Tables
        from pipeline.jobs.build import build as job

        counts = job(
            spark, out, events=events, ends=ends, now_ms=args.now, form=form, check_lock=check, report=progress
        )
        problems = Tables(spark, out).read_table("log_problems").where("severity = 'problem'").count()
    return counts, problems


def _check_evidence(args: argparse.Namespace) -> tuple[list[Path], Path | str | None]:
    """Check and return the files of events and the path of log ends."""
    from pipeline.decode.ends import check_path

    given = [_local(file, "--events") for file in args.events]
    events = list({file.resolve(): file for file in given}.values())  # a file counts once
    for file in events:
        if not file.is_file() or not _holds_events(file):
            raise FileNotFoundError(f"invalid --events {file}: expected a file of the server's events")
    if args.ends and is_cluster(args.ends):
        (uri,) = _with_settings([normalize(args.ends)], args)
        from pipeline.decode.cluster_ends import check

        check(uri)
        return events, uri
    ends = _local(args.ends, "--ends") if args.ends else None
    if ends is not None:
        check_path(ends)
    return events, ends


def _holds_events(file: Path) -> bool:
    """Return whether a file is empty, or begins with a line as the server writes it, of an event or of lost ones."""
    with file.open("rb") as lines:
        first = lines.readline(1 << 20)
    try:
        return not first or not msgspec.json.decode(first, type=dict[str, Any]).keys().isdisjoint(("at_ms", "lost"))
    except msgspec.DecodeError:
        return False


def _format(out: str) -> str | None:
    """Return the format of the tables that exist; None where nothing was built."""
    from pipeline import published

    try:
        return published.load(out).format
    except FileNotFoundError:
        return None


def follow(args: argparse.Namespace) -> int:
    """Ingest while the logs grow, until interrupted."""
    progress, paths = Progress(), _log_paths(args)
    from pipeline.jobs.ingest import Follower
    from pipeline.jobs.ingest import follow as job

    follower = Follower(paths, args.out, args.max_bytes, **_options(args))
    with follower.lock_tables():
        progress("following; end it with Ctrl-C")
        try:
            job(follower, args.every, args.seconds, args.once, progress)
        except KeyboardInterrupt:
            progress("stopped")
    problems = _problems(args.out, follower.known)
    show(args, {"rows": follower.known.rows, "problems": problems})
    return PROBLEMS if problems else OK


def _problems(out: str, after: "manifest.Manifest") -> int:
    """Return how many problems the raw tables tell of. A damaged spot is met each time that logs are read, and counts
    once."""
    from pipeline.sink import read_file

    store = Store.of(out)
    place = ["log_dir", "segment_base", "pos", "kind"]
    spots = set()
    for file in after.files.get("log_problems", ()):
        rows = read_file(store, file, [*place, "severity"]).to_pylist()
        spots |= {tuple(row[name] for name in place) for row in rows if row["severity"] == "problem"}
    return len(spots)


def optimize(args: argparse.Namespace) -> int:
    """Merge small files of the raw tables."""
    if not Store.of(args.out).exists(manifest.NAME):
        raise FileNotFoundError(f"{args.out} holds no tables: run ingest first")
    from pipeline.jobs.optimize import optimize as job

    show(args, msgspec.structs.asdict(job(args.out)))
    return OK


def compact(args: argparse.Namespace) -> int:
    """Write compacted copies of logs, and prove each."""
    progress, results = Progress(), []
    (path,) = _paths([args.path])
    if is_cluster(path):
        raise UsageError(f"invalid path {path}: expected a directory of logs, since a cluster compacts its own")
    logs_at([path])
    target = _local(args.out, "--out")
    _check_new(target, "--out")
    from pipeline.jobs.compact import compact as job

    for result in job(path, target, args.drop_tombstones_before):
        progress(f"{result.log}: {result.records_before} -> {result.records_after} records")
        results.append(result)
    logs = {
        r.log: {
            "bytes_before": r.bytes_before,
            "bytes_after": r.bytes_after,
            "records_before": r.records_before,
            "records_after": r.records_after,
            "equal": r.equal,
            "proof": "replay is equal" if r.equal else "REPLAY DIFFERS",
        }
        for r in results
    }
    show(args, {"logs": logs})
    return OK if all(result.equal for result in results) else MISMATCH


def report(args: argparse.Namespace) -> int:
    """Write the HTML report, of tables or of logs."""
    from pipeline import published

    progress, target, problems = Progress(), _local(args.out, "--out"), 0
    if bool(args.paths) == bool(args.tables):
        raise UsageError("invalid arguments: expected either logs or --tables")
    if args.tables and (args.events or args.ends or args.now is not None):
        raise UsageError(
            "invalid --tables: expected logs with --events, --ends or --now, which `build` takes for tables"
        )
    _check_file(target, "--out")
    paths = _log_paths(args) if args.paths else []
    if args.tables:
        published.load(args.tables)
    _check_evidence(args)
    _check_values(args)
    from pipeline.jobs.ingest import ingest as read_logs
    from pipeline.report.page import collect, page

    if paths:
        with tempfile.TemporaryDirectory(prefix="muster-tables-") as tables:
            read_logs(None, paths, tables, progress, **_options(args))
            _, problems = _build(args, tables, progress)
            data = collect(tables)
    else:
        data = collect(args.tables)
    _write_page(target, page(data, args.title))
    progress("done")
    show(args, {"report": str(target.absolute()), "groups": data.groups_total})
    return PROBLEMS if problems else OK


def _write_page(target: Path, text: str) -> None:
    """Write the page; a file that was there stays until the new one is whole."""
    if target.exists() and not target.is_file():  # a device, or a pipe
        target.write_text(text, encoding="utf-8")
        return
    target = target.resolve()
    unfinished = target.with_name(f".{target.name[:100]}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def verify(args: argparse.Namespace) -> int:
    """Compare the columns with a sequential replay, and tables with both."""
    from pipeline import published

    paths = _log_paths(args)
    if args.tables:
        published.load(args.tables)
    from pipeline.jobs.verify import verify as job

    found = job(paths, args.tables, Progress())
    show(args, msgspec.structs.asdict(found))
    if found.unexplained:
        return MISMATCH
    return PROBLEMS if found.problems else OK


def dump(args: argparse.Namespace) -> int:
    """Print segments line by line."""
    for name in args.files:
        if not Path(name).is_file():
            raise FileNotFoundError(f"invalid path {name}: expected a segment file")
    from pipeline.dump import dump as lines
    from pipeline.dump import form_of, is_problem

    code = OK
    for name in args.files:
        form = form_of(args.topic or Path(name).resolve().parent.name.rpartition("-")[0])
        for line in lines(name, Path(name).read_bytes(), form):
            print(make_printable(line))
            code = PROBLEMS if is_problem(line) else code
    return code


def scan(args: argparse.Namespace) -> int:
    """Count the batches of logs, and list their problems."""
    paths = _log_paths(args)
    from pipeline.jobs.scan import scan as job

    found = job(paths, _topics(args), args.on_error, Progress())
    show(args, msgspec.to_builtins(found))
    return PROBLEMS if any(p["severity"] == "problem" for p in found.problems) else OK


def synth(args: argparse.Namespace) -> int:
    """Write made-up logs."""
    path = _local(args.path, "path")
    _check_new(path, "path")
    from pipeline.synth import Plan, write_logs
    from pipeline.synth_groups import write_lives

    write_logs(path, Plan(seed=args.seed, records=args.records, groups=args.groups, partitions=args.partitions))
    if args.lives:
        write_lives(path, args.seed, args.lives, partition=args.partitions)
    show(args, {"logs": str(path.absolute()), "bytes": sum(file.stat().st_size for file in path.rglob("*.log"))})
    return OK


def bench(args: argparse.Namespace) -> int:
    """Print the table of ratios."""
    if args.out and not _local(args.out, "--out").is_dir():
        raise FileNotFoundError(f"invalid --out {args.out}: expected a directory")
    settings = _settings(args)
    from pipeline.bench import bench as job

    progress = Progress()
    show(args, job(args.mb, Path(args.out) if args.out else None, lambda: _spark(args, settings, progress), progress))
    return OK


def _paths(given: list[str]) -> list[str]:
    """Return paths as workers elsewhere can use them: absolute, or URIs without secrets."""
    paths = [normalize(path) for path in given]
    for path in paths:
        if not is_uri(path) and not Path(path).is_dir():
            raise FileNotFoundError(f"invalid path {path}: expected a directory of logs")
    return paths


def _check_file(path: Path, given_by: str) -> None:
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"invalid {given_by} {path}: expected a file in a directory that exists")


def _check_new(path: Path, given_by: str) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"invalid {given_by} {path}: expected a directory that is new or empty")


def _log_paths(args: argparse.Namespace) -> list[str]:
    """Return the paths of logs, as `_paths` does. Raises FileNotFoundError if none of them holds a log."""
    paths = _with_settings(_paths(args.paths), args)
    logs_at(paths, _topics(args))
    return paths


def _topics(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the topics whose logs a job reads: without `--topic` all of coordinators, if it takes that option."""
    if not hasattr(args, "topic"):
        return (TOPIC,)
    return (args.topic,) if args.topic else TOPICS


def _with_settings(paths: list[str], args: argparse.Namespace) -> list[str]:
    """Return the paths; those of clusters with the file of client settings."""
    return with_command_config(
        paths, getattr(args, "command_config", None) or os.environ.get(COMMAND_CONFIG_VARIABLE, "")
    )


JOBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "ingest": ingest,
    "build": build,
    "follow": follow,
    "optimize": optimize,
    "compact": compact,
    "report": report,
    "verify": verify,
    "dump": dump,
    "scan": scan,
    "synth": synth,
    "bench": bench,
}
