"""Shows, sets and deletes a group's committed offsets. Speaks Kafka's own protocol."""

import argparse

import msgspec

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, add_bootstrap
from coordinator.cli.committed import Place, WrongUse, commit, committed, forget, partitions_of, places_named
from coordinator.cli.tables import print_json, print_table
from coordinator.client import ClientError

HELP = "show, set and delete a group's committed offsets"
FORM = "TOPIC:PARTITION=OFFSET"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    showing = actions.add_parser("show", help="offset, leader epoch and metadata, as committed")
    showing.add_argument("group", metavar="GROUP")
    showing.add_argument("topic", nargs="*", metavar="TOPIC", help="only these topics")
    setting = actions.add_parser("set", help="commit offsets for a group without members")
    setting.add_argument("group", metavar="GROUP")
    setting.add_argument("offset", nargs="+", metavar=FORM)
    setting.add_argument("--metadata", default="", help="a text to keep with them")
    deleting = actions.add_parser("delete", help="forget offsets in topics that no member subscribes to")
    deleting.add_argument("group", metavar="GROUP")
    deleting.add_argument("topic", nargs="+", metavar="TOPIC[:P,P]", help="a topic, or some of its partitions")
    for action in (showing, setting, deleting):
        add_bootstrap(action)


def run(args: argparse.Namespace) -> int:
    action = {"show": _show, "set": _set, "delete": _delete}[args.action]
    try:
        with Cluster(args.bootstrap) as cluster:
            return action(cluster, args)
    except WrongUse as error:
        return fail("offsets", error, 2)
    except ClientError as error:
        return fail("offsets", error)


def _show(cluster: Cluster, args: argparse.Namespace) -> int:
    found = [one for one in committed(cluster, args.group) if not args.topic or one.topic in args.topic]
    if args.json:
        print_json(msgspec.to_builtins(found))
        return 0
    if not found:
        return fail("offsets", f"{args.group} has no offsets{' in ' + ', '.join(args.topic) if args.topic else ''}")
    print_table(
        ("TOPIC", "PARTITION", "OFFSET", "EPOCH", "METADATA"),
        [
            (one.topic, one.partition, one.offset, one.leader_epoch if one.leader_epoch >= 0 else None, one.metadata)
            for one in found
        ],
    )
    return 0


def _set(cluster: Cluster, args: argparse.Namespace) -> int:
    wanted = dict(_placed(text) for text in args.offset)
    there = partitions_of(cluster, sorted({topic for topic, _ in wanted}))
    for topic, number in wanted:
        if number not in there[topic]:
            return fail("offsets", f"topic {topic} has no partition {number}")
    commit(cluster, args.group, wanted, args.metadata)
    changed = [{"topic": topic, "partition": number, "offset": offset} for (topic, number), offset in wanted.items()]
    _print_done(args, changed, "set")
    return 0


def _placed(text: str) -> tuple[Place, int]:
    where, equals, offset = text.rpartition("=")
    topic, colon, number = where.rpartition(":")
    if not (equals and colon and topic and number.isdigit() and offset.isdigit()):
        raise WrongUse(f"{text!r} will not do; it may be {FORM}")
    return (topic, int(number)), int(offset)


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    had = {(one.topic, one.partition): one.offset for one in committed(cluster, args.group)}
    places = [place for place in places_named(cluster, args.topic) if place in had]
    if not places:
        return fail("offsets", f"{args.group} has no offsets in {', '.join(args.topic)}")
    forget(cluster, args.group, places)
    _print_done(args, [{"topic": t, "partition": p, "offset": had[t, p]} for t, p in places], "deleted")
    return 0


def _print_done(args: argparse.Namespace, changed: list[dict[str, object]], what: str) -> None:
    if args.json:
        print_json(changed)
        return
    print_table(("TOPIC", "PARTITION", "OFFSET", "RESULT"), [(*one.values(), what) for one in changed])
