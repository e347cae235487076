"""Dump, verify, repair or compact the logs of a data directory.

No server is needed; none may be running for repair and compact. DIR is a data directory, or the directory of one
partition in it. Exit code 3: a log is damaged, with file and byte."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.logdump import FACTS, lines_of
from coordinator.cli.parser import add_actions
from coordinator.cli.settings import add_settings, read_settings
from coordinator.control.printable import make_printable
from coordinator.dataplane.settings import own_log_config
from coordinator.runtime.contents import check_of, missing_logs
from coordinator.runtime.damage import MISSING
from coordinator.runtime.ledger import DIRECTORY, missing_catalog
from coordinator.setting import ConfigError
from storage import cleaner, data_format, layout, recovery, repair
from storage.files import DirectoryLocked, Files, StorageError
from storage.layout import DamagedLog
from storage.log import Log, LogConfig
from storage.names import partition_of
from storage.real_files import RealFiles
from storage.recovery import RecoveryReport
from storage.repair import Survey

EXAMPLES: Final = """\
muster log verify muster-data
muster log dump muster-data/orders-0
muster log dump muster-data --json | jq 'select(.type == "OffsetCommit")'
muster log repair muster-data                       show what a repair would keep and lose
muster log repair muster-data --accept-loss"""
DAMAGED = 3
LOCK_FILE = "muster.lock"
SEGMENT: Final = re.compile(r"[0-9]{20}\.log")  # of a log; any other file of that ending is none
CHECKPOINT: Final = "muster.checkpoint"
_ERASE_LINE: Final = "\r\x1b[K"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    dump = actions.add_parser("dump", help="print every batch and record, keys and values decoded")
    dump.add_argument("path", metavar="DIR|FILE")
    dump.add_argument("--json", action="store_true", help="print a JSON object for each batch and each record")
    verify = actions.add_parser(
        "verify", help="read every batch, and check checksums, offsets and the coordinator's own records"
    )
    verify.add_argument("path", metavar="DIR")
    mend = actions.add_parser("repair", help="show what a repair would keep and lose; with --accept-loss, repair")
    mend.add_argument("path", metavar="DIR")
    mend.add_argument("--accept-loss", action="store_true", help="carry out the repair")
    compact = actions.add_parser("compact", help="keep the latest record of each key, in the coordinator's own logs")
    compact.add_argument("path", metavar="DIR")
    add_settings(compact)


def run(args: argparse.Namespace) -> int:
    try:
        return _run(args)
    except DamagedLog as damage:
        return fail("log", damage, DAMAGED)
    except ConfigError as error:
        return fail("log", error, 2)
    except (DirectoryLocked, StorageError) as failure:
        return fail("log", failure)
    except PermissionError as error:
        return fail("log", f"{error.filename}: {error.strerror}")


def _run(args: argparse.Namespace) -> int:
    if complaint := _find_fault(args.path, accepts_file=args.action == "dump"):
        return fail("log", f"invalid DIR {args.path!r}: {complaint}", 2)
    action = {"dump": _dump, "verify": _verify, "repair": _repair, "compact": _compact}[args.action]
    return action(args)


def _find_fault(path: str, *, accepts_file: bool) -> str:
    """Return what is wrong with a path that is to have logs, empty if nothing is."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # pathlib takes an empty path for the current directory
    except OSError as error:
        return f"cannot read it: {error.strerror or error}"
    if stat.S_ISDIR(mode):
        return "" if logs_of(path) else "expected a data directory or the directory of a log"
    return "" if accepts_file and stat.S_ISREG(mode) else "expected a directory"


def logs_of(path: str) -> list[str]:
    """Return the directories of the logs in a data directory, or the one log that `path` is.

    Beside logs any other file of such a name is one as well: it is in the place of a log, and cannot be read as one.
    """
    directory = Path(path)
    if any(SEGMENT.fullmatch(path.name) for path in directory.glob("*.log")) or (directory / CHECKPOINT).exists():
        return [str(directory)]
    found = [inside for inside in directory.iterdir() if partition_of(inside.name)]
    return sorted(map(str, found)) if any(inside.is_dir() for inside in found) else []


def _dump(args: argparse.Namespace) -> int:
    """Print every segment, also those after a damaged one."""
    path, code, files = Path(args.path), 0, list[Path]()
    for directory in [] if path.is_file() else logs_of(args.path):
        try:
            files += _list_segments(directory)
        except StorageError as failure:
            code = fail("log", failure)
    for file in [path] if path.is_file() else files:
        if not args.json:
            print(file)
        log = {"log": file.resolve().parent.name}
        try:
            for line in lines_of(file):
                print(json.dumps(log | line, default=str) if args.json else _format(line))
        except DamagedLog as damage:
            code = fail("log", damage, DAMAGED)
        except StorageError as failure:
            code = max(code, fail("log", failure))
    return code


def _list_segments(log: str) -> list[Path]:
    return [Path(log, name) for _, name in layout.look(RealFiles(), log).segments]


def _format(line: dict[str, Any]) -> str:
    """Return a line for people: records are indented below their batch, and values with spaces are JSON."""
    indent = "  " if "key" in line else ""
    return indent + " ".join(f"{name}={_format_value(value)}" for name, value in line.items())


def _format_value(value: Any) -> str:
    is_plain = isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "=')
    return str(value) if is_plain else make_printable(json.dumps(value, default=str, ensure_ascii=False))


def _verify(args: argparse.Namespace) -> int:
    """Verify every log, also those after a damaged one."""
    files, code = RealFiles(), 0
    if (catalog := _missing_catalog(files, args.path)) is not None:
        code = fail("log", catalog, DAMAGED)
    for missing in missing_logs(files, args.path):
        code = fail("log", DamagedLog(missing, 0, MISSING), DAMAGED)
    for log in logs_of(args.path):
        try:
            found = _examine(files, log)
        except DamagedLog as damage:
            code = fail("log", damage, DAMAGED)
            continue
        except StorageError as failure:  # the disk cannot read it
            code = max(code, fail("log", failure))
            continue
        plan = repair.survey(files, log, layout.look(files, log), _check_of(log))
        for one in plan.unreadable:
            where = DamagedLog(one.path, one.position, f"offset {one.first_offset}: {one.reason}")
            code = fail("log", where, DAMAGED)
        batches = f"{found.batches} batch{'' if found.batches == 1 else 'es'}"
        torn = f", a torn write of {found.cut.size} bytes at its end" if found.cut else ""
        print(f"{log}: offsets {found.checkpoint.start_offset} to {found.end_offset}, {batches}{torn}")
    return code


def _missing_catalog(files: Files, path: str) -> DamagedLog | None:
    """Return that the catalog is gone, as a start says it. Some logs of a data directory, copied, need none."""
    return missing_catalog(files, path) if files.exists(f"{path}/{data_format.NAME}") else None


def _examine(files: Files, log: str) -> RecoveryReport:
    """Read a log as a start does, and show how far it is on a terminal meanwhile. Raises DamagedLog."""
    try:
        return recovery.examine(files, log, layout.look(files, log), LogConfig().index_interval_bytes, _show_progress)
    finally:
        _show_on_terminal(_ERASE_LINE)


def _show_progress(done: int, total: int) -> None:
    _show_on_terminal(f"\r{100 * done // max(total, 1):3d} %")


def _show_on_terminal(text: str) -> None:
    if sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


def _repair(args: argparse.Namespace) -> int:
    files = RealFiles()
    if (catalog := _missing_catalog(files, args.path)) is not None:
        return fail("log", f"{catalog}; nothing else can take its place: put a copy of it there", DAMAGED)
    is_needed = _repair_missing(files, args.path, args.accept_loss)
    for log in logs_of(args.path):
        # No other process may write to the log between the survey and the repair.
        with _hold(files, log) if args.accept_loss else contextlib.nullcontext():
            is_needed |= _repair_one(files, log, args.accept_loss)
    if is_needed and not args.accept_loss:
        print("nothing was changed; --accept-loss changes it")
        return DAMAGED
    return 0


def _repair_missing(files: Files, data_dir: str, accept_loss: bool) -> bool:
    """Show which logs are gone, and with `accept_loss` make their directories. Return whether there are any."""
    missing = missing_logs(files, data_dir)
    for log in missing:
        print(f"{log}: LOSES all records, and begins at offset 0 again, unless a copy is put there: {MISSING}")
        if accept_loss:
            with _hold(files, f"{data_dir}/{DIRECTORY}"):
                files.make_directory(log)
    return bool(missing)


def _repair_one(files: Files, log: str, accept_loss: bool) -> bool:
    """Show what there is to repair in one log, and with `accept_loss` repair it. Return whether there is anything."""
    found = layout.look(files, log, is_repair=True)
    plan = repair.survey(files, log, found, _check_of(log))
    for line in _plan_lines(log, plan):
        print(line)
    is_needed = plan.is_needed
    while plan.is_needed and accept_loss:  # records may contradict others only once some are gone
        repair.carry_out(files, log, found, plan)
        Log.open(files, log).close()
        found = layout.look(files, log, is_repair=True)
        plan = repair.survey(files, log, found, _check_of(log))
        for line in _plan_lines(log, plan) if plan.is_needed else ():
            print(line)
    if is_needed and accept_loss:
        print(f"{log}: repaired")
    return is_needed


def _check_of(log: str) -> repair.Check | None:
    """Return the function that replays the records of a log of the coordinator's own; None for a topic's log."""
    partition = partition_of(Path(log).absolute().name)
    return None if partition is None else check_of(partition[0])


def _plan_lines(log: str, plan: Survey) -> Iterator[str]:
    if not plan.is_needed:
        yield f"{log}: nothing to repair"
    for mended in plan.mended:
        yield f"{mended.path}:{mended.position}: can be mended without loss: {mended.what}"
    for loss in plan.losses:
        where = f"{loss.path}:{loss.position}: {loss.size} bytes"
        if not loss.size and loss.first_offset == loss.end_offset:
            yield f"{loss.path}: is missing; nothing is known to have been in it"
        elif loss.first_offset == loss.end_offset:
            yield f"{where} of a torn write are cut off; they were never acknowledged"
        else:
            yield f"{where}: LOSES offsets {loss.first_offset} to {loss.end_offset - 1}"
    for name, reason in plan.swaps:
        yield f"{log}/{name}: put aside, because the segment that it was to replace exists: {reason}"
    for one in plan.unreadable:
        offsets = f"offset {one.first_offset}"
        if one.end_offset > one.first_offset + 1:
            offsets = f"offsets {one.first_offset} to {one.end_offset - 1}"
        yield f"{one.path}:{one.position}: LOSES {offsets}, which cannot be read: {one.reason}"
    if plan.forgets_checkpoint:
        yield f"{log}/muster.checkpoint: unreadable: deleted records that a segment still holds return"


@contextlib.contextmanager
def _hold(files: Files, log: str) -> Iterator[None]:
    """Lock the data directory that the log is in, as a server does, and the log's own directory.

    A log may be a symbolic link in the data directory. A server locks the directory that the link leads to, and so
    does this: the log is found in use by either of its paths.
    """
    own = () if Path(log).is_symlink() else (log,)
    lock = files.lock(str(Path(log).absolute().parent / LOCK_FILE), own)
    try:
        yield
    finally:
        lock.release()


def _compact(args: argparse.Namespace) -> int:
    files, config = RealFiles(), own_log_config(read_settings(args).config)
    for directory in logs_of(args.path):
        partition = partition_of(Path(directory).resolve().name)
        if partition is None or partition[0] not in FACTS:
            print(f"{directory}: left as it is: only the server compacts the logs of topics")
            continue
        with _hold(files, directory):
            log = Log.open(files, directory, config)
            done = cleaner.run(log, time.time_ns() // 1_000_000)
            log.close()
        if done is None:
            print(f"{directory}: nothing to compact")
        else:
            print(f"{directory}: {done.bytes_before} -> {done.bytes_after} bytes up to offset {done.cleaned_to}")
    return 0
