"""Lists and describes groups, resets their offsets, removes members, deletes groups. Speaks Kafka's own protocol."""

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, add_bootstrap, check, name_of
from coordinator.cli.committed import LATEST, WrongUse, committed, offsets_at
from coordinator.cli.describing import GroupView, described, members
from coordinator.cli.resetting import add_reset, reset
from coordinator.cli.tables import by_topic, print_json, print_table
from coordinator.client import ClientError
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.list_groups import ListGroupsRequest

HELP = "list, describe, reset and delete groups, remove their members"
REASON = "removed by an administrator"
BATCH = 3  # the first version of LeaveGroup that removes members in others' names (KIP-345)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="groups with their type and state")
    listing.add_argument("--state", action="append", default=[], help="only groups in this state; may be given again")
    listing.add_argument("--type", action="append", default=[], help="only classic or consumer; may be given again")
    describing = actions.add_parser("describe", help="state, members, committed offsets and lag")
    describing.add_argument("group", nargs="*", metavar="GROUP", help="all groups where none is named")
    describing.add_argument("--members", action="store_true", help="members in place of offsets")
    resetting = actions.add_parser("reset-offsets", help="move the offsets of a group without members")
    add_reset(resetting)
    removing = actions.add_parser("remove-members", help="throw members out; static ones by their instance id")
    removing.add_argument("group", metavar="GROUP")
    whom = removing.add_mutually_exclusive_group(required=True)
    whom.add_argument("--instance", action="append", metavar="ID", help="group.instance.id; may be given again")
    whom.add_argument("--member", action="append", metavar="ID", help="member id; may be given again")
    whom.add_argument("--all", action="store_true", help="every member")
    removing.add_argument("--reason", default=REASON, help="told to the server, for its log")
    deleting = actions.add_parser("delete", help="forget groups without members, and their offsets")
    deleting.add_argument("group", nargs="+", metavar="GROUP")
    for action in (listing, describing, resetting, removing, deleting):
        add_bootstrap(action)


def run(args: argparse.Namespace) -> int:
    try:
        with Cluster(args.bootstrap) as cluster:
            return ACTIONS[args.action](cluster, args)
    except WrongUse as error:
        return fail("groups", error, 2)
    except ClientError as error:
        return fail("groups", error)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    groups = sorted(_listed(cluster, args.state, args.type), key=lambda one: one["group"])
    if args.json:
        print_json(groups)
    else:
        print_table(("GROUP", "TYPE", "STATE", "PROTOCOL"), [list(one.values()) for one in groups])
    return 0


def _listed(cluster: Cluster, states: list[str], types: list[str]) -> Iterator[dict[str, Any]]:
    """The groups of every broker: each knows those that it coordinates."""
    for client in cluster.brokers().values():
        answer = client.ask(ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types)))
        check("listing groups", answer.error_code)
        for one in answer.groups:
            yield {
                "group": one.group_id, "type": one.group_type, "state": one.group_state, "protocol": one.protocol_type
            }  # fmt: skip


def _describe(cluster: Cluster, args: argparse.Namespace) -> int:
    """Every group is looked for, also behind one that is not there."""
    names = args.group or sorted(one["group"] for one in _listed(cluster, [], []))
    code, told = 0, []
    for name in names:
        group = described(cluster, name)
        if group is None:
            code = fail("groups", f"there is no group {name}")
        else:
            told.append((group, _positions(cluster, group)))
    if args.json:
        print_json([msgspec.to_builtins(group) | {"offsets": positions} for group, positions in told])
        return code
    for at, (group, positions) in enumerate(told):
        print(("\n" if at else "") + _headline(group))
        if args.members:
            _print_members(group)
        elif positions:
            print_table(tuple(name.upper() for name in positions[0]), [list(one.values()) for one in positions])
    return code


def _headline(group: GroupView) -> str:
    epoch = "" if group.epoch is None else f", epoch {group.epoch}"
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    return f"{group.group}: {group.state}, {group.type}, {members(group)}{assignor}{epoch}"


def _positions(cluster: Cluster, group: GroupView) -> list[dict[str, Any]]:
    """What is committed or owned, a partition a line: how far it was read, how far it goes, and who reads it."""
    read = {(one.topic, one.partition): one.offset for one in committed(cluster, group.group)}
    owners = {
        (topic, number): member
        for member in group.members
        for topic, numbers in member.assignment.items()
        for number in numbers
    }
    ends = offsets_at(cluster, read.keys() | owners.keys(), LATEST)
    positions = []
    for place in sorted(read.keys() | owners.keys()):
        offset, end, owner = read.get(place), ends.get(place), owners.get(place)
        positions.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(end - offset, 0),
                "member": owner and owner.member_id,
                "instance": owner and owner.instance_id,
                "host": owner and owner.host,
            }
        )
    return positions


def _print_members(group: GroupView) -> None:
    print_table(
        ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PROTOCOL", "EPOCH", "SUBSCRIBED", "ASSIGNED"),
        [
            (
                one.member_id, one.instance_id, one.client_id, one.host, one.protocol, one.epoch,
                " ".join((*one.topics, *([one.regex] if one.regex else []))), by_topic(one.assignment),
            )
            for one in group.members
        ],
    )  # fmt: skip


def _remove_members(cluster: Cluster, args: argparse.Namespace) -> int:
    """KIP-345: an administrator says for members that they leave. Every member has an answer of its own."""
    whom = _whom(cluster, args)
    if not whom:
        return fail("groups", f"{args.group} has no members")
    if max(cluster.any.versions(LeaveGroupRequest()), default=0) < BATCH:
        return fail("groups", f"the broker is too old to remove members: LeaveGroup {BATCH}, of Kafka 2.4, does that")
    answer = cluster.ask_coordinator(
        args.group, LeaveGroupRequest(args.group, members=whom), lambda one: [one.error_code]
    )
    check(f"removing members of {args.group}", answer.error_code)
    outcome = [
        {"member": one.member_id, "instance": one.group_instance_id, "error": _error(one.error_code)}
        for one in answer.members
    ]
    if args.json:
        print_json(outcome)
    else:
        print_table(
            ("MEMBER", "INSTANCE", "RESULT"), [(o["member"], o["instance"], o["error"] or "removed") for o in outcome]
        )
    return 1 if any(one["error"] for one in outcome) else 0


def _whom(cluster: Cluster, args: argparse.Namespace) -> tuple[LeaveGroupRequestMemberIdentity, ...]:
    if args.instance:
        return tuple(
            LeaveGroupRequestMemberIdentity(group_instance_id=one, reason=args.reason) for one in args.instance
        )
    if args.member:
        return tuple(LeaveGroupRequestMemberIdentity(member_id=one, reason=args.reason) for one in args.member)
    group = described(cluster, args.group)
    return tuple(
        LeaveGroupRequestMemberIdentity(one.member_id, one.instance_id, args.reason)
        for one in (group.members if group else ())
    )


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    outcome = []
    for name in args.group:
        answer = cluster.ask_coordinator(
            name, DeleteGroupsRequest((name,)), lambda a: [r.error_code for r in a.results]
        )
        code = answer.results[0].error_code
        outcome.append({"group": name, "error": _error(code)})
    if args.json:
        print_json(outcome)
    else:
        print_table(("GROUP", "RESULT"), [(one["group"], one["error"] or "deleted") for one in outcome])
    return 1 if any(one["error"] for one in outcome) else 0


def _error(code: int) -> str | None:
    return name_of(code) if code else None


ACTIONS = {
    "list": _list,
    "describe": _describe,
    "reset-offsets": reset,
    "remove-members": _remove_members,
    "delete": _delete,
}
