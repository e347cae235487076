"""`muster groups reset-offsets`: where offsets would go, and moving them there. Not a subcommand."""

import argparse
from datetime import UTC, datetime

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster
from coordinator.cli.committed import (
    EARLIEST,
    LATEST,
    Place,
    WrongUse,
    commit,
    committed,
    offsets_at,
    places_named,
)
from coordinator.cli.describing import described, members
from coordinator.cli.tables import print_json, print_table
from coordinator.client import ClientError


def add_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--topic", action="append", metavar="TOPIC[:P,P]", help="a topic, or some of its partitions; may be given again"
    )
    which.add_argument("--all-topics", action="store_true", help="all topics that the group has offsets in")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the beginning")
    where.add_argument("--to-latest", action="store_true", help="to the end")
    where.add_argument(
        "--to-datetime", metavar="ISO", help="to the first record of this time or later (UTC if no zone is said)"
    )
    where.add_argument("--to-offset", type=int, metavar="N", help="to this offset")
    where.add_argument("--shift-by", type=int, metavar="N", help="by so many records, back if negative")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only show what would be done (the default)")
    how.add_argument("--execute", action="store_true", help="do it")


def reset(cluster: Cluster, args: argparse.Namespace) -> int:
    """Show, and with --execute commit, the new offsets. What is beyond an end of a partition goes to that end."""
    time_ms = None if args.to_datetime is None else milliseconds(args.to_datetime)
    group = described(cluster, args.group)
    if group and group.members:
        return fail("groups", f"{group.group} is {group.state} with {members(group)}; reset it when all have left")
    before = {(one.topic, one.partition): one.offset for one in committed(cluster, args.group)}
    places = sorted(before) if args.all_topics else places_named(cluster, args.topic)
    if not places:
        return fail("groups", f"{args.group} has no offsets")
    after = _targets(cluster, args, time_ms, places, before)
    if args.execute and after:
        commit(cluster, args.group, after)
    moves = [
        {"topic": topic, "partition": number, "before": before.get((topic, number)), "after": after[topic, number]}
        for topic, number in sorted(after)
    ]
    if args.json:
        print_json({"group": args.group, "executed": args.execute, "offsets": moves})
    else:
        print_table(("TOPIC", "PARTITION", "BEFORE", "AFTER"), [list(one.values()) for one in moves])
        print("done" if args.execute else "nothing was changed; --execute carries this out")
    return 0


def milliseconds(text: str) -> int:
    """ISO 8601 as milliseconds since the epoch. Raises WrongUse."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUse(
            f"--to-datetime: {text!r} will not do; it may be like 2026-01-31T12:00:00 or ...+02:00"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _targets(
    cluster: Cluster, args: argparse.Namespace, time_ms: int | None, places: list[Place], before: dict[Place, int]
) -> dict[Place, int]:
    """The new offset of each partition that is there."""
    earliest, latest = offsets_at(cluster, places, EARLIEST), offsets_at(cluster, places, LATEST)
    there = [place for place in places if place in earliest and place in latest]
    if args.to_earliest:
        wanted = earliest
    elif args.to_latest:
        wanted = latest
    elif time_ms is not None:
        # No record that late: as Kafka's own tool, the end.
        wanted = {place: at if at >= 0 else latest[place] for place, at in offsets_at(cluster, there, time_ms).items()}
    elif args.to_offset is not None:
        wanted = dict.fromkeys(there, args.to_offset)
    else:
        unread = [f"{topic}:{number}" for topic, number in there if (topic, number) not in before]
        if unread:
            raise ClientError(f"--shift-by: nothing is committed in {unread[0]}")
        wanted = {place: before[place] + args.shift_by for place in there}
    return {place: min(max(wanted[place], earliest[place]), latest[place]) for place in there if place in wanted}
