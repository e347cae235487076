"""ListOffsets: offsets by time and by their special names."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.requests import topic_data
from tests.conformance.stage import Stage
from tests.conformance.story import story


def asking(name: str, *timestamps: int, epoch: int | None = -1, partition: int = 0) -> list[dict[str, Any]]:
    """A partition by each time. Versions before 4 know no epoch."""
    known = {} if epoch is None else {"current_leader_epoch": epoch}
    parts = [{"partition_index": partition, **known, "timestamp": timestamp} for timestamp in timestamps]
    return [{"name": name, "partitions": parts}]


def ask(k: Stage, version: int, name: str, timestamp: int) -> None:
    topics = asking(name, timestamp, epoch=None if version < 4 else -1)
    k.line("a").call("list_offsets", version, replica_id=-1, topics=topics)


def filled(k: Stage, **configs: str) -> str:
    """A topic with records of three times, the latest not last."""
    name = k.topic(configs={key.replace("_", "."): value for key, value in configs.items()})
    for values, times in (((b"a", b"b"), (1000, 2000)), ((b"c", b"d"), (9000, 4000)), ((b"e",), (5000,))):
        data = topic_data(name, batch(*values, timestamps=times))
        k.line("stage").quietly("produce", 9, acks=-1, timeout_ms=5000, topic_data=data)
    return name


@story("V-007")
def offsets_between_the_times_of_records(k: Stage) -> None:
    """The first record that is not older; times between, before and behind all records."""
    name = filled(k)
    for timestamp in (0, 1, 1000, 1001, 2000, 2001, 4000, 5000, 9000, 9001, 2**62):
        k.line("a").call("list_offsets", 9, replica_id=-1, isolation_level=0, topics=asking(name, timestamp))


@story("V-007")
def offsets_by_the_time_of_the_broker(k: Stage) -> None:
    """With LogAppendTime the time of a record is that of its batch, whatever its producer said."""
    name = filled(k, message_timestamp_type="LogAppendTime")
    for timestamp in (0, 1500, 9001, 2**62, -3):
        k.line("a").call("list_offsets", 9, replica_id=-1, isolation_level=0, topics=asking(name, timestamp))


@story("V-007")
def offsets_by_their_special_names(k: Stage) -> None:
    """The end, the start, the latest time, the local start, the last in remote storage; of an empty topic too."""
    name, empty = filled(k), k.topic("empty")
    for topic in (name, empty):
        for version, special in (
            (1, (-1, -2)),
            (7, (-1, -2, -3)),
            (8, (-4,)),
            (9, (-5,)),
            (11, (-1, -2, -3, -4, -5, -6)),
        ):
            for timestamp in special:
                ask(k, version, topic, timestamp)


@story("V-007")
def offsets_by_names_that_a_version_has_not(k: Stage) -> None:
    """Special names before their version, and those that there are not."""
    name = filled(k)
    for version, timestamps in (
        (1, (-3, -4, -5, -7)),
        (6, (-3,)),
        (7, (-4,)),
        (8, (-5,)),
        (10, (-6, -7)),
        (11, (-7, -99)),
    ):
        for timestamp in timestamps:
            ask(k, version, name, timestamp)


@story("V-007")
def offsets_of_partitions_that_are_asked_for_twice(k: Stage) -> None:
    """One partition by two names, and partitions and topics that there are not."""
    name = filled(k)
    k.line("a").call("list_offsets", 9, replica_id=-1, topics=asking(name, -1, -2))
    k.line("a").call("list_offsets", 9, replica_id=-1, topics=asking(name, -1, partition=9))
    k.line("a").call("list_offsets", 9, replica_id=-1, topics=asking(k.name("none"), -1))
    k.line("a").call("list_offsets", 9, replica_id=-1, topics=[])


@story("V-007")
def offsets_with_another_leader_epoch(k: Stage) -> None:
    """The epoch that the client knows: that of the leader, a later one, one before all."""
    name = filled(k)
    for epoch in (-1, 0, 1, 7):
        k.line("a").call("list_offsets", 9, replica_id=-1, topics=asking(name, -1, epoch=epoch))
