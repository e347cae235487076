"""Reads group logs, of Muster or of a Kafka cluster, and tells what happened to the groups.

Exit codes: 0 done, 1 it failed, 2 wrong use or something is not installed, 3 the logs have problems (results are
written all the same, but by `compact` and with `--on-error fail`), 4 two ways of reading a log disagree.
"""

import argparse

from coordinator.cli import fail

HELP = "group logs to tables, answers and a report (Spark)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from pipeline.arguments import add_commands

    add_commands(parser)


def run(args: argparse.Namespace) -> int:
    from pipeline.arguments import SPARK
    from pipeline.session import INSTALL, missing

    if lacking := missing(on_spark=args.job in SPARK):
        return fail("pipeline", f"{INSTALL} (missing: {', '.join(lacking)})", 2)
    from pipeline.commands import run as run_command

    return run_command(args)
