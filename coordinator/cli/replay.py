"""Feed a journal to a node of its own, and compare what it answers with what the journal says.

FILE is what `GET /v1/journal/file` of the control API gives, of a server that was started with --seed, without logs and
with its journal on; - is standard input. The node begins with the seed, the time and the settings of that server, and
is given the same requests, verbs and moves of the clock: it gives the same responses and writes the same logs.

Exit codes: 0 every response is the same, 1 some differ, 2 the journal cannot be replayed."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.parser import integer
from coordinator.control.printable import make_printable

EXAMPLES: Final = """\
muster serve --ephemeral --seed 42 --set journal.max.bytes=67108864
curl -o run.jsonl http://127.0.0.1:8092/v1/journal/file
muster replay run.jsonl
muster replay run.jsonl --data-dir again              keep the logs that the node writes"""
SHOWN: Final = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--data-dir", metavar="DIR", help="write the logs here: a directory that is new, or empty")
    parser.add_argument(
        "--show", type=integer(0), default=SHOWN, metavar="N", help=f"how many differences to print ({SHOWN})"
    )
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    from coordinator.control.journal_file import JournalError, read_journal
    from coordinator.runtime.replay import Replay
    from storage.files import StorageError

    try:
        data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
        recording = read_journal(data)
        replay = Replay(recording, *_storage(args.data_dir))
        found = replay.run()
        replay.close()
    except OSError as error:
        return fail("replay", f"invalid FILE {args.file!r}: cannot read it: {error.strerror}", 2)
    except JournalError as error:
        return fail("replay", f"{'standard input' if args.file == '-' else args.file}: {error}", 2)
    except UsedDirectory as error:
        return fail("replay", error, 2)
    except StorageError as error:
        return fail("replay", error)
    told = [_describe(one.entry, one.response) for one in found[: args.show]]
    if args.json:
        facts = {"requests": replay.requests, "compared": replay.compared, "differences": len(found), "shown": told}
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        for one in told:
            print(
                f"request {one['number']}: {one['api']} {one['version']} of {one['client_id']!r}: {one['difference']}"
            )
        if len(found) > len(told):
            print(f"and {len(found) - len(told)} more")
        print(f"replayed {replay.requests} requests: {len(found)} of {replay.compared} responses differ")
    return 1 if found else 0


class UsedDirectory(Exception):  # noqa: N818  # reads as the fact that it is
    """A directory that is to take the logs, and is not empty."""


def _storage(data_dir: str | None) -> tuple[Any, str]:
    if data_dir is None:
        from storage.memory_files import MemoryFiles

        return MemoryFiles(), "memory"
    from storage.real_files import RealFiles

    files = RealFiles()
    files.make_directory(data_dir)
    if files.list(data_dir):
        raise UsedDirectory(f"invalid --data-dir {data_dir!r}: expected a directory that is new, or empty")
    return files, data_dir


def _describe(entry: Any, response: bytes | None) -> dict[str, Any]:
    """Return a difference: which request, and the first field in which the responses differ."""
    from coordinator.control.journal import describe_entry
    from protocol.codec import decode_response
    from protocol.errors import ProtocolError

    recorded = describe_entry(entry)
    told = {name: recorded[name] for name in ("number", "api", "version", "client_id")}
    if response is None:
        return {**told, "difference": "not answered, expected a response"}
    try:
        body = decode_response(entry.api_key, entry.version, response[4:]).body
    except ProtocolError as error:
        return {**told, "difference": f"cannot be read: {error}"}
    return {**told, "difference": find_change(recorded["response"], body) or "the bytes differ, the fields do not"}


def find_change(before: Any, after: Any, path: str = "response") -> str | None:
    """Return where a decoded response is not the one before, and how; None if it is the same."""
    from coordinator.control.journal import to_plain

    after = to_plain(after)
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(f"{path}.{name}", before.get(name), after.get(name)) for name in {**before, **after}]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{path}[{index}]", one, other) for index, (one, other) in enumerate(zip(before, after, strict=True))]
    else:
        return None if before == after else f"{path} is {_show(after)}, expected {_show(before)}"
    changes = (find_change(one, other, where) for where, one, other in pairs)
    return next((change for change in changes if change is not None), None)


def _show(value: Any) -> str:
    text = make_printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 100 else text[:97] + "..."
