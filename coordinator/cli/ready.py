"""How a server says that it is ready: a line on standard output, and a file."""

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from coordinator.cli import discard_output
from coordinator.cli.options import Options
from coordinator.cli.start import StartFailed
from coordinator.server.listener import Listener, format_address
from coordinator.setting import ConfigError


def check_ready_file(name: str | None) -> None:
    """Refuse a file that cannot be written, now rather than when the server is ready. Raises ConfigError."""
    if name is None:
        return
    path = Path(name)
    if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)):
        raise ConfigError(f"invalid --ready-file {name!r}: expected a file in a directory that can be written to")


def say_ready(options: Options, listeners: Sequence[Listener], admin_listener: Listener | None) -> None:
    """Print the line that says where the server listens, and write the ready file. Raises StartFailed."""
    seconds = round(time.monotonic() - options.started, 2)
    addresses = [listener.address for listener in listeners]
    advertised = [format_address(listener.host, listener.port) for listener in listeners]
    admin = f"http://{admin_listener.address}" if admin_listener else None
    data = options.data_dir
    protocols = [listener.protocol for listener in listeners]
    told = "" if advertised == addresses else f" advertised={','.join(dict.fromkeys(advertised))}"
    if set(protocols) != {"PLAINTEXT"}:
        told += f" protocol={','.join(protocols)}"
    try:
        print(
            f"muster ready kafka={','.join(addresses)}{told} admin={admin or 'off'} data={data or 'memory'}"
            f" after {seconds:.2f} s",
            flush=True,
            file=sys.stderr if options.beside else None,  # the command has standard output
        )
    except OSError as error:
        discard_output()
        raise StartFailed(f"cannot write to standard output: {error.strerror}") from None
    if options.ready_file:
        from json import dumps

        facts = {
            "kafka": addresses[0],
            "listeners": addresses,
            "advertised": advertised,
            "names": [listener.name for listener in listeners],
            "protocols": protocols,
            "brokers": [listener.where.node_id for listener in listeners],
            "admin": admin,
            "data": data,
            "pid": os.getpid(),
            "seconds": seconds,
        }
        _write_atomically(Path(options.ready_file), dumps(facts) + "\n")


def remove_ready_file(name: str | None) -> None:
    """Remove the ready file of an earlier run. Call this once the addresses and the data directory are ours."""
    if name is not None:
        with contextlib.suppress(OSError):  # a name that cannot be used fails when it is written, with the reason
            Path(name).unlink(missing_ok=True)


def _write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: a reader never sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError as error:
        raise StartFailed(f"cannot write {path} (--ready-file): {error.strerror}") from None
