"""Starts the server, and serves until SIGTERM or SIGINT.

Without options it listens on 127.0.0.1:9092 for Kafka clients and on 127.0.0.1:8092 for HTTP, and keeps its state in
./muster-data. Exit codes: 0 stopped cleanly, 1 it failed, 2 wrong use.
"""

import argparse

from coordinator.cli import fail
from coordinator.cli.options import options
from coordinator.cli.settings import add_settings
from coordinator.config import ConfigError

HELP = "start the server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--listen",
        action="append",
        metavar="HOST:PORT",
        help="where Kafka clients connect (127.0.0.1:9092); port 0: a free one; may be given again",
    )
    add(
        "--advertise",
        metavar="HOST:PORT",
        help="what clients are told, where it is not what is bound; port 0: the bound one",
    )
    add("--admin", metavar="HOST:PORT", help="health, metrics and events by HTTP (127.0.0.1:8092); off: none")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data-dir", metavar="DIR", help="where the logs are kept (muster-data)")
    where.add_argument("--ephemeral", action="store_true", default=None, help="keep nothing: all state is in memory")
    add("--fsync", action="store_true", default=None, help="answer only when the disk has it, not just the kernel")
    add(
        "--topic",
        action="append",
        metavar="NAME:PARTITIONS",
        help="a topic to create if it is not there; may be given again",
    )
    add("--compat", metavar="VERSION", help="4.3, or 3.9 to offer the old versions that Kafka 4 no longer has (4.3)")
    add_settings(parser)
    add("--ready-file", metavar="FILE", help="written as JSON, whole, once the server serves")
    add("--seed", type=int, metavar="N", help="make ids from this seed, for runs that can be repeated")
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="what is logged to standard error (info: a line a group transition)",
    )
    add("--log-format", choices=("text", "json"), help="key=value lines, or JSON lines (text)")


def run(args: argparse.Namespace) -> int:
    try:
        chosen = options(args)
    except ConfigError as error:
        return fail("serve", error, 2)
    from coordinator.cli.serving import serve

    return serve(chosen)
