"""Commits of many offsets, decided in parts."""

from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.decision import Done
from coordinator.runtime import group_requests, long_commits
from coordinator.runtime.long_commits import decide_in_parts, is_long
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.requests import commit, fetch_offsets
from tests.server.in_memory import InMemory
from tests.steps import count_steps


def request(*counts: int, by_ids: bool = False) -> OffsetCommitRequest:
    """A commit of topics with so many partitions each, which it names as version 10 does, or as older ones do."""
    names = [{"topic_id": bytes([number]) * 16} if by_ids else {"name": f"t{number}"} for number in range(len(counts))]
    topics = [
        OffsetCommitRequestTopic(**name, partitions=tuple(map(OffsetCommitRequestPartition, range(count))))
        for name, count in zip(names, counts, strict=True)
    ]
    return OffsetCommitRequest("g", topics=tuple(topics))


def answer(part: OffsetCommitRequest) -> OffsetCommitResponse:
    """Every partition gets a code by which it is known."""
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            tuple(
                [OffsetCommitResponsePartition(each.partition_index, each.partition_index) for each in topic.partitions]
            ),
        )
        for topic in part.topics
    ]
    return OffsetCommitResponse(topics=tuple(topics))


@pytest.mark.parametrize("by_ids", [False, True])
@pytest.mark.parametrize("counts", [(11,), (10, 1), (10, 10, 10), (3, 25, 0, 2, 10), (0, 0, 30), (1,) * 35, (9, 2)])
def test_the_response_to_all_parts_is_that_to_the_whole(
    counts: tuple[int, ...], by_ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_commits, "PART_PARTITIONS", 10)
    whole = request(*counts, by_ids=by_ids)
    assert is_long(whole)
    sizes: list[int] = []

    def decide(part: Any) -> Any:
        sizes.append(sum(len(topic.partitions) for topic in part.topics))
        return Done(answer(part))

    count, response = count_steps(decide_in_parts(whole, decide))
    assert response == Done(answer(whole))
    assert max(sizes) == 10 and sum(sizes) == sum(counts) and count == len(sizes) + 1


def test_a_long_commit_is_answered_and_can_be_fetched() -> None:
    """Of 3,000 partitions of one topic, which are two parts; what does not exist is refused by itself."""
    server = InMemory()
    peer = server.connect()
    asked = request(3_000)
    asked = replace(asked, topics=(replace(asked.topics[0], name="orders"),))
    peer.send((asked, 8))
    for _ in range(2):
        server.turn()
    (topic,) = peer.answers[0][1].topics
    assert [each.partition_index for each in topic.partitions] == list(range(3_000))
    assert [each.error_code for each in topic.partitions[:5]] == [0, 0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (group,) = peer.ask(fetch_offsets("g", {"orders": (0, 3)}), 8).groups
    assert [each.committed_offset for each in group.topics[0].partitions] == [0, 0]
    partitions = tuple(map(TxnOffsetCommitRequestPartition, range(3_000)))
    of_nobody = TxnOffsetCommitRequest("id", "g", 7, topics=(TxnOffsetCommitRequestTopic("orders", partitions),))
    peer.send((of_nobody, 5))
    for _ in range(2):
        server.turn()
    (topic,) = peer.answers[-1][1].topics
    refused = [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 4 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2_996
    assert [each.error_code for each in topic.partitions] == refused


def test_offsets_are_fetched_at_once_as_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory()
    peer = server.connect()
    orders = replace(request(3), topics=(replace(request(3).topics[0], name="orders"),))
    peer.ask(orders, 8)
    some = OffsetFetchRequestTopics("orders", partition_indexes=(2, 9, 0, 0))
    others = OffsetFetchRequestTopics("none", partition_indexes=(1,))
    wanted = [OffsetFetchRequestGroup("g", topics=topics) for topics in ((some, others, some), (), (others,))]
    both = (*wanted, OffsetFetchRequestGroup("h", topics=(some,)))
    before = (OffsetFetchRequestTopic("orders", (0, 7)), OffsetFetchRequestTopic("none", (1,)))
    asked = [(OffsetFetchRequest(groups=both), 8), (OffsetFetchRequest(groups=both, require_stable=True), 9)]
    asked += [(OffsetFetchRequest(group, before), version) for group in "gh" for version in (1, 5, 7)]
    asked += [(fetch_offsets(group), 8) for group in "gh"]
    at_once = [peer.ask(*one) for one in asked]
    assert [each.committed_offset for each in at_once[0].groups[0].topics[0].partitions] == [0, -1, 0, 0]
    monkeypatch.setattr(group_requests, "_wants_few", lambda *_: False)
    assert [peer.ask(*one) for one in asked] == at_once


@pytest.mark.parametrize("wanted", list(permutations(range(3))))
@pytest.mark.parametrize("names_all", [False, True])
def test_each_group_of_a_long_fetch_is_answered_though_another_one_is_refused(
    wanted: tuple[int, ...], names_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which they are asked for; at once the same."""
    server = InMemory(topics={"t0": 3, "t1": 2}, virtual_brokers=2)
    names: dict[int, list[str]] = {0: [], 1: []}
    for name in map(str, range(10)):
        names[server.node.world.coordinators.of_group(name)].append(name)
    groups = [names[0][0], names[1][0], names[0][1]]  # the second one is of the other broker
    for number, group in enumerate(groups):
        offsets = {"t0": dict.fromkeys(range(3), number), "t1": dict.fromkeys(range(2), 10 + number)}
        code = server.connect(broker=number % 2).ask(commit(group, offsets), 8).topics[0].partitions[0].error_code
        assert code == ErrorCode.NONE
    parts = {"t0": (0, 1, 2), "t1": (0, 1)}
    asked = [fetch_offsets(groups[at], None if names_all else parts).groups[0] for at in wanted]
    answers = []
    for most in (2_000, 3, 1):
        for module in (long_commits, group_requests):
            monkeypatch.setattr(module, "PART_PARTITIONS", most)
        answers.append(server.connect(broker=0).ask(OffsetFetchRequest(groups=tuple(asked)), 8).groups)
    assert answers[0] == answers[1] == answers[2]
    for at, found in zip(wanted, answers[0], strict=True):
        offsets = {
            (topic.name, one.partition_index): one.committed_offset
            for topic in found.topics
            for one in topic.partitions
        }
        if at == 1:
            assert (found.group_id, found.error_code, offsets) == (groups[1], ErrorCode.NOT_COORDINATOR, {})
        else:
            expected = {("t0", index): at for index in range(3)} | {("t1", index): 10 + at for index in range(2)}
            assert (found.group_id, found.error_code, offsets) == (groups[at], ErrorCode.NONE, expected)


def test_topics_without_partitions_are_work_too_and_each_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_commits, "PART_PARTITIONS", 10)
    empty = request(*[0] * 35)
    again = replace(empty, topics=(*empty.topics, *request(2).topics, *request(1).topics))
    assert is_long(empty)
    count, outcome = count_steps(decide_in_parts(again, lambda part: Done(answer(part))))
    assert count > 3
    assert [topic.name for topic in outcome.response.topics] == [topic.name for topic in empty.topics]
    assert [len(topic.partitions) for topic in outcome.response.topics] == [3, *[0] * 34]


def test_offsets_are_deleted_in_parts_until_the_group_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_commits, "PART_PARTITIONS", 2)
    server = InMemory()
    peer = server.connect()
    orders = replace(request(4), topics=(replace(request(4).topics[0], name="orders"),))
    peer.ask(orders, 8)
    partitions = tuple(map(OffsetDeleteRequestPartition, (0, 1, 2, 3, 4)))
    asked = OffsetDeleteRequest("g", topics=(OffsetDeleteRequestTopic("orders", partitions),))
    (topic,) = peer.ask(asked, 0).topics
    assert [each.error_code for each in topic.partitions] == [0, 0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (group,) = peer.ask(fetch_offsets("g", {"orders": (0, 3)}), 8).groups
    assert [each.committed_offset for each in group.topics[0].partitions] == [-1, -1]
    refused = peer.ask(replace(asked, group_id="nobody"), 0)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND and not refused.topics


def test_a_topic_that_goes_on_in_the_next_part_is_found_where_an_answer_has_joined_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first part names it twice, beside one that there is not: its answer ends with the other one."""
    monkeypatch.setattr(long_commits, "PART_PARTITIONS", 4)
    peer = InMemory().connect()
    named = [("orders", (0, 1)), ("none", (0,)), ("orders", (2, 3))]
    of_group = [
        OffsetCommitRequestTopic(name, partitions=tuple(map(OffsetCommitRequestPartition, numbers)))
        for name, numbers in named
    ]
    in_transaction = [
        TxnOffsetCommitRequestTopic(name, tuple(map(TxnOffsetCommitRequestPartition, numbers)))
        for name, numbers in named
    ]
    for asked, version in (
        (OffsetCommitRequest("g", topics=tuple(of_group)), 8),
        (TxnOffsetCommitRequest("p", "g", topics=tuple(in_transaction)), 2),
    ):
        answered = [
            (topic.name, [one.partition_index for one in topic.partitions]) for topic in peer.ask(asked, version).topics
        ]
        assert answered == [("orders", [0, 1, 2, 3]), ("none", [0])]
