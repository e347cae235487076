"""`muster groups reset-offsets`: compute new offsets, show them, commit them. Not a subcommand."""

import argparse
from datetime import UTC, datetime

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster
from coordinator.cli.group_offsets import (
    commit,
    fetch_offsets,
    parse_partitions,
)
from coordinator.cli.group_view import describe_group
from coordinator.cli.parser import expect, whole_number
from coordinator.cli.tables import count, print_json, print_table
from coordinator.client import ClientError
from coordinator.client.offsets import EARLIEST, LATEST, TopicPartition, list_offsets


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--topic", action="append", metavar="TOPIC[:P,P]", help="a topic, or some of its partitions; may be given again"
    )
    which.add_argument("--all-topics", action="store_true", help="all topics in which the group has committed offsets")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="to the beginning")
    where.add_argument("--to-latest", action="store_true", help="to the end")
    where.add_argument(
        "--to-datetime",
        type=expect("a time since 1970 such as 2026-01-31T12:00:00 or 2026-01-31T12:00:00+02:00", to_milliseconds),
        metavar="TIME",
        help="to the first record at or after this ISO 8601 time (UTC if it has no zone)",
    )
    where.add_argument("--to-offset", type=whole_number, metavar="N", help="to this offset")
    where.add_argument(
        "--shift-by",
        type=whole_number,
        metavar="N",
        help="by N records, back if N is negative",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only show what would change (the default)")
    how.add_argument("--execute", action="store_true", help="change it")


def to_milliseconds(text: str) -> int:
    """Return an ISO 8601 time as milliseconds since the epoch. Raises ValueError.

    Numbers below 0 have other meanings in ListOffsets: -1, the last millisecond before 1970, is the end.
    """
    time = datetime.fromisoformat(text)
    time_ms = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    if time_ms < 0:
        raise ValueError(text)
    return time_ms


def reset_offsets(cluster: Cluster, args: argparse.Namespace) -> int:
    """Show, and with --execute commit, the new offsets. One beyond an end of its partition becomes that end."""
    group = describe_group(cluster, args.group)
    if group and group.members:
        members = count(len(group.members), "member")
        return fail("groups", f"{group.group} is {group.state} with {members}: stop them before you reset offsets")
    before = {(one.topic, one.partition): one.offset for one in fetch_offsets(cluster, args.group)}
    partitions = sorted(before) if args.all_topics else parse_partitions(cluster, args.topic)
    if not partitions:
        return fail("groups", f"{args.group} has no committed offsets")
    after = _new_offsets(cluster, args, partitions, before)
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
        print("done" if args.execute else "nothing was changed; --execute changes it")
    return 0


def _new_offsets(
    cluster: Cluster, args: argparse.Namespace, partitions: list[TopicPartition], before: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition that exists. Raises ClientError if one of them cannot be read."""
    earliest, latest = (list_offsets(cluster, partitions, time, is_strict=True) for time in (EARLIEST, LATEST))
    known = [one for one in partitions if one in earliest and one in latest]
    if args.to_earliest:
        wanted = earliest
    elif args.to_latest:
        wanted = latest
    elif args.to_datetime is not None:
        found = list_offsets(cluster, known, args.to_datetime, is_strict=True)
        wanted = {one: offset if offset >= 0 else latest[one] for one, offset in found.items()}  # as Kafka's own tool
    elif args.to_offset is not None:
        wanted = dict.fromkeys(known, args.to_offset)
    else:
        unread = [f"{topic}:{number}" for topic, number in known if (topic, number) not in before]
        if unread:
            raise ClientError(f"cannot shift by {args.shift_by}: {args.group} has no committed offset in {unread[0]}")
        wanted = {one: before[one] + args.shift_by for one in known}
    return {one: min(max(wanted[one], earliest[one]), latest[one]) for one in known if one in wanted}
