"""Start the server, and serve until SIGTERM or SIGINT.

Without options it listens on 127.0.0.1:9092 for Kafka clients and on 127.0.0.1:8092 for HTTP, and keeps its state in
./muster-data. Exit codes: 0 stopped cleanly, 1 failed, 2 wrong use.

With `-- COMMAND` it listens on free ports and keeps nothing, runs the command with its addresses in the environment,
stops when the command has ended, and returns its exit code."""

import argparse
import gc
import sys
from typing import Final

from coordinator.cli import fail
from coordinator.cli.parser import one_of, whole_number
from coordinator.cli.settings import add_settings
from coordinator.config import explain_no_effect
from coordinator.setting import ConfigError

EXAMPLES: Final = """\
muster serve
muster serve --ephemeral --topic orders:4 --listen 127.0.0.1:0 --ready-file ready.json
muster serve --listen 0.0.0.0:9092 --advertise kafka.example:9092 --data-dir /var/lib/muster --fsync
muster serve --listen :9092 --listen SSL://:9093 --set ssl.keystore.location=server.pem
muster serve --brokers 3 --ephemeral
muster serve --topic orders:4 -- pytest -x     # BOOTSTRAP_SERVERS and MUSTER tell the command where the server is
muster serve --set group.max.size=100 --set group.initial.rebalance.delay.ms=3000
KAFKA_NUM_PARTITIONS=3 muster serve --config muster.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--listen",
        action="append",
        metavar="[NAME://]HOST:PORT",
        help="where Kafka clients connect (127.0.0.1:9092); port 0 takes a free one; may be given again",
    )
    add(
        "--advertise",
        action="append",
        metavar="[NAME://]HOST:PORT",
        help="the address that clients are given, if not the one of --listen; port 0 stands for its port; one for all, "
        "or given again for each --listen, by its NAME or in their order",
    )
    add(
        "--brokers",
        type=whole_number,
        metavar="N",
        help="be so many brokers to the clients (1), each with the next port of every --listen",
    )
    add("--admin", metavar="HOST:PORT", help="health, metrics and events over HTTP (127.0.0.1:8092); off for none")
    add("--admin-token-file", metavar="FILE", help="a file with the token that the admin port wants to see")
    add(
        "--admin-public",
        action="store_true",
        default=None,
        help="let the admin port be reached from other machines without a token",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data-dir", metavar="DIR", help="where the logs are kept (muster-data)")
    where.add_argument("--ephemeral", action="store_true", default=None, help="keep nothing: all state is in memory")
    add(
        "--fast",
        action=argparse.BooleanOptionalAction,
        help="let groups of the newer protocols rebalance in milliseconds, for tests; --ephemeral implies it",
    )
    add("--fsync", action="store_true", default=None, help="fsync the logs before each response: survives a power cut")
    add(
        "--topic",
        action="append",
        metavar="NAME:PARTITIONS",
        help="a topic to create if it does not exist; may be given again",
    )
    add("--compat", metavar="VERSION", help="4.3, or 3.9 to offer also the API versions that Kafka 4 removed (4.3)")
    add(
        "--oauth-dev",
        action="store_true",
        default=None,
        help="for development: give OAuth tokens to whoever asks the admin port, and accept them (OAUTHBEARER)",
    )
    add_settings(parser)
    add(
        "--exit-with-stdin",
        action="store_true",
        default=None,
        help="stop when standard input, a pipe, ends: with the process that holds its other end, however that dies",
    )
    add("--ready-file", metavar="FILE", help="write a JSON file, atomically, once the server is ready")
    add("--seed", type=whole_number, metavar="N", help="make ids from this seed, for repeatable runs")
    add("--log-level", metavar="LEVEL", **one_of(("debug", "info", "warning", "error")),
        help="debug, info, warning or error, on standard error (info)")  # fmt: skip
    add("--log-format", metavar="FORMAT", **one_of(("text", "json")), help="text (key=value) or json (text)")


def run(args: argparse.Namespace) -> int:
    gc.disable()  # until `serve` begins: imports leave next to no garbage, and the search for it takes a sixth of them
    from coordinator.cli.options import read_options

    try:
        options = read_options(args)
    except ConfigError as error:
        return fail("serve", error, 2)
    for name, source in options.ignored.items():
        print(f"muster serve: {explain_no_effect(name, source)}", file=sys.stderr)
    for variable, near in options.suspects.items():
        print(f"muster serve: {variable} is no setting: did you mean {near}?", file=sys.stderr)
    for name in options.controllers:
        print(f"muster serve: listener {name} is not bound: Muster has no controller to reach", file=sys.stderr)
    from coordinator.cli.serving import serve

    return serve(options)
