"""List and describe groups, reset their offsets, remove members, delete groups.

It speaks Kafka's own protocol, so it works with Apache Kafka as well."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, check
from coordinator.cli.group_list import list_groups
from coordinator.cli.group_view import DescribedGroup, describe_group
from coordinator.cli.group_watch import add_watch_arguments, watch_groups
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, one_of
from coordinator.cli.positions import SHARE, describe_lag, find_positions, owner_of, total_lag
from coordinator.cli.reset_offsets import add_reset_arguments, reset_offsets
from coordinator.cli.tables import ABSENT, count, format_partitions, print_json, print_table
from coordinator.cli.watch import add_watch, watch
from coordinator.client import ClientError
from coordinator.client.explanations import explain, name_of
from coordinator.control.printable import make_printable
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity

EXAMPLES: Final = """\
muster groups list --state Empty
muster groups describe shop --watch
muster groups describe shop --members
muster groups watch --since 1d
muster groups reset-offsets shop --topic orders --to-earliest            show what would change
muster groups reset-offsets shop --topic orders --to-earliest --execute
muster groups remove-members shop --instance till-3
muster groups delete shop"""
REASON: Final = "removed by an administrator"
BATCH: Final = 3  # the first version of LeaveGroup that removes several members (KIP-345)
STATES: Final = (
    "Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead",
)  # fmt: skip
TYPES: Final = ("classic", "consumer", "share", "streams")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="groups with their type and state")
    listing.add_argument(
        "--state", action="append", default=[], metavar="STATE", **one_of(STATES),
        help=f"only groups in this state: {', '.join(STATES)}; may be given again",
    )  # fmt: skip
    listing.add_argument(
        "--type", action="append", default=[], metavar="TYPE", **one_of(TYPES),
        help=f"only groups of this type: {', '.join(TYPES)}; may be given again",
    )  # fmt: skip
    describing = actions.add_parser("describe", help="state, members, committed offsets and lag")
    describing.add_argument("group", nargs="*", metavar="GROUP", help="all groups if none is named")
    describing.add_argument("--members", action="store_true", help="subscription and assignment of each member")
    watching = actions.add_parser("watch", help="a live table: state, members, lag and its rate, the last rebalance")
    add_watch_arguments(watching)
    resetting = actions.add_parser("reset-offsets", help="move the offsets of a group that has no members")
    add_reset_arguments(resetting)
    removing = actions.add_parser("remove-members", help="remove members from a group; static ones by instance id")
    removing.add_argument("group", metavar="GROUP")
    whom = removing.add_mutually_exclusive_group(required=True)
    whom.add_argument("--instance", action="append", metavar="ID", help="group.instance.id; may be given again")
    whom.add_argument("--member", action="append", metavar="ID", help="member id; may be given again")
    whom.add_argument("--all", action="store_true", help="every member")
    removing.add_argument("--reason", default=REASON, help="a sentence for the broker's log")
    deleting = actions.add_parser("delete", help="delete groups that have no members, with their offsets")
    deleting.add_argument("group", nargs="+", metavar="GROUP")
    for action in (listing, describing, watching, resetting, removing, deleting):
        add_json_option(action)
        add_broker_options(action)
    for action in (listing, describing):
        add_watch(action)


def run(args: argparse.Namespace) -> int:
    try:
        with Cluster.of(args) as cluster:
            if args.action == "watch":
                return watch_groups(cluster, args)
            return watch(getattr(args, "watch", None), lambda: ACTIONS[args.action](cluster, args))
    except UsageError as error:
        return fail("groups", error, 2)
    except ClientError as error:
        return fail("groups", error)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    groups = sorted(list_groups(cluster, args.state, args.type), key=lambda one: one["group"])
    if args.json:
        print_json(groups)
    else:
        print_table(("GROUP", "TYPE", "STATE", "PROTOCOL"), [list(one.values()) for one in groups])
    return 0


def _describe(cluster: Cluster, args: argparse.Namespace) -> int:
    """Describe every group that is named, also those after one that does not exist."""
    names = dict.fromkeys(args.group) or sorted(one["group"] for one in list_groups(cluster, [], []))
    code, descriptions = 0, []
    for name in names:
        group = describe_group(cluster, name)
        if group is None:
            code = fail("groups", f"no group {name}")
        else:
            descriptions.append((group, find_positions(cluster, group)))
    if args.json:
        print_json([_to_json(group, positions) for group, positions in descriptions])
        return code
    if not names:
        print("there are no groups")
    for number, (group, positions) in enumerate(descriptions):
        print(("\n" if number else "") + _headline(group, positions))
        if args.members:
            _print_members(group)
        else:
            _print_positions(group, positions)
    return code


def _to_json(group: DescribedGroup, positions: list[dict[str, Any]]) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(group)
    return shown | {"lag": total_lag(positions), "offsets": positions}


def _headline(group: DescribedGroup, positions: list[dict[str, Any]]) -> str:
    lag = describe_lag(positions)
    parts = [group.state, group.type, count(len(group.members), "member")]
    parts += [f"assignor {group.assignor}"] if group.assignor else []
    parts += [] if group.epoch is None else [f"epoch {group.epoch}"]
    parts += [] if lag is None else [lag]
    return make_printable(f"{group.group or ABSENT}: {', '.join(parts)}")


def _print_positions(group: DescribedGroup, positions: list[dict[str, Any]]) -> None:
    """Print a table as `kafka-consumer-groups --describe` does: members without partitions come last. That of a share
    group is as `kafka-share-groups --describe` has it."""
    if group.type == SHARE:
        if positions:
            print_table(("TOPIC", "PARTITION", "START-OFFSET", "LAG"), [list(one.values()) for one in positions])
        return
    idle = [member for member in group.members if not any(member.assignment.values())]
    rows = [list(one.values()) for one in positions]
    rows += [[None] * 5 + list(owner_of(member).values()) for member in idle]
    if rows:
        print_table(
            ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "MEMBER-ID", "INSTANCE-ID", "HOST",
             "CLIENT-ID"),
            rows,
        )  # fmt: skip


def _print_members(group: DescribedGroup) -> None:
    if not group.members:
        return
    print_table(
        ("MEMBER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "PROTOCOL", "EPOCH", "SUBSCRIPTION", "ASSIGNMENT"),
        [
            (
                *owner_of(one).values(), one.protocol, one.epoch,
                " ".join((*one.topics, *([one.regex] if one.regex else []))), format_partitions(one.assignment),
            )
            for one in group.members
        ],
    )  # fmt: skip


def _remove_members(cluster: Cluster, args: argparse.Namespace) -> int:
    """Send LeaveGroup in the members' names (KIP-345). Every member has a result of its own."""
    identities = _identities(cluster, args)
    if not identities:
        return fail("groups", f"{args.group} has no members")
    if max(cluster.any.versions(LeaveGroupRequest()), default=0) < BATCH:
        return fail("groups", f"the broker is older than Kafka 2.4 and cannot remove members (LeaveGroup {BATCH})")
    response = cluster.ask_coordinator(
        args.group, LeaveGroupRequest(args.group, members=identities), lambda one: [one.error_code]
    )
    check(f"remove members of {args.group}", response.error_code)
    results = [
        {"member_id": one.member_id or None, "instance_id": one.group_instance_id, "error": _error(one.error_code)}
        for one in response.members
    ]
    return _print_results(("MEMBER-ID", "INSTANCE-ID", "RESULT"), results, "removed", args.json)


def _identities(cluster: Cluster, args: argparse.Namespace) -> tuple[LeaveGroupRequestMemberIdentity, ...]:
    if args.instance:
        return tuple(
            LeaveGroupRequestMemberIdentity(group_instance_id=one, reason=args.reason)
            for one in dict.fromkeys(args.instance)
        )
    if args.member:
        return tuple(
            LeaveGroupRequestMemberIdentity(member_id=one, reason=args.reason) for one in dict.fromkeys(args.member)
        )
    group = describe_group(cluster, args.group)
    return tuple(
        LeaveGroupRequestMemberIdentity(one.member_id, one.instance_id, args.reason)
        for one in (group.members if group else ())
    )


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    results = []
    for name in dict.fromkeys(args.group):
        response = cluster.ask_coordinator(
            name, DeleteGroupsRequest((name,)), lambda one: [result.error_code for result in one.results]
        )
        results.append({"group": name, "error": _error(response.results[0].error_code)})
    return _print_results(("GROUP", "RESULT"), results, "deleted", args.json)


def _print_results(head: Sequence[str], results: list[dict[str, Any]], done: str, is_json: bool) -> int:
    """Print what became of each, with a sentence for each error; the exit code."""
    if is_json:
        print_json(results)
    else:
        print_table(head, [[*list(one.values())[:-1], _result(one["error"], done)] for one in results])
    return 1 if any(one["error"] for one in results) else 0


def _result(error: dict[str, Any] | None, done: str) -> str:
    return str(error["explanation"]) if error else done


def _error(code: int) -> dict[str, Any] | None:
    return {"code": name_of(code), "explanation": explain(code)} if code else None


ACTIONS: Final = {
    "list": _list,
    "describe": _describe,
    "reset-offsets": reset_offsets,
    "remove-members": _remove_members,
    "delete": _delete,
}
