"""Logs to raw tables: once, reading on from where the manifest says, or for as long as the logs grow.

A few hundred megabytes are decoded in this process, more by Spark's workers; both run the same code and write the same
files.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from pipeline import locks, manifest, plan, sink
from pipeline.decode.files import Place, Store
from pipeline.decode.identity import identify
from pipeline.decode.layout import TOPICS, logs_at
from pipeline.decode.logs import START, LogDir, Position
from pipeline.decode.positions import find_unread, newest
from pipeline.decode.schema import TABLES
from pipeline.errors import TablesInUseError
from pipeline.jobs.optimize import merge_small_files
from pipeline.manifest import Manifest
from pipeline.options import SourceOptions, parse

Written = Iterable[Mapping[str, Any]]  # rows as `sink.WRITTEN`
Report = Callable[[str], None]
IDLE_MS = 10_000  # a log that does not grow is noted as read this often
GRACE_S = 60.0  # for who reads the files of a manifest that has been replaced since
FEW_BYTES = 512 << 20  # so much one process decodes in less time than Spark takes to start and share it out


def ingest(spark: Any, paths: list[str], out: Place, report: Report = lambda _line: None, **options: str) -> Manifest:
    """Read what the logs hold beyond the manifest; what the manifest is then. Running it again changes nothing.

    `spark` may be None: then this process decodes.
    """
    with locks.lock_tables(out, report=report) as check:
        begun_ms = _now_ms()
        known = read_manifest(paths, out, options)
        given = source_options(paths, known, out, options)
        if spark is None:
            rows = _by_this_process(given, plan.tasks(given, plan.logs(given), given.starts), report)
        else:
            rows = _by_spark(spark, given)
        manifest.check_tables_unchanged(out, known)
        check()
        after = _after(known, rows, paths, logs_at(paths, topics_of(options)), begun_ms)
        manifest.save(out, after)
        return after


def bytes_to_read(paths: list[str], out: Place, options: Mapping[str, str]) -> int:
    """Return how much the logs hold beyond the manifest. Raises what reading them would raise for a wrong path or
    option."""
    given = source_options(paths, read_manifest(paths, out, options), out, options)
    tasks = plan.tasks(given, plan.logs(given), given.starts)
    return sum(span.size for task in tasks for span in task.spans)


def source_options(paths: list[str], known: Manifest, out: Place, options: Mapping[str, str]) -> SourceOptions:
    """Return the options of the source that read on from the manifest and write into the tables."""
    starting = {name: msgspec.structs.astuple(position) for name, position in known.logs.items()}
    raw = Store.of(out).under("raw").uri
    return parse({**options, "path": "\n".join(paths), "sink": f"parquet:{raw}", "starting": json.dumps(starting)})


def read_manifest(paths: list[str], out: Place, options: Mapping[str, str]) -> Manifest:
    """Return the manifest, with where the logs lie that are there now."""
    logs = logs_at(paths, topics_of(options))
    known = manifest.load(out).add_places({log.name: log.place for log in logs})
    known.check_identities(logs)
    return known


def topics_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics whose logs are read: the one of the options, or all of coordinators."""
    return (options["topic"],) if options.get("topic") else TOPICS


def _now_ms() -> int:
    return int(time.time() * 1000)


def _by_spark(spark: Any, options: SourceOptions) -> Written:
    given = {name: str(value) for name, value in _find_changed_options(options).items()}
    path = given.pop("path")
    return [row.asDict() for row in spark.read.format("kafkalog").options(**given).load(path).collect()]


def _find_changed_options(options: SourceOptions) -> dict[str, Any]:
    values = msgspec.structs.asdict(options)
    usual = msgspec.structs.asdict(SourceOptions(path=""))
    return {name: value for name, value in values.items() if value != usual[name]}


def _by_this_process(options: SourceOptions, tasks: list[plan.Task], report: Report) -> Written:
    directory = Store.of(options.sink.removeprefix("parquet:"))
    rows: list[Mapping[str, Any]] = []
    for number, task in enumerate(tasks, 1):
        report(f"part {number} of {len(tasks)}: {', '.join(sorted({span.log.name for span in task.spans}))}")
        rows += sink.write(task, options.decoder_options(frozenset(TABLES)), directory).to_pylist()
    return rows


def _after(known: Manifest, rows: Written, paths: list[str], logs: Iterable[LogDir], begun_ms: int) -> Manifest:
    """Return the manifest once what was written counts, of logs that were listed at `begun_ms`."""
    rows = list(rows)
    written = [(row["table"], f"raw/{row['file']}", row["rows"]) for row in rows if row["file"]]
    reached = {row["log"]: Position(*json.loads(row["position"])) for row in rows if row["log"]}
    for name, position in reached.items():
        assert position.next_offset >= known.logs.get(name, START).next_offset, "reading begins where it ended"
    read = [log for log in logs if log.name in reached]
    known.check_identities(read)
    identities = {log.name: one for log in read if (one := identify(log, reached[log.name]))}
    places = {row["log"]: row["place"] for row in rows if row["log"]}
    after = known.add_places(places).add_files(reached, written, paths)
    return msgspec.structs.replace(
        after,
        identities=known.identities | identities,
        read_ms=max(known.read_ms, begun_ms),
    )


class Follower:
    """Ingests what is written, one `step` after the other, and merges the small files that come of it.

    Where to go on is in the manifest, which is replaced in one step after the files of a step are there. A step that
    was cut short is read again as a whole, and one that was saved is never read twice.
    """

    def __init__(self, paths: list[str], out: Place, max_bytes: int | None = None, **options: str) -> None:
        self.paths, self.out, self.max_bytes, self.options = paths, Store.of(out), max_bytes, options
        self.known = Manifest()
        self._check_lock: Callable[[], None] = lambda: None
        self._unread: dict[str, tuple[int, int, int]] = {}  # log -> bytes without a whole batch, noted as a problem
        self._merged: list[tuple[float, str]] = []  # files that no manifest names any more, and since when
        self._tried = float("-inf")  # when they were to be removed last

    @contextmanager
    def lock_tables(self) -> Iterator["Follower"]:
        """Keep other readers of logs out of these tables (TablesInUseError); to build others of them is fine."""
        with locks.lock_tables(self.out) as self._check_lock:
            self.known = read_manifest(self.paths, self.out, self.options)
            yield self

    def step(self) -> int:
        """Read up to the last whole batch of every log; how many offsets that were. Logs may appear and disappear."""
        begun_ms = _now_ms()
        logs = logs_at(self.paths, topics_of(self.options))
        known = self.known.add_places({log.name: log.place for log in logs})
        most = None if self.max_bytes is None else max(1, self.max_bytes // len(logs))
        ends = {log.name: newest(log, known.logs.get(log.name, START), most) for log in logs}
        grown = [log for log in logs if ends[log.name].next_offset > known.logs.get(log.name, START).next_offset]
        unread = self._find_unread([log for log in logs if log not in grown], ends)
        stopped = [log for log in logs if log.name in unread]
        if not grown and not stopped:
            self._note_idle(begun_ms, logs)
            return 0
        given = source_options(self.paths, known, self.out, self.options)
        tasks = plan.tasks(given, grown, known.logs, ends) + plan.tasks(given, stopped, known.logs)
        rows = _by_this_process(given, tasks, lambda _line: None)
        manifest.check_tables_unchanged(self.out, self.known)
        self._check_lock()
        more = _after(known, rows, self.paths, [*grown, *stopped], begun_ms)
        after = merge_small_files(self.out, more)
        manifest.save(self.out, after)
        self.known = after
        self._unread |= unread
        self._remove_merged_files(more, after)
        return sum(
            after.logs[log.name].next_offset - known.logs.get(log.name, START).next_offset for log in grown + stopped
        )

    def _find_unread(self, logs: list[LogDir], ends: Mapping[str, Position]) -> dict[str, tuple[int, int, int]]:
        """Find the bytes behind the last whole batch of each log, where they have not been noted yet.

        Such logs are read to the end of the log, as by `ingest`: so an unfinished batch or damage becomes a row of
        `log_problems`, and what can be salvaged behind it is read.
        """
        found = {log.name: find_unread(log, ends[log.name]) for log in logs}
        return {name: at for name, at in found.items() if at and self._unread.get(name) != at}

    def _note_idle(self, begun_ms: int, logs: list[LogDir]) -> None:
        """Note now and then that the logs have been read, though nothing was new, and that they still are the same."""
        if begun_ms >= self.known.read_ms + IDLE_MS:
            self.known.check_identities(logs)
            manifest.check_tables_unchanged(self.out, self.known)
            self._check_lock()
            self.known = msgspec.structs.replace(self.known, read_ms=begun_ms)
            manifest.save(self.out, self.known)

    def _remove_merged_files(self, before: Manifest, after: Manifest) -> None:
        """Remove files a while after they were merged into others, unless a build is reading them perhaps.

        At most once in that while: in an object store the builders' lock takes several requests, and seconds if a build
        runs.
        """
        named = {file for files in after.files.values() for file in files}
        now = time.monotonic()
        self._merged += [(now, file) for files in before.files.values() for file in files if file not in named]
        if not self._merged or self._merged[0][0] > now - 2 * GRACE_S or now < self._tried + GRACE_S:
            return
        self._tried = now
        with suppress(TablesInUseError), locks.lock_tables(self.out, locks.BUILDER):
            while self._merged and self._merged[0][0] <= now - GRACE_S:
                self.out.remove(self._merged.pop(0)[1])


def follow(
    follower: Follower,
    every_ms: int = 500,
    seconds: float | None = None,
    once: bool = False,
    report: Report = lambda _line: None,
) -> None:
    """Step until so many seconds have passed, or, with `once`, until a step finds nothing; for ever otherwise.

    A cleaner may remove a segment between the moments at which it is listed and read: then the next step lists anew.
    """
    has_failed = False
    ends = None if seconds is None else time.monotonic() + seconds
    while True:
        started = time.monotonic()
        try:
            read = follower.step()
        except FileNotFoundError:
            if has_failed:
                raise
            has_failed = True
        else:
            has_failed = False
            if read:
                report(f"{read} offsets")
            elif once:
                return
        pause = max(0.0, started + every_ms / 1000 - time.monotonic()) if not once else 0.0
        if ends is not None and time.monotonic() + pause >= ends:
            return
        time.sleep(pause)
