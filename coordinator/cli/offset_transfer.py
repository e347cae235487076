"""Move the committed offsets of groups from one cluster to another, by way of a JSON file. Not a subcommand.

The file has each offset with the end of its partition at that moment, so that an import can keep the lag where the
records of the two clusters have other offsets. Leader epochs are left out: those of another cluster mean nothing.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from coordinator.cli.cluster import Cluster, UsageError, check
from coordinator.cli.group_offsets import (
    HAS_MEMBERS,
    CommittedOffset,
    commit_all,
    commit_in_transaction,
    fetch_offsets,
    no_partition,
)
from coordinator.cli.group_view import describe_group
from coordinator.cli.requests import cut
from coordinator.cli.tables import count, print_json, print_table
from coordinator.client import ClientError
from coordinator.client.offsets import EARLIEST, LATEST, TopicPartition, list_offsets
from coordinator.setting import INT_MAX, LONG_MAX
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.list_groups import ListGroupsRequest

WITHOUT_OFFSETS: Final = ("share",)  # types of groups that keep what they have read elsewhere
BY: Final = ("offset", "lag")
OUT_OF_RANGE: Final = ("refuse", "clamp", "commit")
AT_ONCE: Final = 2_000  # offsets and topics of one OffsetCommit: Muster decides more in parts
BYTES_AT_ONCE: Final = 512 << 10  # of their records: Kafka takes a mebibyte as one batch
RECORD_BYTES: Final = 100  # beside names and metadata

Offset = Annotated[int, Meta(ge=0, le=LONG_MAX)]
Partition = Annotated[int, Meta(ge=0, le=INT_MAX)]


class ExportedOffset(Struct, frozen=True, forbid_unknown_fields=True):
    """A committed offset. `end` is the offset of the next record of the partition, null if it could not be read."""

    offset: Offset
    end: Offset | None = None
    metadata: str = ""


class Export(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a file of offsets."""

    version: Literal[1]
    topics: dict[str, Annotated[int, Meta(ge=1, le=INT_MAX)]]  # how many partitions each has
    groups: dict[str, dict[str, dict[Partition, ExportedOffset]]]  # by topic and partition


class PlannedCommit(Struct, frozen=True):
    """The commit of one partition that an import makes for a group."""

    group: str
    topic: str
    partition: int
    offset: int
    before: int | None  # what is committed now
    metadata: str


# -- export ------------------------------------------------------------------------------------------------------------


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="*", metavar="GROUP", help="all groups if none is named")


def export(cluster: Cluster, args: argparse.Namespace) -> int:
    """Print the offsets of groups as JSON. Raises ClientError."""
    committed: dict[str, list[CommittedOffset]] = {}
    for group in args.group or sorted(_list_groups(cluster)):
        committed[group] = fetch_offsets(cluster, group)
        if args.group and not committed[group]:
            raise ClientError(f"{group} has no committed offsets")
    topics = _partition_counts(cluster, {one.topic for those in committed.values() for one in those})
    partitions = {(one.topic, one.partition) for those in committed.values() for one in those}
    ends = list_offsets(cluster, (one for one in partitions if one[0] in topics), LATEST)
    groups: dict[str, dict[str, dict[int, ExportedOffset]]] = {}
    left_out = 0
    for group, those in committed.items():
        for one in those:
            if one.topic not in topics:  # the topic is gone, and its offsets will expire
                left_out += 1
                continue
            exported = ExportedOffset(one.offset, ends.get((one.topic, one.partition)), one.metadata)
            groups.setdefault(group, {}).setdefault(one.topic, {})[one.partition] = exported
    if left_out:
        print(f"{count(left_out, 'offset')} of deleted topics left out", file=sys.stderr)
    print_json(msgspec.to_builtins(Export(1, topics, groups), str_keys=True))
    return 0


def _list_groups(cluster: Cluster) -> Iterator[str]:
    for client in cluster.brokers().values():
        response = client.ask(ListGroupsRequest())
        check("list groups", response.error_code)
        yield from (one.group_id for one in response.groups if one.group_type.lower() not in WITHOUT_OFFSETS)


def _partition_counts(cluster: Cluster, topics: set[str]) -> dict[str, int]:
    """Return how many partitions the topics have that exist."""
    found = {}
    for topic in cluster.metadata(sorted(topics)).topics if topics else ():
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        check(f"use topic {topic.name}", topic.error_code)
        found[str(topic.name)] = len(topic.partitions)
    return found


# -- import ------------------------------------------------------------------------------------------------------------


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `muster offsets export` printed; - for standard input")
    parser.add_argument("group", nargs="*", metavar="GROUP", help="only these groups")
    parser.add_argument("--dry-run", action="store_true", help="check everything and show it, but change nothing")
    parser.add_argument("--create-topics", action="store_true", help="create the topics that do not exist")
    parser.add_argument(
        "--by", choices=BY, default=BY[0],
        help="offset: commit the offsets of the file; lag: commit what leaves the lag of the file",
    )  # fmt: skip
    parser.add_argument(
        "--out-of-range", choices=OUT_OF_RANGE, default=OUT_OF_RANGE[0],
        help="an offset outside of its partition: refuse it, clamp it to the nearest end, or commit it all the same",
    )  # fmt: skip


def import_offsets(cluster: Cluster, args: argparse.Namespace) -> int:
    """Commit the offsets of a file, once everything has been checked. Raises ClientError."""
    wanted = _select(read_export(args.file), args.group)
    needed = {topic for topics in wanted.groups.values() for topic in topics}
    there = _partition_counts(cluster, needed)
    missing = {topic: wanted.topics[topic] for topic in sorted(needed - there.keys())}
    if missing and not args.create_topics:
        raise ClientError(
            f"no topic {', '.join(missing)}: create {'it' if len(missing) == 1 else 'them'}, or use --create-topics"
        )
    _check_partitions(wanted, there | missing)
    for group in wanted.groups:
        view = describe_group(cluster, group)
        if view is not None and view.members:
            raise ClientError(f"cannot set the offsets of {group}: {HAS_MEMBERS}")
    plan = _plan(cluster, wanted, frozenset(missing), args)
    if missing and not args.dry_run:
        _create_topics(cluster, missing)
    if not args.dry_run:
        _commit(cluster, plan)
    _print(plan, args, list(missing))
    return 0


def _commit(cluster: Cluster, plan: Sequence[PlannedCommit]) -> None:
    """Commit the offsets group by group: all of a group or none, whatever fails. Raises ClientError."""
    groups = [list(those) for _, those in groupby(plan, lambda one: one.group)]
    for done, those in enumerate(groups):
        portions = [
            [CommittedOffset(one.topic, one.partition, one.offset, -1, one.metadata) for one in portion]
            for portion in _portions(those)
        ]
        try:
            if len(portions) == 1:
                commit_all(cluster, those[0].group, portions[0])
            else:
                commit_in_transaction(cluster, those[0].group, portions)
        except ClientError as error:
            raise ClientError(
                f"{error}; {done} of {count(len(groups), 'group')} set before, each with all of its offsets: "
                "the same command sets all of them"
            ) from None


def read_export(name: str) -> Export:
    """Read a file. Raises UsageError with what is wrong in it, and where."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"invalid FILE {name!r}: cannot read it: {error.strerror}") from None
    try:
        export = msgspec.json.decode(data, type=Export)
    except msgspec.DecodeError as error:
        name = "standard input" if name == "-" else name
        raise UsageError(f"invalid {name}: {error}; expected the output of muster offsets export") from None
    for topics in export.groups.values():
        for topic, partitions in topics.items():
            if max(partitions, default=-1) >= export.topics.get(topic, 0):
                raise UsageError(f"invalid {name}: topics has too few partitions of {topic}, or none")
    return export


def _select(export: Export, groups: Sequence[str]) -> Export:
    for group in groups:
        if group not in export.groups:
            raise ClientError(f"the file has no group {group}")
    return Export(1, export.topics, {group: export.groups[group] for group in groups}) if groups else export


def _check_partitions(export: Export, there: Mapping[str, int]) -> None:
    for topics in export.groups.values():
        for topic, partitions in topics.items():
            if max(partitions, default=-1) >= there[topic]:
                raise ClientError(no_partition(topic, max(partitions), there[topic]))


def _create_topics(cluster: Cluster, topics: Mapping[str, int]) -> None:
    """Create topics with the broker's own replication factor."""
    wanted = tuple(CreateTopicsRequestCreatableTopic(name, partitions, -1) for name, partitions in topics.items())
    for some in cut(wanted, lambda one: one.num_partitions):
        for one in cluster.any.ask(CreateTopicsRequest(some, int(cluster.timeout * 1000))).topics:
            if one.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(f"create {one.name}", one.error_code, one.error_message)


def _plan(cluster: Cluster, export: Export, missing: frozenset[str], args: argparse.Namespace) -> list[PlannedCommit]:
    """Work out what to commit. Raises ClientError, naming the first partition that it cannot be committed for."""
    ranges = _ranges(cluster, export, missing)
    plan = []
    for group, topics in sorted(export.groups.items()):
        before = {(one.topic, one.partition): one.offset for one in fetch_offsets(cluster, group)}
        for topic, partitions in sorted(topics.items()):
            for partition, exported in sorted(partitions.items()):
                place = (topic, partition)
                offset = _offset(group, place, exported, ranges[place], args)
                plan.append(PlannedCommit(group, topic, partition, offset, before.get(place), exported.metadata))
    return plan


def _ranges(cluster: Cluster, export: Export, missing: frozenset[str]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the start and the end of each partition; those of a topic that was or will be created are empty."""
    every = {
        (topic, partition)
        for topics in export.groups.values()
        for topic, partitions in topics.items()
        for partition in partitions
    }
    asked = [one for one in every if one[0] not in missing]
    starts, ends = (list_offsets(cluster, asked, time, is_strict=True) for time in (EARLIEST, LATEST))
    found = dict.fromkeys(every - set(asked), (0, 0))
    for place in asked:
        if place not in starts or place not in ends:
            raise ClientError(f"cannot read {place[0]}:{place[1]}: the partition has no leader now: try again")
        found[place] = starts[place], ends[place]
    return found


def _offset(
    group: str, place: TopicPartition, exported: ExportedOffset, there: tuple[int, int], args: argparse.Namespace
) -> int:
    start, end = there
    what = f"{group} in {place[0]}:{place[1]}"
    if args.by == "lag":
        if exported.end is None:
            raise ClientError(f"cannot keep the lag of {what}: the file does not have the end of the partition")
        return max(end - max(exported.end - exported.offset, 0), start)
    if args.out_of_range == "commit" or start <= exported.offset <= end:
        return exported.offset
    if args.out_of_range == "clamp":
        return min(max(exported.offset, start), end)
    raise ClientError(
        f"cannot set the offset of {what} to {exported.offset}: the partition has {start} to {end}; "
        "--by lag keeps the lag, --out-of-range clamp or commit takes it"
    )


def _portions(plan: Sequence[PlannedCommit]) -> Iterator[list[PlannedCommit]]:
    """Yield the offsets of a group, as many as one request sets as a whole."""
    portion: list[PlannedCommit] = []
    topics: set[str] = set()
    size = 0
    for one in plan:
        bytes_of_one = RECORD_BYTES + sum([len(text.encode()) for text in (one.group, one.topic, one.metadata)])
        topics.add(one.topic)
        if portion and (len(portion) + len(topics) >= AT_ONCE or size + bytes_of_one > BYTES_AT_ONCE):
            yield portion
            portion, topics, size = [], {one.topic}, 0
        portion.append(one)
        size += bytes_of_one
    yield portion


def _print(plan: Sequence[PlannedCommit], args: argparse.Namespace, created: Sequence[str]) -> None:
    result = "would be set" if args.dry_run else "set"
    if args.json:
        names = ("group", "topic", "partition", "before", "offset")
        print_json([{name: getattr(one, name) for name in names} for one in plan])
        return
    for topic in created:
        print(f"{'would create' if args.dry_run else 'created'} {topic}")
    print_table(
        ("GROUP", "TOPIC", "PARTITION", "BEFORE", "OFFSET", "RESULT"),
        [(one.group, one.topic, one.partition, one.before, one.offset, result) for one in plan],
    )
