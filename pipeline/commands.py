"""The jobs as commands: arguments in, lines or JSON out, an exit code."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.errors import UsageError
from pipeline.session import JavaNotFoundError

if TYPE_CHECKING:
    from pipeline import manifest

OK, FAILED, USAGE, PROBLEMS, MISMATCH = 0, 1, 2, 3, 4
FILES = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


def run(args: argparse.Namespace) -> int:
    """Run one job. What the user can mend is said in one line."""
    try:
        return JOBS[args.job](args)
    except Exception as error:
        if (told := _told(error)) is None:
            raise
        code, line = told
        print(f"muster pipeline {args.job}: {line}", file=sys.stderr)
        return code


def _told(error: Exception) -> tuple[int, str] | None:
    """The exit code and one line for what the user can mend; None for mistakes of ours, which need their traceback."""
    from pipeline.decode.spans import LogDamagedError
    from pipeline.jobs.compact import CompactionRefusedError
    from pipeline.manifest import TablesInUseError

    if isinstance(error, LogDamagedError | CompactionRefusedError):
        return PROBLEMS, str(error)
    if isinstance(error, (UsageError, JavaNotFoundError, TablesInUseError, *FILES)):
        return USAGE, str(error)
    return _from_spark(error)


def _from_spark(error: Exception) -> tuple[int, str] | None:
    """What a worker or Spark itself has to say; None for an error of any other origin."""
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    lines = [line.strip() for line in str(error).splitlines()]
    codes = {"LogDamagedError": PROBLEMS, "UsageError": USAGE, "TablesInUseError": USAGE}
    codes["FileNotFoundError"] = FAILED  # it was there when the work was planned
    for line in reversed(lines):
        name, _, said = line.partition(": ")
        if (code := codes.get(name.rpartition(".")[2])) is not None:
            return code, said
    return FAILED, lines[0]


class Progress:
    """Says on standard error what is done, with the seconds that have passed."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"[{time.monotonic() - self.started:7.1f} s] {line}", file=sys.stderr, flush=True)


def say(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """The result, for people or for machines."""
    if args.json:
        print(msgspec.json.encode(result).decode())
        return
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, one in value.items():
                print(f"  {key:24} {one}")
        else:
            print(f"{name}: {value}")


def _session(args: argparse.Namespace) -> Any:
    from pipeline.session import session

    return session(args.master, memory=args.memory)


def _options(args: argparse.Namespace) -> dict[str, str]:
    return {"topic": args.topic, "on_error": args.on_error, "decoder": args.decoder}


def ingest(args: argparse.Namespace) -> int:
    """Logs to raw tables."""
    from pipeline.jobs.ingest import ingest as job

    progress = Progress()
    spark = _session(args)
    progress("Spark is ready")
    try:
        after = job(spark, _paths(args.paths), Path(args.out), **_options(args))
    finally:
        spark.stop()
    problems = _problems(Path(args.out), after)
    progress("done")
    reached = {log: position.next_offset for log, position in after.logs.items()}
    say(args, {"rows": after.rows, "next offsets": reached, "problems": problems})
    return PROBLEMS if problems else OK


def build(args: argparse.Namespace) -> int:
    """Raw tables to derived ones."""
    from pipeline.jobs.build import Tables
    from pipeline.jobs.build import build as job

    out = Path(args.out)
    if not (out / "manifest.json").exists():
        raise FileNotFoundError(f"{out} holds no tables: run ingest first")
    progress = Progress()
    spark = _session(args)
    progress("Spark is ready")
    ends = Path(args.ends) if args.ends else None
    try:
        counts = job(spark, out, events=[Path(f) for f in args.events], ends=ends, now_ms=args.now, report=progress)
        problems = Tables(spark, out).derived("log_problems").where("severity = 'problem'").count()
    finally:
        spark.stop()
    say(args, {"rows": counts, "problems": problems})
    return PROBLEMS if problems else OK


def follow(args: argparse.Namespace) -> int:
    """Ingest while the logs grow, until interrupted."""
    from pipeline import manifest
    from pipeline.jobs.ingest import follow as job

    progress = Progress()
    options = _options(args)
    if args.max_bytes:
        options["max_bytes_per_trigger"] = str(args.max_bytes)
    spark = _session(args)
    progress("following; end it with Ctrl-C")
    try:
        with job(spark, _paths(args.paths), Path(args.out), args.every, args.once, **options) as query:
            _watched(query, args.seconds, progress)
    except KeyboardInterrupt:
        progress("stopped")
    finally:
        spark.stop()
    after = manifest.load(Path(args.out))
    problems = _problems(Path(args.out), after)
    say(args, {"rows": after.rows, "problems": problems})
    return PROBLEMS if problems else OK


def _watched(query: Any, seconds: float | None, progress: Progress) -> None:
    """Tell what a stream does until it ends, or for so long; then let it finish what is there."""
    ends = None if seconds is None else time.monotonic() + seconds
    while not query.awaitTermination(1) and (ends is None or time.monotonic() < ends):
        if last := query.lastProgress:
            progress(f"batch {last['batchId']}: {last['durationMs'].get('triggerExecution', 0)} ms")
    if query.isActive:
        query.processAllAvailable()
        query.stop()
    if error := query.exception():
        raise error


def _problems(out: Path, after: "manifest.Manifest") -> int:
    """How many problems the raw tables tell of."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    files = [out / file for file in after.files.get("log_problems", ())]
    severities = [pq.read_table(file, columns=["severity"])["severity"] for file in files]
    return sum(pc.sum(pc.equal(one, "problem")).as_py() or 0 for one in severities)


def compact(args: argparse.Namespace) -> int:
    """Compacted copies, each proved."""
    from pipeline.jobs.compact import compact as job

    progress, results = Progress(), []
    for result in job(args.path, Path(args.out), args.drop_tombstones_before):
        progress(f"{result.log}: {result.records_before} -> {result.records_after} records")
        results.append(result)
    logs = {
        r.log: {**msgspec.structs.asdict(r), "proof": "replay is equal" if r.equal else "REPLAY DIFFERS"}
        for r in results
    }
    say(args, {"logs": logs})
    return OK if all(result.equal for result in results) else MISMATCH


def report(args: argparse.Namespace) -> int:
    """The HTML report."""
    from pipeline.jobs.build import Tables
    from pipeline.report.page import collect, page

    tables = Path(args.tables)
    if not (tables / "tables").exists():
        raise FileNotFoundError(f"{tables} holds no derived tables: run build first")
    progress = Progress()
    spark = _session(args)
    progress("Spark is ready")
    try:
        told = collect(Tables(spark, tables))
        progress("tables are read")
    finally:
        spark.stop()
    Path(args.out).write_text(page(told, args.title), encoding="utf-8")
    say(args, {"report": str(Path(args.out).absolute()), "groups": told.groups_total})
    return OK


def verify(args: argparse.Namespace) -> int:
    """The columns against sequential replay, and tables against both."""
    from pipeline.jobs.verify import verify as job

    found = job(_paths(args.paths), Path(args.tables) if args.tables else None, Progress())
    say(args, msgspec.structs.asdict(found))
    if found.unexplained:
        return MISMATCH
    return PROBLEMS if found.problems else OK


def dump(args: argparse.Namespace) -> int:
    """Segments as lines."""
    from pipeline.dump import dump as lines

    for name in args.files:
        for line in lines(name, Path(name).read_bytes()):
            print(line)
    return OK


def scan(args: argparse.Namespace) -> int:
    """Batches and problems."""
    from pipeline.jobs.scan import scan as job

    found = job(_paths(args.paths), args.topic, args.on_error, args.decoder, Progress())
    say(args, msgspec.to_builtins(found))
    return PROBLEMS if any(p["severity"] == "problem" for p in found.problems) else OK


def synth(args: argparse.Namespace) -> int:
    """Made-up logs."""
    from pipeline.synth import Plan, write_logs
    from pipeline.synth_groups import write_lives

    path = Path(args.path)
    if path.exists() and any(path.iterdir()):
        raise FileExistsError(f"{path} is not empty")
    write_logs(path, Plan(seed=args.seed, records=args.records, groups=args.groups, partitions=args.partitions))
    if args.lives:
        write_lives(path, args.seed, args.lives, partition=args.partitions)
    say(args, {"logs": str(path.absolute()), "bytes": sum(file.stat().st_size for file in path.rglob("*.log"))})
    return OK


def bench(args: argparse.Namespace) -> int:
    """The table of ratios."""
    from pipeline.bench import bench as job

    result = job(args.mb, Path(args.out) if args.out else None, args.master, args.memory, Progress())
    say(args, result)
    return OK


def _paths(given: list[str]) -> list[str]:
    """Local paths as absolute ones, since a worker may stand elsewhere."""
    return [path if "://" in path else str(Path(path).absolute()) for path in given]


JOBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "ingest": ingest,
    "build": build,
    "follow": follow,
    "compact": compact,
    "report": report,
    "verify": verify,
    "dump": dump,
    "scan": scan,
    "synth": synth,
    "bench": bench,
}
