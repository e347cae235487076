"""Topologies of Kafka Streams applications, as a join sends them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.stage import Stage

Topology = dict[str, Any]


def internal(name: str, partitions: int = 0, replication: int = 0, **configs: str) -> dict[str, Any]:
    """A repartition or changelog topic; configs as `cleanup_policy="compact"`."""
    listed = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": replication, "topic_configs": listed}


def copartitioned(sources: Sequence[int] = (), repartitions: Sequence[int] = ()) -> dict[str, Any]:
    """Topics that need as many partitions: indices into the lists of their subtopology."""
    lists = {"source_topics": list(sources), "repartition_source_topics": list(repartitions)}
    return {**lists, "source_topic_regex": []}


def part(
    number: str = "0",
    sources: Sequence[str] = (),
    *,
    sinks: Sequence[str] = (),
    repartitions: Sequence[Mapping[str, Any]] = (),
    changelogs: Sequence[Mapping[str, Any]] = (),
    copartitions: Sequence[Mapping[str, Any]] = (),
    patterns: Sequence[str] = (),
) -> dict[str, Any]:
    """A subtopology."""
    return {
        "subtopology_id": number,
        "source_topics": list(sources),
        "source_topic_regex": list(patterns),
        "state_changelog_topics": list(changelogs),
        "repartition_sink_topics": list(sinks),
        "repartition_source_topics": list(repartitions),
        "copartition_groups": list(copartitions),
    }


def topology(*parts: Mapping[str, Any], epoch: int = 0) -> Topology:
    return {"epoch": epoch, "subtopologies": list(parts)}


def reads(*topics: str) -> Topology:
    """An application without state: one subtopology."""
    return topology(part("0", topics))


def counts(k: Stage, *topics: str) -> Topology:
    """An application with a store: one subtopology, whose changelog is `log`."""
    return topology(part("0", topics, changelogs=[internal(k.name("log"), cleanup_policy="compact")]))


def word_count(k: Stage, topic: str) -> Topology:
    """Two subtopologies: one splits and repartitions, the other counts in a store."""
    again = k.name("again")
    return topology(
        part("0", [topic], sinks=[again]),
        part("1", repartitions=[internal(again)], changelogs=[internal(k.name("log"), cleanup_policy="compact")]),
    )
