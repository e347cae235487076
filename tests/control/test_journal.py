"""The journal keeps what was on the wire, within its bytes, and finds it again."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from coordinator.control.inputs import INPUT_BYTES, Kind, Origin
from coordinator.control.journal import Entry, Filter, Journal, JournalClient, describe_entry
from coordinator.control.leftovers import ANSWERS
from coordinator.control.subject import subject_of
from coordinator.runtime.router import supported_versions
from protocol.apis import BY_NAME
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartitionResult,
    AddPartitionsToTxnResponseTopicResult,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestAlterReplicaLogDir,
    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumRequestTopicData
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersRequestTopicPartitions
from protocol.messages.fetch import FetchRequest, FetchRequestTopic
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.control.frames import note
from tests.protocol.values import Choices, value_of

MEMBERSHIPS: Final = {BY_NAME[name].key for name in {*ANSWERS, "LeaveGroup", "OffsetFetch"} - {"SyncGroup"}}
CLIENT: Final = JournalClient("/127.0.0.1", 50_000, 1)
BEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id="i")


def test_a_subject_has_what_its_request_names() -> None:
    beat = subject_of("Heartbeat", "c", BEAT)
    assert (beat.groups, beat.members, beat.instances, beat.generation) == (("g",), ("m",), ("i",), 3)
    commit = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t"),))
    assert subject_of("OffsetCommit", None, commit).topics == ("t",)
    groups = tuple(
        OffsetFetchRequestGroup(group_id=group, topics=(OffsetFetchRequestTopics(name="t"),)) for group in "ab"
    )
    fetch = subject_of("OffsetFetch", "c", OffsetFetchRequest(groups=groups))
    assert (fetch.groups, fetch.topics) == (("a", "b"), ("t",))
    leave = LeaveGroupRequest(group_id="g", members=(LeaveGroupRequestMemberIdentity(member_id="m"),))
    assert subject_of("LeaveGroup", "c", leave).members == ("m",)
    epoch = subject_of("ConsumerGroupHeartbeat", "c", ConsumerGroupHeartbeatRequest(group_id="g", member_epoch=5))
    assert epoch.generation == 5


def test_a_subject_has_the_topics_wherever_a_request_names_them() -> None:
    topic = AddPartitionsToTxnRequestTopic("t")
    batched = AddPartitionsToTxnRequest((AddPartitionsToTxnRequestTransaction("x", topics=(topic,)),))
    elected = ElectLeadersRequest(topic_partitions=(ElectLeadersRequestTopicPartitions("t"),))
    moved = AlterReplicaLogDirsRequest(
        (AlterReplicaLogDirsRequestAlterReplicaLogDir("/d", (AlterReplicaLogDirsRequestAlterReplicaLogDirTopic("t"),)),)
    )
    described = DescribeQuorumRequest((DescribeQuorumRequestTopicData("t"),))
    for request in (AddPartitionsToTxnRequest(v3_and_below_topics=(topic,)), batched, elected, moved, described):
        assert subject_of("", "c", request).topics == ("t",), request
    owned = ConsumerGroupHeartbeatRequest(
        "g", topic_partitions=(ConsumerGroupHeartbeatRequestTopicPartitions(b"\1" * 16, (0,)),)
    )
    assert subject_of("ConsumerGroupHeartbeat", "c", owned, {b"\1" * 16: "t"}.get).topics == ("t",)


def test_a_subject_has_the_member_epoch_of_a_group_in_a_list() -> None:
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=4),))
    assert subject_of("OffsetFetch", "c", asked).generation == 4


GROUP_NAMES: Final = {"group_id", "groups", "group_ids", "groups_names"}


def find_names(value: Any, names: set[str], found: set[str]) -> set[str]:
    """The texts in the fields of these names, wherever they are in a body."""
    if isinstance(value, tuple):
        for item in value:
            find_names(item, names, found)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            if name in names and isinstance(inner, str | tuple):
                found |= {
                    one for one in ((inner,) if isinstance(inner, str) else inner) if isinstance(one, str) and one
                }
            find_names(inner, names, found)
    return found


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_subject_has_the_groups_and_members_of_any_request_of_any_version(name: str) -> None:
    api = BY_NAME[name]
    for version in supported_versions("4.3").get(api.key, ()):
        for seed in range(12):
            choices = Choices(bytes((seed * 37 + at * (seed + 1)) % 251 for at in range(600)))
            body = value_of(api.request.at(version, api.is_flexible(version)), choices)
            subject = subject_of(name, "c", body)
            groups = find_names(body, GROUP_NAMES, set())
            if name == "FindCoordinator" and body.key_type == 0:
                groups |= {one for one in (body.key, *body.coordinator_keys) if one}
            assert {one for one in subject.groups if one} == groups, (version, body)
            if api.key in MEMBERSHIPS:  # the others have ids of members that somebody else speaks of
                assert set(subject.members) == find_names(body, {"member_id"}, set()), (version, body)


def test_a_topic_id_is_looked_up() -> None:
    request = FetchRequest(topics=(FetchRequestTopic(topic_id=b"\1" * 16), FetchRequestTopic(topic_id=b"\2" * 16)))
    names = {b"\1" * 16: "orders"}
    assert subject_of("Fetch", "c", request, names.get).topics == ("orders",)


def test_an_entry_is_described_with_its_bodies_and_errors() -> None:
    journal = Journal()
    refused = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    described = describe_entry(note(journal, "Heartbeat", 4, BEAT, refused))
    json.dumps(described)
    assert described["api"] == "Heartbeat"
    assert described["client_id"] == "c"
    assert described["request"]["generation_id"] == 3
    assert described["response"]["error_code"] == 27
    assert described["errors"] == ["REBALANCE_IN_PROGRESS"]
    assert describe_entry(note(journal, "Heartbeat", 4, BEAT))["response"] is None


def test_the_errors_of_partitions_have_another_name_in_a_transaction() -> None:
    fenced = AddPartitionsToTxnResponsePartitionResult(0, ErrorCode.PRODUCER_FENCED)
    topic = AddPartitionsToTxnResponseTopicResult("t", (fenced,))
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(topic,))
    asked = AddPartitionsToTxnRequest(v3_and_below_topics=(AddPartitionsToTxnRequestTopic("t", (0,)),))
    assert describe_entry(note(Journal(), "AddPartitionsToTxn", 3, asked, response))["errors"] == ["PRODUCER_FENCED"]


def test_a_filter_accepts_what_agrees_in_every_field() -> None:
    journal = Journal()
    note(journal, "Heartbeat", 4, BEAT)
    note(journal, "Heartbeat", 4, HeartbeatRequest(group_id="h", member_id="x"), client="d")
    commit = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t"),))
    note(journal, "OffsetCommit", 8, commit)

    def numbers(**wanted: object) -> list[int]:
        return [entry.number for entry, _ in journal.entries(Filter(**wanted))]

    assert numbers() == [1, 2, 3]
    assert numbers(group="g") == [1, 3]
    assert numbers(group="g", api="Heartbeat") == [1]
    assert numbers(client="d") == numbers(client="x") == [2]
    assert numbers(client="i") == [1]
    assert numbers(topic="t") == [3]
    assert numbers(after=2) == [3]
    assert numbers(group="nobody") == []


def test_the_oldest_entries_go_when_the_bytes_exceed_the_bound() -> None:
    journal = Journal(bytes_max=5_000)
    entries = [note(journal, "Heartbeat", 4, BEAT, HeartbeatResponse()) for _ in range(100)]
    assert journal.bytes <= 5_000
    left = [entry.number for entry, _ in journal.entries(Filter())]
    assert left == list(range(101 - len(left), 101)) and len(left) >= 5
    assert journal.bytes == sum(entry.size for entry in entries[-len(left) :])


@pytest.mark.parametrize("after", range(0, 14, 3))
def test_the_entries_after_a_number_are_those_that_are_left(after: int) -> None:
    """Whether that one is kept still, is gone, or is yet to come."""
    journal = Journal(bytes_max=5 * 500)
    for number in range(12):
        note(
            journal, "Heartbeat" if number % 3 else "LeaveGroup", 3, LeaveGroupRequest("g") if number % 3 == 0 else BEAT
        )
    kept = [number for number in range(1, 13) if number > journal.dropped]
    assert 2 < len(kept) < 7
    assert [entry.number for entry in journal.after(after)] == [number for number in kept if number > after]
    leaving = [entry.number for entry, _ in journal.entries(Filter(api="LeaveGroup", after=after))]
    assert leaving == [number for number in kept if number > after and number % 3 == 1]


def test_all_errors_of_a_response_are_named_each_once() -> None:
    codes = (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
    partitions = tuple(OffsetCommitResponsePartition(index, code) for index, code in enumerate(codes))
    topics = (
        OffsetCommitResponseTopic("t", partitions=partitions[:2]),
        OffsetCommitResponseTopic("u", partitions=partitions[2:]),
    )
    described = describe_entry(
        note(Journal(), "OffsetCommit", 8, OffsetCommitRequest("g"), OffsetCommitResponse(topics=topics))
    )
    assert described["errors"] == ["INVALID_COMMIT_OFFSET_SIZE", "UNKNOWN_MEMBER_ID"]


STEPS: Final = (*["request"] * 3, *["response"] * 3, "input", "input", "clear", "begin", "renew")


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([0, 1, 700, 3_001])), min_size=8, max_size=20))
def test_the_bytes_are_those_of_what_is_kept_and_within_the_bound(steps: list[tuple[str, int]]) -> None:
    """Whatever comes in whichever order: responses to requests that are gone, and inputs, which go as a whole."""
    journal, entries = Journal(bytes_max=1_200), list[Entry]()
    origin = Origin(0, seed=1, ids=0, is_empty=True, compat="", settings={}, topics={}, listeners=())
    for step, number in steps:
        if step == "request":
            entries.append(journal.note_request(0, CLIENT, note(Journal(), "Heartbeat", 4, BEAT).frame))
        elif step == "response" and entries and (entry := entries[-1 - number % min(len(entries), 4)]).response is None:
            journal.note_response(entry, bytes(number), 1_010)
        elif step == "input":
            for _ in range(1 + number % 9):
                journal.note_input(Kind.REAL, number)
        elif step == "renew":  # requests of the journal of before are answered later
            journal = Journal(bytes_max=1_200)
        elif step == "clear":
            journal.clear()
        elif step == "begin":
            journal.begin(origin)
        kept = [entry for entry, _ in journal.entries(Filter())]
        assert journal.bytes == sum(entry.size for entry in kept) + INPUT_BYTES * len(journal.inputs)
        assert journal.bytes <= journal.bytes_max or len(kept) <= 1, "one entry may be larger"
        assert INPUT_BYTES * len(journal.inputs) <= journal.bytes_max
        assert [entry.number for entry in kept] == [*range(journal.dropped + 1, journal.latest + 1)]
