"""List, describe, create, alter and delete topics.

It speaks Kafka's own protocol, so it works with Apache Kafka as well."""

import argparse
from collections.abc import Iterable
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, UsageError, act, check
from coordinator.cli.parser import add_actions, add_broker_options, add_json_option, integer, name_and_value
from coordinator.cli.requests import cut
from coordinator.cli.tables import count, print_json, print_table
from coordinator.client.explanations import explain, name_of
from coordinator.client.offsets import EARLIEST, LATEST, list_offsets
from coordinator.setting import INT_MAX
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.metadata import MetadataResponseTopic

EXAMPLES: Final = """\
muster topics create orders --partitions 4 --set retention.ms=3600000
muster topics describe orders
muster topics alter orders --partitions 8 --set cleanup.policy=compact --unset retention.ms
muster topics delete orders"""
TOPIC: Final = 2  # the resource type
OF_TOPIC: Final = 1  # the source of a setting that is the topic's own
SET, DELETE = 0, 1  # the operations of IncrementalAlterConfigs
REPLICAS_MAX: Final = 2**15 - 1  # that a request can hold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="topics with their number of partitions")
    listing.add_argument("--internal", action="store_true", help="internal topics too, such as __consumer_offsets")
    describing = actions.add_parser("describe", help="settings of a topic, first and last offset of each partition")
    describing.add_argument("topic", nargs="*", metavar="TOPIC", help="all topics if none is named")
    creating = actions.add_parser("create", help="create topics")
    creating.add_argument("topic", nargs="+", metavar="TOPIC")
    creating.add_argument(
        "--partitions",
        type=integer(1, INT_MAX),
        default=-1,
        metavar="N",
        help="the broker's num.partitions if not given",
    )
    creating.add_argument(
        "--replicas", type=integer(1, REPLICAS_MAX), default=-1, metavar="N", help="the broker's default if not given"
    )
    altering = actions.add_parser("alter", help="add partitions to topics, change their settings")
    altering.add_argument("topic", nargs="+", metavar="TOPIC")
    altering.add_argument("--partitions", type=integer(1, INT_MAX), metavar="N", help="the new number of partitions")
    altering.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="back to the broker's value; may be given again"
    )
    for action in (creating, altering):
        action.add_argument(
            "--set", type=name_and_value("NAME=VALUE"), action="append", default=[], metavar="NAME=VALUE",
            help="a setting of the topic, such as retention.ms=1000; may be given again",
        )  # fmt: skip
    deleting = actions.add_parser("delete", help="delete topics with all their records")
    deleting.add_argument("topic", nargs="+", metavar="TOPIC")
    for action in (listing, describing, creating, altering, deleting):
        add_json_option(action)
        add_broker_options(action)


def run(args: argparse.Namespace) -> int:
    return act("topics", ACTIONS, args)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    topics = [
        {"topic": one.name, "partitions": len(one.partitions), "id": one.topic_id.hex()}
        for one in _all_topics(cluster)
        if args.internal or not one.is_internal
    ]
    if args.json:
        print_json(topics)
    else:
        print_table(("TOPIC", "PARTITIONS", "ID"), [list(one.values()) for one in topics])
    return 0


def _all_topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    return sorted(cluster.metadata(None).topics, key=lambda one: one.name or "")


def _describe(cluster: Cluster, args: argparse.Namespace) -> int:
    """Describe every topic that is named, also those after one that does not exist."""
    named = list(dict.fromkeys(args.topic)) or [one.name for one in _all_topics(cluster) if not one.is_internal]
    code, descriptions = 0, []
    for topic in cluster.metadata(named).topics if named else ():
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            code = fail("topics", f"no topic {topic.name}")
        elif topic.error_code:
            code = fail("topics", f"cannot describe {topic.name}: {explain(topic.error_code)}")
        else:
            descriptions.append(_describe_topic(cluster, topic))
    if args.json:
        print_json(descriptions)
        return code
    for number, one in enumerate(descriptions):
        print(("\n" if number else "") + _headline(one))
        head = ("PARTITION", "LEADER", "REPLICAS", "START-OFFSET", "END-OFFSET", "RECORDS")
        print_table(head, [_row(partition) for partition in one["partitions"]])
    return code


def _headline(topic: dict[str, Any]) -> str:
    settings = " ".join(f"{name}={value}" for name, value in topic["settings"].items())
    return f"{topic['topic']}: {count(len(topic['partitions']), 'partition')}" + (f", {settings}" if settings else "")


def _row(partition: dict[str, Any]) -> list[Any]:
    return list((partition | {"replicas": ",".join(str(node) for node in partition["replicas"])}).values())


def _describe_topic(cluster: Cluster, topic: MetadataResponseTopic) -> dict[str, Any]:
    name = str(topic.name)
    keys = [(name, one.partition_index) for one in topic.partitions]
    starts, ends = list_offsets(cluster, keys, EARLIEST), list_offsets(cluster, keys, LATEST)
    partitions = []
    for one in sorted(topic.partitions, key=lambda one: one.partition_index):
        start, end = starts.get((name, one.partition_index)), ends.get((name, one.partition_index))
        partitions.append(
            {
                "partition": one.partition_index,
                "leader": one.leader_id,
                "replicas": list(one.replica_nodes),
                "start_offset": start,
                "end_offset": end,
                "records": None if start is None or end is None else end - start,
            }
        )
    return {"topic": name, "id": topic.topic_id.hex(), "settings": _settings(cluster, name), "partitions": partitions}


def _settings(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """Return the topic's own settings, not those that it has from the broker."""
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(TOPIC, topic, None),))
    (result,) = cluster.any.ask(request).results
    check(f"read the settings of {topic}", result.error_code, result.error_message)
    return {one.name: one.value for one in result.configs if one.config_source == OF_TOPIC}


def _create(cluster: Cluster, args: argparse.Namespace) -> int:
    configs = tuple(CreateTopicsRequestCreatableTopicConfig(name, value) for name, value in args.set)
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name, args.partitions, args.replicas, configs=configs)
        for name in dict.fromkeys(args.topic)
    )
    created = (
        one
        for some in cut(topics, lambda one: one.num_partitions)
        for one in cluster.any.ask(CreateTopicsRequest(some, int(cluster.timeout * 1000))).topics
    )
    return _report("create", ((one.name, one.error_code, one.error_message) for one in created), args.json)


def _alter(cluster: Cluster, args: argparse.Namespace) -> int:
    """Change the settings first: they can be changed back, a partition too many cannot."""
    if args.partitions is None and not args.set and not args.unset:
        raise UsageError("missing one of --partitions --set --unset; see muster topics alter --help")
    outcomes = {name: (name, 0, None) for name in dict.fromkeys(args.topic)}
    if args.set or args.unset:
        outcomes |= _alter_settings(cluster, list(outcomes), args)
    good = tuple(name for name, (_, code, _) in outcomes.items() if not code)
    if args.partitions is not None and good:
        topics = tuple(CreatePartitionsRequestTopic(name, args.partitions, None) for name in good)
        for some in cut(topics, lambda one: one.count):
            response = cluster.any.ask(CreatePartitionsRequest(some, int(cluster.timeout * 1000)))
            outcomes |= {one.name: (one.name, one.error_code, one.error_message) for one in response.results}
    return _report("alter", outcomes.values(), args.json)


def _alter_settings(cluster: Cluster, topics: list[str], args: argparse.Namespace) -> dict[str, Any]:
    changes = [IncrementalAlterConfigsRequestAlterableConfig(name, SET, value) for name, value in args.set]
    changes += [IncrementalAlterConfigsRequestAlterableConfig(name, DELETE, None) for name in args.unset]
    resources = tuple(IncrementalAlterConfigsRequestResource(TOPIC, name, tuple(changes)) for name in topics)
    altered = (
        one for some in cut(resources) for one in cluster.any.ask(IncrementalAlterConfigsRequest(some)).responses
    )
    return {one.resource_name: (one.resource_name, one.error_code, one.error_message) for one in altered}


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    names = tuple(dict.fromkeys(args.topic))
    deleted = (one for some in cut(names) for one in _delete_some(cluster, some))
    return _report("delete", ((one.name, one.error_code, one.error_message) for one in deleted), args.json)


def _delete_some(cluster: Cluster, names: tuple[str, ...]) -> Iterable[Any]:
    states = tuple(DeleteTopicsRequestDeleteTopicState(name) for name in names)
    request = DeleteTopicsRequest(states, names, int(cluster.timeout * 1000))  # old versions read the names alone
    responses: Iterable[Any] = cluster.any.ask(request).responses
    return responses


def _report(verb: str, outcomes: Iterable[tuple[str | None, int, str | None]], is_json: bool) -> int:
    """Print a line for each topic that it worked for, a complaint for each other; the exit code."""
    code, results = 0, []
    for name, error, message in outcomes:
        explanation = explain(error, message) if error else ""
        results.append(
            {"topic": name, "error": {"code": name_of(error), "explanation": explanation} if error else None}
        )
        if error:
            code = fail("topics", f"cannot {verb} {name}: {explanation}")
        elif not is_json:
            print(f"{verb.rstrip('e')}ed {name}")
    if is_json:
        print_json(results)
    return code


ACTIONS: Final = {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}
