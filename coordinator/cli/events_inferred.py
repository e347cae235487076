"""`muster events` by the log of any Kafka: the rebalances of all groups, or of one. Not a subcommand."""

import argparse
import json

from coordinator.cli import fail
from coordinator.cli.group_changes import Changes, find_home, open_reader
from coordinator.cli.since import Since, format_since
from coordinator.control.printable import make_printable
from pipeline.history import timeline
from pipeline.history.records import Rebalance


def tell_inferred(args: argparse.Namespace) -> int:
    """Print what the log shows, and with --follow what comes. Raises ClientError."""
    with open_reader(args) as reader:
        partitions = list(reader.describe().leaders)
        if args.group is not None:
            partitions = [find_home(args.group, len(partitions))]
        is_since_now = args.follow and args.since is None and args.count is None
        changes = Changes(reader, partitions, Since(ago_ms=0) if is_since_now else args.since or Since(), args.group)
        known = sorted(changes.known(), key=lambda one: (one.at_ms, one.log_offset))
        if args.group is not None and not known and not args.follow:
            return fail("events", f"no rebalance of {args.group!r} {format_since(args.since or Since())}")
        for one in known if args.count is None else known[-args.count :]:
            _print_change(args, one, changes)
        for change in changes.read_changes() if args.follow else ():
            if change is not None:
                _print_change(args, change, changes)
    return 0


def _print_change(args: argparse.Namespace, one: Rebalance, changes: Changes) -> None:
    naming = changes.replay.name
    if args.json:
        print(json.dumps(timeline.as_data([one], naming)[0]), flush=args.follow)
        return
    number = "" if one.generation is None else f"{'generation' if one.type == 'classic' else 'epoch'} {one.generation}"
    mark = "inferred" if timeline.is_certain(one) else "inferred, not certain"
    parts = (
        timeline.format_time(one.at_ms),
        one.group,
        timeline.describe(one, naming),
        timeline.state_after(one),
        number,
    )
    print("  ".join(make_printable(part) for part in parts if part) + f"  [{mark}]", flush=args.follow)
