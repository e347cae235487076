"""The arguments of `muster pipeline`, without importing anything that does the work."""

import argparse
import re
from collections.abc import Callable

Parser = argparse.ArgumentParser
SPARK = ("build", "bench")  # jobs that cannot do without it


def add_commands(parser: Parser) -> None:
    """Add the subcommands, each with its own arguments."""
    commands = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, help_line, add in JOBS:
        sub = commands.add_parser(name, help=help_line, description=help_line)
        add(sub)
        if name != "dump":  # its lines are those of Kafka's tool; `muster log dump` has --json
            sub.add_argument("--json", action="store_true", help="print one JSON object instead of lines")


def _whole_number(text: str) -> int:
    """Return a whole number as people write it: `int` would take `1_0` and the digits of other scripts."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number")
    return int(text)


def _number(least: int) -> Callable[[str], int]:
    """Return a whole number from `least` on."""

    def number(text: str) -> int:
        value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} on")
        return value

    return number


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf") or "_" in text:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds")
    return value


def _topic(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("'': expected the name of a topic")
    return text


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r}: expected spark.NAME=VALUE")
    return name, value


def _spark(parser: Parser) -> None:
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master", help="local[N], spark://..., yarn, k8s://..., or sc://... (Spark's setting, or local[*])"
    )
    group.add_argument("--memory", metavar="SIZE", help="of the driver (Spark's setting, or 1g)")
    group.add_argument("--executor-memory", metavar="SIZE", help="of each executor (Spark's setting)")
    group.add_argument(
        "--conf", action="append", default=[], type=_setting, metavar="NAME=VALUE", help="any setting of Spark"
    )
    group.add_argument("--py-files", action="append", default=[], metavar="FILE", help="a wheel or zip for the workers")
    group.add_argument("--spark-log", metavar="FILE", help="where Spark's own log goes (a temporary file)")


def _logs(parser: Parser) -> None:
    parser.add_argument(
        "paths", nargs="+", metavar="DIR",
        help="a log directory, or one that holds some; also s3://..., or kafka://HOST:PORT for a cluster",
    )  # fmt: skip
    _reading_options(parser)


def _cluster(parser: Parser) -> None:
    parser.add_argument(
        "--command-config", metavar="FILE", default=argparse.SUPPRESS,  # it may stand before the command as well
        help="for kafka://...: a file with settings of Kafka's clients for TLS and SASL ($MUSTER_COMMAND_CONFIG)",
    )  # fmt: skip


def _reading_options(parser: Parser) -> None:
    _cluster(parser)
    parser.add_argument(
        "--topic", type=_topic, help="whose logs (__consumer_offsets, and __share_group_state in directories)"
    )
    parser.add_argument(
        "--on-error",
        choices=("record", "salvage", "fail"),
        default="record",
        help="at bytes that are no batch: stop there and report it, search for the next batch, or fail (record)",
    )


def _out(parser: Parser) -> None:
    parser.add_argument("--out", required=True, metavar="TABLES", help="the directory of the tables; also s3://...")


def _ingest(parser: Parser) -> None:
    _logs(parser)
    _out(parser)
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        help="who decodes: this process, or Spark's workers; auto takes Spark from 512 MiB on, or with --master (auto)",
    )
    _spark(parser)


def _judging_options(parser: Parser) -> None:
    parser.add_argument(
        "--events",
        nargs="*",
        action="extend",
        default=[],
        metavar="FILE",
        help="the server's event log, if there is one; may be given again",
    )
    parser.add_argument(
        "--ends",
        metavar="PATH",
        help="log end offsets: a directory of topics, JSON lines, Parquet,"
        " a replication-offset-checkpoint, or kafka://HOST:PORT",
    )
    parser.add_argument(
        "--now", type=_number(0), metavar="MS", help="judge lag as of this time (the newest commit or log end)"
    )


def _build(parser: Parser) -> None:
    _out(parser)
    _cluster(parser)
    _judging_options(parser)
    parser.add_argument(
        "--format", choices=("parquet", "delta"), help="of the derived tables (that of the last time, or parquet)"
    )
    _spark(parser)


def _follow(parser: Parser) -> None:
    _logs(parser)
    _out(parser)
    parser.add_argument("--every", type=_number(1), default=500, metavar="MS", help="look for more this often (500)")
    parser.add_argument("--once", action="store_true", help="stop when all that is there now has been read")
    parser.add_argument("--for", dest="seconds", type=_seconds, metavar="SECONDS", help="stop after this long")
    parser.add_argument("--max-bytes", type=_number(1), metavar="N", help="read at most about so much at a time")


def _optimize(parser: Parser) -> None:
    _out(parser)


def _compact(parser: Parser) -> None:
    parser.add_argument("path", metavar="DIR", help="logs to compact; they are only read")
    parser.add_argument("--out", required=True, metavar="DIR2", help="where the compacted copies go; must be new")
    parser.add_argument(
        "--drop-tombstones-before", type=_number(0), metavar="MS", help="leave out tombstones older than this"
    )


def _report(parser: Parser) -> None:
    parser.add_argument("paths", nargs="*", metavar="DIR", help="logs, of which tables are made for this once")
    parser.add_argument("--tables", metavar="TABLES", help="tables that `build` made; without Spark")
    parser.add_argument("--out", required=True, metavar="FILE", help="the HTML file to write")
    parser.add_argument("--title", default="Consumer groups", help="(Consumer groups)")
    _reading_options(parser)
    _judging_options(parser)
    _spark(parser)


def _verify(parser: Parser) -> None:
    parser.add_argument("paths", nargs="+", metavar="DIR", help="logs to read in both ways; also kafka://HOST:PORT")
    _cluster(parser)
    parser.add_argument("--tables", metavar="TABLES", help="tables made of the same logs, to be compared as well")


def _dump(parser: Parser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="segment files")
    parser.add_argument(
        "--topic",
        type=_topic,
        help="whose records they are: __share_group_state, else __consumer_offsets (by the file's directory)",
    )


def _synth(parser: Parser) -> None:
    parser.add_argument("path", metavar="DIR", help="where the made-up logs go; must be new")
    parser.add_argument("--seed", type=_whole_number, default=1, help="(1)")
    parser.add_argument("--records", type=_number(0), default=20_000, help="offset commits (20000)")
    parser.add_argument("--groups", type=_number(1), default=20, help="(20)")
    parser.add_argument("--partitions", type=_number(1), default=4, help="logs (4)")
    parser.add_argument(
        "--lives", type=_number(0), default=10, help="groups with members that come and go, in one more log (10)"
    )


def _bench(parser: Parser) -> None:
    parser.add_argument("--mb", type=_number(1), default=100, help="size of the largest made-up log (100)")
    parser.add_argument("--out", metavar="DIR", help="where the made-up logs go (a temporary directory)")
    _spark(parser)


JOBS: tuple[tuple[str, str, Callable[[Parser], None]], ...] = (
    ("ingest", "read logs into raw tables, going on where the last time ended", _ingest),
    ("build", "make the derived tables of what was ingested (Spark)", _build),
    ("follow", "ingest what is written, while it is written", _follow),
    ("optimize", "merge small files of the raw tables, by date, and remove orphans", _optimize),
    ("compact", "write compacted copies of logs, and prove that they say the same", _compact),
    ("report", "one HTML file with pictures of what happened", _report),
    ("verify", "read logs in two ways, and compare", _verify),
    ("dump", "print segments as Kafka's DumpLogSegments does", _dump),
    ("scan", "batches and problems of logs", _logs),
    ("synth", "write made-up logs", _synth),
    ("bench", "measure, each figure against something measured in the same run (Spark)", _bench),
)
