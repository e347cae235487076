"""Read group logs, of Muster or of a Kafka cluster, and report what happened to the groups.

Exit codes: 0 done, 1 failed, 2 wrong use or a package is missing, 3 the logs have problems (the results are written all
the same, except by compact and with --on-error fail), 4 two ways of reading a log disagree."""

import argparse

from coordinator.cli import fail


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from pipeline.arguments import add_commands

    add_commands(parser)


def _on_spark(args: argparse.Namespace) -> bool:
    from pipeline.arguments import SPARK

    by_spark = args.job == "ingest" and (args.engine == "spark" or args.master)
    return args.job in SPARK or bool(by_spark) or (args.job == "report" and bool(args.paths))


def run(args: argparse.Namespace) -> int:
    from pipeline.session import INSTALL, find_missing_packages

    if lacking := find_missing_packages(on_spark=_on_spark(args)):
        return fail("pipeline", f"{INSTALL} (missing: {', '.join(lacking)})", 2)
    from pipeline.commands import run as run_command

    return run_command(args)
