"""What `muster pipeline` can be asked, without importing anything that does it."""

import argparse
from collections.abc import Callable

Parser = argparse.ArgumentParser
SPARK = ("ingest", "build", "follow", "report", "bench")


def add_commands(parser: Parser) -> None:
    """The subcommands, each with its own arguments."""
    commands = parser.add_subparsers(dest="job", metavar="JOB", required=True)
    for name, help_line, add in JOBS:
        sub = commands.add_parser(name, help=help_line, description=help_line)
        add(sub)
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
        if name in SPARK:
            sub.add_argument("--master", default="local[*]", help="a Spark master (local[*])")
            sub.add_argument("--memory", default="1g", help="of the driver (1g)")


def _some(text: str) -> int:
    """A number from 1 on."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is too little")
    return number


def _logs(parser: Parser) -> None:
    parser.add_argument(
        "paths", nargs="+", metavar="DIR", help="a log directory, or one that holds some; also s3://..."
    )
    parser.add_argument("--topic", default="__consumer_offsets", help="whose logs (__consumer_offsets)")
    parser.add_argument(
        "--on-error",
        choices=("record", "salvage", "fail"),
        default="record",
        help="at bytes that are no batch: stop there and report it, search for the next batch, or fail (record)",
    )
    parser.add_argument("--decoder", choices=("auto", "numba", "numpy", "python"), default="auto", help="(auto)")


def _out(parser: Parser) -> None:
    parser.add_argument("--out", required=True, metavar="TABLES", help="the directory of the tables")


def _ingest(parser: Parser) -> None:
    _logs(parser)
    _out(parser)


def _build(parser: Parser) -> None:
    _out(parser)
    parser.add_argument(
        "--events", nargs="*", default=[], metavar="FILE", help="the server's event log, if there is one"
    )
    parser.add_argument(
        "--ends",
        metavar="PATH",
        help="log end offsets: a directory of topics, JSON lines, Parquet, or a replication-offset-checkpoint",
    )
    parser.add_argument(
        "--now", type=int, metavar="MS", help="judge lag as of this time (the newest commit or log end)"
    )


def _follow(parser: Parser) -> None:
    _ingest(parser)
    parser.add_argument("--every", type=_some, default=500, metavar="MS", help="look for more this often (500)")
    parser.add_argument("--once", action="store_true", help="stop when all that is there now has been read")
    parser.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="stop after this long")
    parser.add_argument("--max-bytes", type=_some, metavar="N", help="read at most about so much at a time")


def _compact(parser: Parser) -> None:
    parser.add_argument("path", metavar="DIR", help="logs to compact; they are only read")
    parser.add_argument("--out", required=True, metavar="DIR2", help="where the compacted copies go")
    parser.add_argument("--drop-tombstones-before", type=int, metavar="MS", help="leave out tombstones older than this")


def _report(parser: Parser) -> None:
    parser.add_argument("--tables", required=True, metavar="TABLES", help="tables that `build` made")
    parser.add_argument("--out", required=True, metavar="FILE", help="the HTML file to write")
    parser.add_argument("--title", default="Consumer groups", help="(Consumer groups)")


def _verify(parser: Parser) -> None:
    parser.add_argument("paths", nargs="+", metavar="DIR", help="logs to read in both ways")
    parser.add_argument("--tables", metavar="TABLES", help="tables made of the same logs, to be compared as well")


def _dump(parser: Parser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="segment files")


def _synth(parser: Parser) -> None:
    parser.add_argument("path", metavar="DIR", help="where the made-up logs go; must be new")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("--records", type=int, default=20_000, help="offset commits (20000)")
    parser.add_argument("--groups", type=_some, default=20, help="(20)")
    parser.add_argument("--partitions", type=_some, default=4, help="logs (4)")
    parser.add_argument(
        "--lives", type=int, default=10, help="groups with members that come and go, in one more log (10)"
    )


def _bench(parser: Parser) -> None:
    parser.add_argument("--mb", type=_some, default=100, help="size of the largest made-up log (100)")
    parser.add_argument("--out", metavar="DIR", help="where the made-up logs go (a temporary directory)")


JOBS: tuple[tuple[str, str, Callable[[Parser], None]], ...] = (
    ("ingest", "read logs into raw tables, going on where the last time ended", _ingest),
    ("build", "make the derived tables of what was ingested", _build),
    ("follow", "ingest what is written, while it is written", _follow),
    ("compact", "write compacted copies of logs, and prove that they say the same", _compact),
    ("report", "one HTML file with pictures of what happened", _report),
    ("verify", "read logs in two ways, and compare", _verify),
    ("dump", "print segments as Kafka's DumpLogSegments does (no Spark)", _dump),
    ("scan", "batches and problems of logs (no Spark)", _logs),
    ("synth", "write made-up logs", _synth),
    ("bench", "measure, each figure against something measured in the same run", _bench),
)
