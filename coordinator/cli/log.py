"""Dump, verify, repair or compact the logs of a data directory.

No server is needed; none may be running for repair and compact. DIR is a data directory, or the directory of one
partition in it. Exit code 3: a log is damaged, with file and byte."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinator.cli import fail
from coordinator.cli.logdump import FACTS, lines_of
from coordinator.cli.settings import add_settings, read_settings
from coordinator.config import ConfigError
from coordinator.dataplane.settings import own_log_config
from coordinator.runtime.contents import check_of
from storage import cleaner, layout, recovery, repair
from storage.files import DirectoryLocked, Files, RealFiles, StorageFailed
from storage.layout import DamagedLog
from storage.log import Log, LogConfig
from storage.names import partition_of
from storage.repair import Survey

DAMAGED = 3
LOCK_FILE = "muster.lock"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    dump = actions.add_parser("dump", help="print every batch and record, keys and values decoded")
    dump.add_argument("path", metavar="DIR|FILE")
    dump.add_argument("--json", action="store_true", help="for programs: one object a record")
    verify = actions.add_parser("verify", help="read every batch and compare checksums and neighbours")
    verify.add_argument("path", metavar="DIR")
    mend = actions.add_parser("repair", help="say what a repair would save and lose; with --accept-loss, do it")
    mend.add_argument("path", metavar="DIR")
    mend.add_argument("--accept-loss", action="store_true", help="carry it out")
    compact = actions.add_parser("compact", help="keep the latest record of each key, in the coordinator's own logs")
    compact.add_argument("path", metavar="DIR")
    add_settings(compact)


def run(args: argparse.Namespace) -> int:
    if not Path(args.path).exists():
        return fail("log", f"{args.path} is not there", 2)
    action = {"dump": _dump, "verify": _verify, "repair": _repair, "compact": _compact}[args.action]
    try:
        return action(args)
    except DamagedLog as damage:
        return fail("log", damage, DAMAGED)
    except ConfigError as error:
        return fail("log", error, 2)
    except (DirectoryLocked, StorageFailed) as failure:
        return fail("log", failure)


def logs_of(path: str) -> list[str]:
    """The directories of the logs in a data directory, or the one log that `path` is."""
    directory = Path(path)
    if any(directory.glob("*.log")) or (directory / "muster.checkpoint").exists():
        return [str(directory)]
    return sorted(str(inside) for inside in directory.iterdir() if inside.is_dir() and partition_of(inside.name))


def _dump(args: argparse.Namespace) -> int:
    path = Path(args.path)
    files = [path] if path.is_file() else [file for log in logs_of(args.path) for file in _segments(log)]
    for file in files:
        if not args.json:
            print(f"{file}")
        for line in lines_of(file):
            print(json.dumps(line, default=str) if args.json else _shown(line))
    return 0


def _segments(log: str) -> list[Path]:
    return [Path(log, name) for _, name in layout.look(RealFiles(), log).segments]


def _shown(line: dict[str, Any]) -> str:
    indent = "  " if "key" in line else ""
    return indent + " ".join(f"{name}={_text(value)}" for name, value in line.items())


def _text(value: Any) -> str:
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)


def _verify(args: argparse.Namespace) -> int:
    """Every log is looked at, also those behind a damaged one."""
    files, code = RealFiles(), 0
    for log in logs_of(args.path):
        try:
            found = recovery.examine(files, log, layout.look(files, log), LogConfig().index_interval_bytes, _progress)
        except DamagedLog as damage:
            code = fail("log", damage, DAMAGED)
            continue
        plan = repair.survey(files, log, layout.look(files, log), _check_of(log))
        for one in plan.unreadable:
            where = DamagedLog(one.path, one.position, f"offset {one.first_offset}: {one.reason}")
            code = fail("log", where, DAMAGED)
        torn = f", a torn write of {found.cut.size} bytes at its end" if found.cut else ""
        print(f"{log}: offsets {found.checkpoint.start_offset} to {found.end_offset}, {found.batches} batches{torn}")
    return code


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{100 * done // max(total, 1):3d} %", end="", file=sys.stderr, flush=True)


def _repair(args: argparse.Namespace) -> int:
    files = RealFiles()
    is_needed = False
    for log in logs_of(args.path):
        # What is carried out is what was found while nobody else could write.
        with _held(files, log) if args.accept_loss else contextlib.nullcontext():
            is_needed |= _repair_one(files, log, args.accept_loss)
    if is_needed and not args.accept_loss:
        print("nothing was changed; --accept-loss carries this out")
        return DAMAGED
    return 0


def _repair_one(files: Files, log: str, accept_loss: bool) -> bool:
    """Tell what there is to repair in one log, and do it if that was asked for. Returns whether there was anything."""
    found = layout.look(files, log, is_repair=True)
    plan = repair.survey(files, log, found, _check_of(log))
    for line in _plan_lines(log, plan):
        print(line)
    is_needed = plan.is_needed
    while plan.is_needed and accept_loss:  # again where records contradict others only once some are gone
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
    """What a start makes of the records, where they are the coordinator's own."""
    partition = partition_of(Path(log).absolute().name)
    return None if partition is None else check_of(partition[0])


def _plan_lines(log: str, plan: Survey) -> Iterator[str]:
    if not plan.is_needed:
        yield f"{log}: nothing to repair"
    for mended in plan.mended:
        yield f"{mended.path}:{mended.position}: can be put right without loss: {mended.what}"
    for loss in plan.losses:
        where = f"{loss.path}:{loss.position}: {loss.size} bytes"
        if loss.first_offset == loss.end_offset:
            yield f"{where} of a torn write are cut off; they were never acknowledged"
        else:
            yield f"{where}: LOSES offsets {loss.first_offset} to {loss.end_offset - 1}"
    for name, reason in plan.swaps:
        yield f"{log}/{name}: put aside, for the segment that it was to replace is there: {reason}"
    for one in plan.unreadable:
        offsets = f"offset {one.first_offset}"
        if one.end_offset > one.first_offset + 1:
            offsets = f"offsets {one.first_offset} to {one.end_offset - 1}"
        yield f"{one.path}:{one.position}: LOSES {offsets}, which cannot be read: {one.reason}"
    if plan.forgets_checkpoint:
        yield f"{log}/muster.checkpoint: unreadable; deleted records that a segment still holds come back"


@contextlib.contextmanager
def _held(files: Files, log: str) -> Iterator[None]:
    """Hold the data directory that the log is in, as a server does, and the log itself.

    A server holds what links in its data directory lead to, so that a log is found in use under either of its names.
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
            print(f"{directory}: left as it is: what its topic keeps is for the server to decide")
            continue
        with _held(files, directory):
            log = Log.open(files, directory, config)
            done = cleaner.run(log, time.time_ns() // 1_000_000)
            log.close()
        if done is None:
            print(f"{directory}: nothing to compact")
        else:
            print(f"{directory}: {done.bytes_before} -> {done.bytes_after} bytes up to offset {done.cleaned_to}")
    return 0
