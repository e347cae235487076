"""`muster why` by the log of any Kafka: the timeline of a group, or which groups rebalance most. Not a subcommand."""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import msgspec

from coordinator.cli import fail
from coordinator.cli.admin import find_admin, get
from coordinator.cli.cluster import Cluster, UsageError
from coordinator.cli.group_changes import Changes, find_home, note, open_reader
from coordinator.cli.group_view import DescribedGroup, describe_group
from coordinator.cli.positions import describe_lag, find_positions
from coordinator.cli.since import Since, format_since
from coordinator.cli.tables import count, print_json, print_table
from coordinator.client import ClientError
from coordinator.control.printable import format_span, make_printable
from pipeline.history import timeline
from pipeline.history.live import MemberName, Replay
from pipeline.history.records import Rebalance

GROUPS_MAX: Final = 50  # that the table shows
AWAITED_MAX: Final = 3  # members that the last line names


def path_of(group: str) -> str:
    """Return the path of a group on an admin port."""
    return f"/v1/groups/{quote(group, safe='', errors='surrogateescape')}"


def tell_inferred(args: argparse.Namespace, ask_admin: Callable[[str], int]) -> int:
    """Print what the log of a cluster tells, or have `ask_admin` print the causes that an admin port knows.

    Raises ClientError.
    """
    if args.follow and args.format == "mermaid":
        raise UsageError("invalid --follow: expected --format text or json, since a diagram is drawn as a whole")
    notice = ""
    if args.group and not (args.inferred or args.follow or args.since):
        admin, notice = _find_exact_causes(args)
        if admin is not None:
            return ask_admin(admin)
    with open_reader(args) as reader:
        partitions = list(reader.describe().leaders)
        if args.group is None:
            return _print_ranking(args, Changes(reader, partitions, args.since or Since()))
        home = find_home(args.group, len(partitions))
        return _print_timeline(args, Changes(reader, [home], args.since or Since(), args.group), notice)


def _find_exact_causes(args: argparse.Namespace) -> tuple[str | None, str]:
    """Return the admin port of the same server, or None and why the causes must be inferred."""
    admin = find_admin(args)
    try:
        view = msgspec.json.decode(get(admin, path_of(args.group), min(args.timeout or 1.0, 1.0)), type=dict[str, Any])
        ids = {member.get("member_id") for member in view.get("members", ())}
    except (ClientError, msgspec.DecodeError, AttributeError):
        return None, f"no Muster at {admin} knows the group (--admin, $MUSTER_ADMIN)"
    try:
        with Cluster.of(args) as cluster:
            group = describe_group(cluster, args.group)
    except ClientError:
        group = None  # what is wrong with the cluster, its log will say
    if group is not None and ids and ids == {member.member_id for member in group.members}:
        return admin, ""
    return None, f"the Muster at {admin} does not have the group's members"


def _print_timeline(args: argparse.Namespace, changes: Changes, notice: str) -> int:
    """Print the timeline, and on standard error `notice`: why the causes are no exact ones."""
    naming, found = changes.replay.name, list(changes.known())
    if not found and not args.follow:
        return fail("why", _describe_nothing(args, changes))
    if notice:
        note(f"muster why: {notice}: the causes are inferred")
    if args.format == "mermaid":
        sys.stdout.write(timeline.as_mermaid(args.group, found, naming))
    elif args.format == "json" and not args.follow:
        print_json({"source": "inferred", "events": timeline.as_data(found, naming)})
    elif args.format == "text":
        print(timeline.summarize(args.group, found, naming))
    start_ms = found[0].at_ms if found else None
    if args.format == "text" or args.follow:
        for one in found:
            start_ms = _print_line(args, one, changes, start_ms)
    if args.format == "text":
        print(_describe_now(args, changes.replay))
    if changes.replay.unread:
        note(f"muster why: {count(changes.replay.unread, 'record')} could not be read")
    for change in changes.read_changes() if args.follow else ():
        if change is not None:
            start_ms = _print_line(args, change, changes, start_ms)
    return 0


def _describe_nothing(args: argparse.Namespace, changes: Changes) -> str:
    """Return why there is no timeline: when the group last rebalanced, or that there is no such group."""
    if (last := changes.before) is not None:
        ago = format_span(max(0.0, time.time() - last.at_ms / 1000))
        what = timeline.describe(last, changes.replay.name)
        return f"no rebalance of {args.group!r} {format_since(args.since)}; the last was {ago} ago: {what}"
    try:
        with Cluster.of(args) as cluster:
            if describe_group(cluster, args.group) is None:
                return f"no group {args.group!r}, and nothing of it is in the log, as far as it was read"
    except ClientError:
        pass  # whether the group exists may be more than the user may know
    return f"no rebalance of {args.group!r} is in the log, as far as it was read"


def _print_line(args: argparse.Namespace, one: Rebalance, changes: Changes, start_ms: int | None) -> int:
    """Print one rebalance; returns when the timeline began."""
    start_ms = one.at_ms if start_ms is None else start_ms
    if args.format == "json":
        (data,) = timeline.as_data([one], changes.replay.name)
        print(msgspec.json.encode(data).decode(), flush=True)
    else:
        print(timeline.as_line(one, changes.replay.name, start_ms), flush=True)
    return start_ms


def _describe_now(args: argparse.Namespace, replay: Replay) -> str:
    """Return the group's state and lag, and for which members it waits, as far as the user may know them."""
    try:
        with Cluster.of(args) as cluster:
            group = describe_group(cluster, args.group)
            if group is None:
                return "now: the group does not exist"
            text = f"now: {group.state}, {count(len(group.members), 'member')}"
            lag = describe_lag(find_positions(cluster, group))
    except ClientError as error:
        return f"now: {error}"
    awaited = "".join(f"; {one}" for one in _describe_waits(group, replay))
    return make_printable((text if lag is None else f"{text}, {lag}") + awaited)


def _describe_waits(group: DescribedGroup, replay: Replay) -> Iterator[str]:
    """Yield for which members a group with epochs waits: those that have not reached its epoch, and their silence."""
    if group.state != "Reconciling":
        return
    behind = [one for one in group.members if one.epoch is not None and one.epoch < (group.epoch or 0)]
    for member in behind[:AWAITED_MAX]:
        who = timeline.format_name(member.member_id, MemberName(member.client_id, member.instance_id, member.host))
        own = [(topic, number) for topic, numbers in member.assignment.items() for number in numbers]
        at_ms = replay.last_commit_ms(group.group, own)
        silence = "no commit is known" if at_ms is None else f"no commit since {timeline.format_second(at_ms)}"
        yield f"waits for {who}, which is at epoch {member.epoch} of {group.epoch}, {silence}"
    if len(behind) > AWAITED_MAX:
        yield f"and for {count(len(behind) - AWAITED_MAX, 'more member')}"


def _print_ranking(args: argparse.Namespace, changes: Changes) -> int:
    """Print the groups by how often they rebalanced."""
    if args.follow or args.format == "mermaid":
        raise UsageError("missing GROUP: expected one with --follow and --format mermaid")
    of_group: dict[str, list[Rebalance]] = defaultdict(list)
    for one in changes.known():
        of_group[one.group].append(one)
    ranking = sorted(of_group.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [_rank(group, rebalances) for group, rebalances in ranking]
    if args.format == "json":
        print_json(rows)
        return 0
    if not rows:
        return fail("why", "no group has rebalanced, as far as the log was read")
    print_table([name.upper().replace("_", "-") for name in rows[0]], [list(row.values()) for row in rows[:GROUPS_MAX]])
    if len(rows) > GROUPS_MAX:
        note(f"muster why: {len(rows) - GROUPS_MAX} more groups; --format json has all of them")
    return 0


def _rank(group: str, rebalances: list[Rebalance]) -> dict[str, Any]:
    causes = Counter(cause for one in rebalances for cause in one.causes)
    last = rebalances[-1]
    return {
        "group": group,
        "type": last.type,
        "rebalances": len(rebalances),
        "members": last.members_after,
        "last": timeline.format_time(last.at_ms),
        "causes": ", ".join(f"{timeline.WORDS.get(cause, cause)} {times}" for cause, times in causes.most_common(3)),
    }
