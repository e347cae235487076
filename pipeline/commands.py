"""The jobs as commands: arguments in, lines or JSON out, an exit code."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from pipeline.session import JavaNotFoundError

OK, FAILED, USAGE, PROBLEMS, MISMATCH = 0, 1, 2, 3, 4


def run(args: argparse.Namespace) -> int:
    """Run one job. What the user can mend is said in one line."""
    from pipeline.jobs.compact import CompactionRefusedError
    from pipeline.manifest import TablesInUseError

    try:
        return JOBS[args.job](args)
    except (JavaNotFoundError, FileNotFoundError, FileExistsError, TablesInUseError, ValueError) as error:
        code = PROBLEMS if isinstance(error, CompactionRefusedError) else USAGE
        print(f"muster pipeline {args.job}: {error}", file=sys.stderr)
        return code
    except Exception as error:
        if (told := _from_spark(error)) is None:
            raise
        print(f"muster pipeline {args.job}: {told}", file=sys.stderr)
        return FAILED


def _from_spark(error: Exception) -> str | None:
    """What a worker or Spark itself has to say, in one line; None for an error of any other origin."""
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line for line in lines if line.startswith(("pipeline.", "ValueError:", "FileNotFoundError:"))]
    return ours[-1] if ours else lines[0]


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
    from pipeline.jobs.build import Tables
    from pipeline.jobs.ingest import ingest as job

    progress = Progress()
    spark = _session(args)
    progress("Spark is ready")
    try:
        after = job(spark, _paths(args.paths), Path(args.out), **_options(args))
        problems = Tables(spark, Path(args.out)).raw("log_problems").where("severity = 'problem'").count()
    finally:
        spark.stop()
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
        query = job(spark, _paths(args.paths), Path(args.out), args.every, args.once, **options)
        ends = None if args.seconds is None else time.monotonic() + args.seconds
        while not query.awaitTermination(1) and (ends is None or time.monotonic() < ends):
            if last := query.lastProgress:
                progress(f"batch {last['batchId']}: {last['durationMs'].get('triggerExecution', 0)} ms")
        if query.isActive:
            query.processAllAvailable()
            query.stop()
        if error := query.exception():
            raise error
    except KeyboardInterrupt:
        progress("stopped")
    finally:
        spark.stop()
    say(args, {"rows": manifest.load(Path(args.out)).rows})
    return OK


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
    spark = _session(args)
    try:
        told = collect(Tables(spark, tables))
    finally:
        spark.stop()
    Path(args.out).write_text(page(told, args.title), encoding="utf-8")
    say(args, {"report": str(Path(args.out).absolute()), "groups": told.groups_total})
    return OK


def verify(args: argparse.Namespace) -> int:
    """The columns against sequential replay, and tables against both."""
    from pipeline.jobs.verify import verify as job

    found = job(_paths(args.paths), Path(args.tables) if args.tables else None)
    say(args, msgspec.structs.asdict(found))
    return OK if found.equal else MISMATCH


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

    found = job(_paths(args.paths), args.topic, args.on_error, args.decoder)
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
