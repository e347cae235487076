"""Requests that many stories send, with what they leave out filled in."""

from typing import Any

from tests.conformance.stage import Answer, Line, Stage

UNKNOWN_ID = "11111111-1111-1111-1111-111111111111"  # of no topic


def part(offset: int = 1, index: int = 0, metadata: str | None = "", **more: Any) -> dict[str, Any]:
    """One partition of a commit."""
    return {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata, **more}


def commit(line: Line, group: str, topic: str, *parts: dict[str, Any], version: int = 9, **values: Any) -> Answer:
    """Commit with no group membership unless `values` say so."""
    topics = [{"name": topic, "partitions": list(parts or (part(),))}]
    return line.call("offset_commit", version, **{"group_id": group, "topics": topics, **values})


def fetch(line: Line, group: str, topic: str, *indexes: int, version: int = 9, **values: Any) -> Answer:
    """What the group has committed for these partitions."""
    topics = [{"name": topic, "partition_indexes": list(indexes or (0,))}]
    return line.call("offset_fetch", version, groups=[{"group_id": group, "topics": topics, **values}])


def delete(line: Line, group: str, topic: str, *indexes: int) -> Answer:
    parts = [{"partition_index": index} for index in indexes or (0,)]
    return line.call("offset_delete", 0, group_id=group, topics=[{"name": topic, "partitions": parts}])


def describe(k: Stage, group: str, version: int = 1) -> None:
    k.line("watch").call("consumer_group_describe", version, group_ids=[group])
