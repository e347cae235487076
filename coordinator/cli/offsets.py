"""Show, set and delete a group's committed offsets, and move them to another cluster.

It speaks Kafka's own protocol, so it works with Apache Kafka as well."""

import argparse
from typing import Final

import msgspec

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, act
from coordinator.cli.group_offsets import (
    commit,
    delete_offsets,
    fetch_offsets,
    no_partition,
    parse_partitions,
    partitions_of,
)
from coordinator.cli.offset_transfer import add_export_arguments, add_import_arguments, export, import_offsets
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, expect, parse_integer
from coordinator.cli.tables import print_json, print_table
from coordinator.client.offsets import TopicPartition
from coordinator.setting import INT_MAX, LONG_MAX

FORM: Final = "TOPIC:PARTITION=OFFSET"
EXAMPLES: Final = """\
muster offsets show shop
muster offsets set shop orders:0=5 orders:1=12 --metadata 'by hand'
muster offsets delete shop orders:0,1
muster offsets export --bootstrap-server kafka:9092 > offsets.json
muster offsets import offsets.json --create-topics --by lag --dry-run"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    showing = actions.add_parser("show", help="offset, leader epoch and metadata, as committed")
    showing.add_argument("group", metavar="GROUP")
    showing.add_argument("topic", nargs="*", metavar="TOPIC", help="only these topics")
    setting = actions.add_parser("set", help="commit offsets for a group that has no members")
    setting.add_argument("group", metavar="GROUP")
    setting.add_argument("offset", nargs="+", type=expect(FORM, parse_offset), metavar=FORM)
    setting.add_argument("--metadata", default="", help="a text to commit with them")
    deleting = actions.add_parser("delete", help="delete offsets in topics to which no member subscribes")
    deleting.add_argument("group", metavar="GROUP")
    deleting.add_argument("topic", nargs="+", metavar="TOPIC[:P,P]", help="a topic, or some of its partitions")
    exporting = actions.add_parser("export", help="print the offsets of groups as JSON, for `import`")
    add_export_arguments(exporting)
    importing = actions.add_parser("import", help="commit the offsets that `export` printed, in this cluster")
    add_import_arguments(importing)
    for action in (showing, setting, deleting, exporting, importing):
        add_json_option(action)
        add_broker_options(action)


def parse_offset(text: str) -> tuple[TopicPartition, int]:
    """Return the partition and the offset of `TOPIC:PARTITION=OFFSET`. Raises ValueError."""
    where, equals, offset = text.rpartition("=")
    topic, colon, number = where.rpartition(":")
    if not (equals and colon and topic):
        raise ValueError(text)
    partition, at = parse_integer(number), parse_integer(offset)
    if not (0 <= partition <= INT_MAX and 0 <= at <= LONG_MAX):
        raise ValueError(text)
    return (topic, partition), at


def run(args: argparse.Namespace) -> int:
    return act("offsets", ACTIONS, args)


def _show(cluster: Cluster, args: argparse.Namespace) -> int:
    found = [one for one in fetch_offsets(cluster, args.group) if not args.topic or one.topic in args.topic]
    if args.json:
        print_json(msgspec.to_builtins(found))
        return 0
    if not found:
        where = f" in {', '.join(args.topic)}" if args.topic else ""
        return fail("offsets", f"{args.group} has no committed offsets{where}")
    print_table(
        ("TOPIC", "PARTITION", "OFFSET", "LEADER-EPOCH", "METADATA"),
        [
            (one.topic, one.partition, one.offset, one.leader_epoch if one.leader_epoch >= 0 else None, one.metadata)
            for one in found
        ],
    )
    return 0


def _set(cluster: Cluster, args: argparse.Namespace) -> int:
    wanted: dict[tuple[str, int], int] = {}
    for (topic, number), at in args.offset:
        if wanted.setdefault((topic, number), at) != at:
            raise UsageError(f"two offsets for {topic}:{number}: {wanted[topic, number]} and {at}")
    known = partitions_of(cluster, sorted({topic for topic, _ in wanted}))
    for topic, number in wanted:
        if number not in known[topic]:
            return fail("offsets", no_partition(topic, number, len(known[topic])))
    commit(cluster, args.group, wanted, args.metadata)
    changed = [{"topic": topic, "partition": number, "offset": offset} for (topic, number), offset in wanted.items()]
    _print_results(args, changed, "set")
    return 0


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    committed = {(one.topic, one.partition): one.offset for one in fetch_offsets(cluster, args.group)}
    partitions = [one for one in parse_partitions(cluster, args.topic) if one in committed]
    if not partitions:
        return fail("offsets", f"{args.group} has no committed offsets in {', '.join(args.topic)}")
    delete_offsets(cluster, args.group, partitions)
    deleted = [{"topic": t, "partition": p, "offset": committed[t, p]} for t, p in partitions]
    _print_results(args, deleted, "deleted")
    return 0


def _print_results(args: argparse.Namespace, changed: list[dict[str, object]], result: str) -> None:
    if args.json:
        print_json(changed)
    else:
        print_table(("TOPIC", "PARTITION", "OFFSET", "RESULT"), [(*one.values(), result) for one in changed])


ACTIONS: Final = {"show": _show, "set": _set, "delete": _delete, "export": export, "import": import_offsets}
