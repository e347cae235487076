"""Requests that many stories send, with what they leave out filled in."""

from collections.abc import Callable
from typing import Any

from tests.conformance.stage import Answer, Line, Stage

UNKNOWN_ID = "11111111-1111-1111-1111-111111111111"  # of no topic


def part(offset: int = 1, index: int = 0, metadata: str | None = "", **more: Any) -> dict[str, Any]:
    """One partition of a commit."""
    return {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata, **more}


def topic_data(topic: str, records: bytes | None, index: int = 0) -> list[dict[str, Any]]:
    """What a Produce has for one partition."""
    return [{"name": topic, "partition_data": [{"index": index, "records": records}]}]


def commit(line: Line, group: str, topic: str, *parts: dict[str, Any], version: int = 9, **values: Any) -> Answer:
    """Commit with no group membership unless `values` say so."""
    topics = [{"name": topic, "partitions": list(parts or (part(),))}]
    return line.call("offset_commit", version, **{"group_id": group, "topics": topics, **values})


def named_twice(topic: str, missing: str) -> list[list[dict[str, Any]]]:
    """Topics of commits that name one twice or with no partition, beside what exists and what does not."""
    one = {"name": topic, "partitions": [part(1)]}
    empty, unknown = {**one, "partitions": []}, {"name": topic, "partitions": [part(1, 7)]}
    none, nothing = {**one, "name": missing}, {**empty, "name": missing}
    return [
        [one, one],
        [one, empty],
        [empty],
        [one, unknown, one],
        [one, none, one, none],
        [nothing],
        [one, nothing, one],
        [],
    ]


def fetch(line: Line, group: str, topic: str, *indexes: int, version: int = 9, **values: Any) -> Answer:
    """What the group has committed for these partitions."""
    topics = [{"name": topic, "partition_indexes": list(indexes or (0,))}]
    return line.call("offset_fetch", version, groups=[{"group_id": group, "topics": topics, **values}])


def fetch_until(
    line: Line, group: str, is_so: Callable[[Answer], Any], topic: str | None = None, **values: Any
) -> None:
    """Fetch what the group has committed, of partition 0 of a topic or of all, until that is so."""
    topics = topic and [{"name": topic, "partition_indexes": [0]}]
    groups = [{"group_id": group, "topics": topics}]
    line.eventually("offset_fetch", 9, lambda answer: bool(is_so(answer.groups[0])), groups=groups, **values)


def delete(line: Line, group: str, topic: str, *indexes: int) -> Answer:
    parts = [{"partition_index": index} for index in indexes or (0,)]
    return line.call("offset_delete", 0, group_id=group, topics=[{"name": topic, "partitions": parts}])


def remove(k: Stage, group: str, *leavers: dict[str, Any], version: int = 5) -> Answer:
    """LeaveGroup as an operator sends it."""
    return k.line("admin").call("leave_group", version, group_id=group, members=list(leavers))


def describe(k: Stage, group: str, version: int = 1) -> None:
    k.line("watch").call("consumer_group_describe", version, group_ids=[group])


def describe_streams(k: Stage, *groups: str, **values: Any) -> None:
    k.line("watch").call("streams_group_describe", 0, group_ids=list(groups), **values)


TOPIC, BROKER = 2, 4  # types of resources that have configs, beside GROUP
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter_configs(k: Stage, kind: int, name: str, *changes: tuple[str, int, str | None], **values: Any) -> Answer:
    """Change configs of a resource: keys, what is done with them, and values."""
    return k.line("admin").call(
        "incremental_alter_configs", 1, resources=[config_resource(kind, name, *changes)], **values
    )


def config_resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict[str, Any]:
    """Return a resource of an IncrementalAlterConfigs."""
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def describe_configs(k: Stage, kind: int, name: str, *keys: str, version: int = 4, **values: Any) -> Answer:
    """Describe these configs of a resource, or all of them."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    return k.line("admin").call("describe_configs", version, resources=[resource], **values)


def await_config(k: Stage, kind: int, name: str, key: str, value: str) -> Answer:
    """Describe the config until the broker shows the value; only that answer is written down."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
    return k.line("admin").eventually(
        "describe_configs", 4, lambda answer: bool(answer.results[0].configs[0].value == value), resources=[resource]
    )
