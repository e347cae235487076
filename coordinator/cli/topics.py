"""Lists, describes, creates and deletes topics. Speaks Kafka's own protocol."""

import argparse
from collections.abc import Iterable
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.cluster import Cluster, add_bootstrap, check, name_of
from coordinator.cli.committed import EARLIEST, LATEST, offsets_at
from coordinator.cli.tables import print_json, print_table
from coordinator.client import ClientError
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.metadata import MetadataResponseTopic

HELP = "list, describe, create and delete topics"
TOPIC: Final = 2  # the resource type
OF_TOPIC: Final = 1  # the source of a setting that is the topic's own
TIMEOUT_MS: Final = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="topics with their partitions")
    listing.add_argument("--internal", action="store_true", help="the internal ones too")
    describing = actions.add_parser("describe", help="settings, and where each partition begins and ends")
    describing.add_argument("topic", nargs="*", metavar="TOPIC", help="all topics where none is named")
    creating = actions.add_parser("create", help="create topics")
    creating.add_argument("topic", nargs="+", metavar="TOPIC")
    creating.add_argument("--partitions", type=int, default=-1, metavar="N", help="else the server's num.partitions")
    creating.add_argument("--replicas", type=int, default=-1, metavar="N", help="else the server's default")
    creating.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting; may be given again"
    )
    deleting = actions.add_parser("delete", help="delete topics with all their records")
    deleting.add_argument("topic", nargs="+", metavar="TOPIC")
    for action in (listing, describing, creating, deleting):
        add_bootstrap(action)


def run(args: argparse.Namespace) -> int:
    try:
        with Cluster(args.bootstrap) as cluster:
            code: int = ACTIONS[args.action](cluster, args)
            return code
    except ClientError as error:
        return fail("topics", error)


def _list(cluster: Cluster, args: argparse.Namespace) -> int:
    topics = [
        {"topic": one.name, "partitions": len(one.partitions), "id": one.topic_id.hex()}
        for one in _known(cluster)
        if args.internal or not one.is_internal
    ]
    if args.json:
        print_json(topics)
    else:
        print_table(("TOPIC", "PARTITIONS", "ID"), [list(one.values()) for one in topics])
    return 0


def _known(cluster: Cluster) -> list[MetadataResponseTopic]:
    return sorted(cluster.metadata(None).topics, key=lambda one: one.name or "")


def _describe(cluster: Cluster, args: argparse.Namespace) -> int:
    """Every topic is looked for, also behind one that is not there."""
    named = list(dict.fromkeys(args.topic)) or [one.name for one in _known(cluster) if not one.is_internal]
    code, told = 0, []
    for topic in cluster.metadata(named).topics if named else ():
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            code = fail("topics", f"there is no topic {topic.name}")
            continue
        if topic.error_code:
            code = fail("topics", f"topic {topic.name}: {name_of(topic.error_code)}")
            continue
        told.append(_described(cluster, topic))
    if args.json:
        print_json(told)
        return code
    for at, one in enumerate(told):
        own = " ".join(f"{name}={value}" for name, value in one["settings"].items())
        print(
            ("\n" if at else "") + f"{one['topic']}: {len(one['partitions'])} partitions" + (f", {own}" if own else "")
        )
        head = ("PARTITION", "LEADER", "REPLICAS", "BEGINS", "ENDS", "RECORDS")
        print_table(head, [list(partition.values()) for partition in one["partitions"]])
    return code


def _described(cluster: Cluster, topic: MetadataResponseTopic) -> dict[str, Any]:
    name = str(topic.name)
    places = [(name, one.partition_index) for one in topic.partitions]
    begins, ends = offsets_at(cluster, places, EARLIEST), offsets_at(cluster, places, LATEST)
    partitions = []
    for one in sorted(topic.partitions, key=lambda one: one.partition_index):
        first, last = begins.get((name, one.partition_index)), ends.get((name, one.partition_index))
        partitions.append(
            {
                "partition": one.partition_index,
                "leader": one.leader_id,
                "replicas": ",".join(str(node) for node in one.replica_nodes),
                "begins": first,
                "ends": last,
                "records": None if first is None or last is None else last - first,
            }
        )
    return {"topic": name, "id": topic.topic_id.hex(), "settings": _settings(cluster, name), "partitions": partitions}


def _settings(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """The topic's own settings, not those that it has from the broker."""
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(TOPIC, topic, None),))
    (result,) = cluster.any.ask(request).results
    check(f"settings of {topic}", result.error_code, result.error_message)
    return {one.name: one.value for one in result.configs if one.config_source == OF_TOPIC}


def _create(cluster: Cluster, args: argparse.Namespace) -> int:
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name, args.partitions, args.replicas, configs=tuple(args.set))
        for name in dict.fromkeys(args.topic)
    )
    answer = cluster.any.ask(CreateTopicsRequest(topics, TIMEOUT_MS))
    return _tell(((one.name, one.error_code, one.error_message) for one in answer.topics), "created", args.json)


def _setting(text: str) -> CreateTopicsRequestCreatableTopicConfig:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} has no value")
    return CreateTopicsRequestCreatableTopicConfig(name.strip(), value.strip())


def _delete(cluster: Cluster, args: argparse.Namespace) -> int:
    names = tuple(dict.fromkeys(args.topic))
    states = tuple(DeleteTopicsRequestDeleteTopicState(name) for name in names)
    answer = cluster.any.ask(DeleteTopicsRequest(states, names, TIMEOUT_MS))  # old versions read the names alone
    return _tell(((one.name, one.error_code, one.error_message) for one in answer.responses), "deleted", args.json)


def _tell(results: Iterable[tuple[str | None, int, str | None]], done: str, is_json: bool) -> int:
    """A line for each topic that it worked for, a complaint for each other; the exit code."""
    code, names = 0, []
    for name, error, message in results:
        if error:
            why = name_of(error) + (f" ({message.rstrip('.')})" if message else "")
            code = fail("topics", f"{name} is not {done}: {why}")
        else:
            names.append(str(name))
    if is_json:
        print_json({done: names})
    else:
        for name in names:
            print(f"{name} is {done}")
    return code


ACTIONS: Final = {"list": _list, "describe": _describe, "create": _create, "delete": _delete}
