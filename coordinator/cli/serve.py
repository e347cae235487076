"""Starts the server, and serves until SIGTERM or SIGINT.

Without options it listens on 127.0.0.1:9092 for Kafka clients and on 127.0.0.1:8092 for HTTP, and keeps its state in
./muster-data. Exit codes: 0 stopped cleanly, 1 it failed, 2 wrong use.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coordinator.cli import STARTED, fail
from coordinator.cli.settings import add_settings, settings
from coordinator.config import Config, ConfigError

HELP = "start the server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--listen", action="append", metavar="HOST:PORT", help="where Kafka clients connect (127.0.0.1:9092); port 0: a free one; may be given again")
    add("--advertise", metavar="HOST:PORT", help="what clients are told, where it is not what is bound; port 0: the bound one")
    add("--admin", metavar="HOST:PORT", help="health and metrics by HTTP (127.0.0.1:8092); off: none")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data-dir", metavar="DIR", help="where the logs are kept (muster-data)")
    where.add_argument("--ephemeral", action="store_true", default=None, help="keep nothing: all state is in memory")
    add("--fsync", action="store_true", default=None, help="answer only when the disk has it, not just the kernel")
    add("--topic", action="append", metavar="NAME:PARTITIONS", help="a topic to create if it is not there; may be given again")
    add_settings(parser)
    add("--ready-file", metavar="FILE", help="written as JSON, whole, once the server serves")
    add("--seed", type=int, metavar="N", help="make ids from this seed, for runs that can be repeated")
    add("--log-level", choices=("debug", "info", "warning", "error"), help="what is logged to standard error (info: a line a group transition)")
    add("--log-format", choices=("text", "json"), help="key=value lines, or JSON lines (text)")


class Options(Struct, frozen=True):
    """What to serve, and where."""

    config: Config
    listen: tuple[str, ...]
    advertise: str | None
    admin: str | None
    data_dir: str | None  # None: keep nothing
    fsync: bool
    topics: Mapping[str, int]
    ready_file: str | None
    seed: int | None
    log_level: str
    log_format: str
    started: float  # by time.monotonic()


def options(args: argparse.Namespace) -> Options:
    """The command line over the file over the defaults. Raises ConfigError with a line that names the option."""
    from_file = settings(args)

    def said(name: str, otherwise: Any) -> Any:
        value = getattr(args, name.replace("-", "_"))
        return from_file.options.get(name, otherwise) if value is None else value

    if args.data_dir is not None and args.ephemeral is None:
        ephemeral = False
    else:
        ephemeral = said("ephemeral", False)
    admin = said("admin", "127.0.0.1:8092")
    listen = tuple(said("listen", ["127.0.0.1:9092"]))
    advertise = said("advertise", None)
    for option, addresses in (("--listen", listen), ("--advertise", (advertise,)), ("--admin", (admin,))):
        _check_addresses(option, addresses)
    return Options(
        config=from_file.config,
        listen=listen,
        advertise=advertise,
        admin=None if admin == "off" else admin,
        data_dir=None if ephemeral else said("data-dir", "muster-data"),
        fsync=said("fsync", False),
        topics=dict(_topic(text) for text in said("topic", [])),
        ready_file=said("ready-file", None),
        seed=said("seed", None),
        log_level=said("log-level", "info"),
        log_format=said("log-format", "text"),
        started=STARTED,
    )


def _check_addresses(option: str, addresses: tuple[str | None, ...]) -> None:
    from coordinator.server.listener import address

    for one in addresses:
        if one is not None and not (one == "off" and option == "--admin"):
            try:
                address(one)
            except ValueError as error:
                raise ConfigError(f"{option}: {error}") from None


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon or not partitions.isdigit() or not 1 <= int(partitions) <= 10_000:
        raise ConfigError(f"--topic: {text!r} will not do; it may be NAME:PARTITIONS with 1 to 10000 partitions")
    return name, int(partitions)


def run(args: argparse.Namespace) -> int:
    try:
        chosen = options(args)
    except ConfigError as error:
        return fail("serve", error, 2)
    from coordinator.cli.serving import serve

    return serve(chosen)
