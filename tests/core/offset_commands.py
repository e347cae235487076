"""What scripts say about offsets: `offsets=t/0=5,t/1=7` are partitions with positions, `offsets=t/0` without."""

from itertools import groupby

from coordinator.core.offsets import offset_fetch
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.core import rendering
from tests.core.world import Words, World, command, topic_id

COMMIT, TXN_COMMIT, FETCH, DELETE = 9, 3, 9, 0  # the versions, where `v=` does not say

Partition = tuple[int, int]


def partitions(words: Words) -> list[tuple[str, list[Partition]]]:
    """Topics with (partition, position), in the order in which they are named."""
    named = []
    for word in words.list("offsets"):
        at, _, position = word.partition(":")
        topic, _, partition = at.partition("/")
        named.append((topic, (int(partition), int(position or -1))))
    return [(topic, [each for _, each in group]) for topic, group in groupby(named, key=lambda each: each[0])]


def metadata(words: Words) -> str | None:
    """`metadata=m`, `metadata=null`, or `metadata=x*5000`: so many of them."""
    text = words.text("metadata")
    if text == "null":
        return None
    character, star, times = text.partition("*")
    return character * int(times) if star else text


@command("commit")
def commit(world: World, words: Words) -> list[str]:
    """`commit client=a member=a-1 generation=1 offsets=t/0:5,t/1:7 metadata=m epoch=3 retention=1m timestamp=7`."""
    by_id = words.number("v", COMMIT) >= 10
    note, epoch = metadata(words), words.number("epoch", -1)
    timestamp = words.number("timestamp", -1)
    request = OffsetCommitRequest(
        group_id=words.text("group", "g"),
        generation_id_or_member_epoch=words.number("generation", -1),
        member_id=words.text("member"),
        group_instance_id=words.maybe("instance"),
        retention_time_ms=words.ms("retention", "-1"),
        topics=tuple(
            OffsetCommitRequestTopic(
                "" if by_id else topic,
                (bytes(16) if topic == "zero" else topic_id(topic)) if by_id else bytes(16),
                tuple(OffsetCommitRequestPartition(at, position, epoch, timestamp, note) for at, position in each),
            )
            for topic, each in partitions(words)
        ),
    )
    return world.ask(words, COMMIT, request)


@command("txn-commit")
def txn_commit(world: World, words: Words) -> list[str]:
    """`txn-commit producer=7 offsets=t/0:5`, with the words of `commit`."""
    note, epoch = metadata(words), words.number("epoch", -1)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=words.text("group", "g"),
        producer_id=words.number("producer", 7),
        producer_epoch=0,
        generation_id=words.number("generation", -1),
        member_id=words.text("member"),
        group_instance_id=words.maybe("instance"),
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                topic, tuple(TxnOffsetCommitRequestPartition(at, position, epoch, note) for at, position in each)
            )
            for topic, each in partitions(words)
        ),
    )
    return world.ask(words, TXN_COMMIT, request)


@command("end-txn")
def end_txn(world: World, words: Words) -> list[str]:
    """`end-txn commit producer=7`, `end-txn abort`."""
    (how,) = words.plain
    world.end_transaction(words.number("producer", 7), commits=how == "commit")
    return []


@command("fetch")
def fetch(world: World, words: Words) -> list[str]:
    """`fetch offsets=t/0,t/1`, `fetch all`, `fetch offsets=t/0 stable`, `fetch groups=g,h all`."""
    version = words.number("v", FETCH)
    groups = words.list("groups", words.text("group", "g"))
    asked = None if "all" in words.plain else [(topic, [at for at, _ in each]) for topic, each in partitions(words)]
    request = OffsetFetchRequest(
        group_id=groups[0] if groups else "",
        topics=None if asked is None else tuple(OffsetFetchRequestTopic(topic, tuple(ats)) for topic, ats in asked),
        groups=tuple(OffsetFetchRequestGroup(group_id, topics=_topics(asked, version)) for group_id in groups),
        require_stable="stable" in words.plain,
    )
    stable = request.require_stable
    found = tuple(
        world.shard.fetch_offsets(wanted, version, require_stable=stable)
        for wanted in offset_fetch.split_groups(request, version)
    )
    return _fetched(offset_fetch.merge_groups(found, request, version))


def _topics(asked: list[tuple[str, list[int]]] | None, version: int) -> tuple[OffsetFetchRequestTopics, ...] | None:
    if asked is None:
        return None
    by_id = version >= 10
    return tuple(
        OffsetFetchRequestTopics("" if by_id else topic, topic_id(topic) if by_id else bytes(16), tuple(ats))
        for topic, ats in asked
    )


def _fetched(response: OffsetFetchResponse) -> list[str]:
    """A line for each group: `g: t/0=5 epoch=3 'm' t/1=-1`."""
    if response.groups:
        return [
            f"{group.group_id or '-'}: {rendering.error(group.error_code)} {_all(group.topics)}"
            for group in response.groups
        ]
    return [f"{rendering.error(response.error_code)} {_all(response.topics)}"]


def _all(topics: object) -> str:
    words = []
    for topic in topics:
        name = rendering.topic(topic)
        for each in topic.partitions:
            epoch = f" epoch={each.committed_leader_epoch}" if each.committed_leader_epoch != -1 else ""
            note = f" {each.metadata!r}" if each.metadata else ""
            error = f" {rendering.error(each.error_code)}" if each.error_code else ""
            words.append(f"{name}/{each.partition_index}={each.committed_offset}{epoch}{note}{error}")
    return " ".join(words) or "nothing"


@command("delete-offsets")
def delete_offsets(world: World, words: Words) -> list[str]:
    """`delete-offsets offsets=t/0,t/1`."""
    request = OffsetDeleteRequest(
        words.text("group", "g"),
        tuple(
            OffsetDeleteRequestTopic(topic, tuple(OffsetDeleteRequestPartition(at) for at, _ in each))
            for topic, each in partitions(words)
        ),
    )
    return world.ask(words, DELETE, request)
