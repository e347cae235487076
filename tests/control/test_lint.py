"""Findings about clients, each from a journal that shows it and none from one that does not."""

import pytest

from coordinator.control.finding import Finding
from coordinator.control.journal import Filter, Journal
from coordinator.control.lint import lint
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.control.frames import note


def findings(journal: Journal) -> list[Finding]:
    return lint(entry for entry, _ in journal.entries(Filter()))


def join(journal: Journal, at_ms: int, session_ms: int = 6_000) -> None:
    note(journal, "JoinGroup", 5, JoinGroupRequest(group_id="g", session_timeout_ms=session_ms), at_ms=at_ms)


def beat(journal: Journal, at_ms: int, member: str = "m") -> None:
    note(journal, "Heartbeat", 4, HeartbeatRequest(group_id="g", member_id=member), at_ms=at_ms)


def test_a_rejoin_storm() -> None:
    journal = Journal()
    for at_ms in range(0, 1_100, 100):
        join(journal, at_ms)
    assert findings(journal) == [Finding("rejoin_storm", "c", "g", "11 JoinGroup requests in 1.0 s")]


def test_joins_that_are_far_apart_are_no_storm() -> None:
    journal = Journal()
    for at_ms in range(0, 20_000, 1_000):
        join(journal, at_ms)
    assert [finding.rule for finding in findings(journal)] == ["rejoin_storm"], "11 within ten seconds, just"
    journal = Journal()
    for at_ms in range(0, 40_000, 2_000):
        join(journal, at_ms)
    assert findings(journal) == []


def test_a_fetch_flood() -> None:
    journal = Journal()
    for at_ms in range(501):
        note(journal, "Fetch", 12, FetchRequest(), at_ms=at_ms)
    assert [finding.rule for finding in findings(journal)] == ["fetch_flood"]


def test_a_commit_after_its_partitions_were_revoked() -> None:
    journal = Journal()
    partition = OffsetCommitResponsePartition(error_code=ErrorCode.ILLEGAL_GENERATION)
    response = OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=(partition,)),))
    note(journal, "OffsetCommit", 8, OffsetCommitRequest(group_id="g"), response)
    note(journal, "OffsetCommit", 8, OffsetCommitRequest(group_id="g"), OffsetCommitResponse())
    found = [Finding("commit_after_revoke", "c", "g", "1 commit answered ILLEGAL_GENERATION")]
    assert findings(journal) == found
    in_transaction = TxnOffsetCommitResponsePartition(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    topics = (TxnOffsetCommitResponseTopic(name="t", partitions=(in_transaction,)),)
    asked = TxnOffsetCommitRequest("x", "h")
    note(journal, "TxnOffsetCommit", 3, asked, TxnOffsetCommitResponse(topics=topics), client="d")
    found.append(Finding("commit_after_revoke", "d", "h", "1 commit answered FENCED_MEMBER_EPOCH"))
    assert findings(journal) == found


def test_a_commit_that_is_answered_without_an_error_is_none() -> None:
    journal = Journal()
    note(journal, "OffsetCommit", 8, OffsetCommitRequest(group_id="g"), OffsetCommitResponse())
    note(journal, "TxnOffsetCommit", 3, TxnOffsetCommitRequest("x", "g"), TxnOffsetCommitResponse())
    assert findings(journal) == []


def test_heartbeats_that_are_nearly_too_late() -> None:
    journal = Journal()
    join(journal, 0)
    for at_ms in (1_000, 4_000, 8_500):
        beat(journal, at_ms)
    assert findings(journal) == [Finding("heartbeat_gap", "c", "g", "4500 ms between two heartbeats, session 6000 ms")]


def test_heartbeats_are_held_against_the_session_of_the_last_join() -> None:
    journal = Journal()
    join(journal, 0)
    join(journal, 100, session_ms=60_000)
    beat(journal, 1_000)
    beat(journal, 6_500)
    assert findings(journal) == []
    join(journal, 7_000, session_ms=6_000)
    assert findings(journal) == [], "what was in time stays so"
    beat(journal, 7_100)
    beat(journal, 11_200)
    assert findings(journal) == [Finding("heartbeat_gap", "c", "g", "4100 ms between two heartbeats, session 6000 ms")]


def test_the_time_before_a_member_joins_again_is_no_gap() -> None:
    journal = Journal()
    join(journal, 0)
    beat(journal, 1_000)
    join(journal, 7_000)
    for at_ms in (7_500, 9_000):
        beat(journal, at_ms)
    assert findings(journal) == []
    beat(journal, 14_000)
    assert findings(journal) == [Finding("heartbeat_gap", "c", "g", "5000 ms between two heartbeats, session 6000 ms")]


def test_two_members_with_one_client_id() -> None:
    journal = Journal()
    for member in ("m-1", "m-2", "m-1", "m-3", "m-3"):
        beat(journal, 0, member)
    assert findings(journal) == [Finding("duplicate_client_id", "c", "g", "2 members share the client id")]


@pytest.mark.parametrize("members", [("m-1", "m-1", "m-2", "m-2"), ("m-1", "m-2", "m-3")])
def test_a_client_that_was_restarted_is_one_client(members: tuple[str, ...]) -> None:
    journal = Journal()
    for member in members:
        beat(journal, 0, member)
    assert findings(journal) == []


def answer(journal: Journal, at_ms: int, code: ErrorCode) -> None:
    request = HeartbeatRequest(group_id="g", member_id="m", generation_id=3)
    note(journal, "Heartbeat", 4, request, HeartbeatResponse(error_code=code), at_ms=at_ms)


def test_a_member_that_was_removed_and_does_not_join_again() -> None:
    journal = Journal()
    join(journal, 0)
    for at_ms in (100, 200, 300):
        answer(journal, at_ms, ErrorCode.UNKNOWN_MEMBER_ID)
    assert findings(journal) == [
        Finding(
            "heartbeats_after_removal",
            "c",
            "g",
            "3 heartbeats in a row answered that it is no member, and no attempt to join again",
        )
    ]


def test_a_member_that_joins_again_or_is_one_again_is_none() -> None:
    journal = Journal()
    for at_ms in range(0, 3_000, 1_000):
        answer(journal, at_ms, ErrorCode.UNKNOWN_MEMBER_ID)
        answer(journal, at_ms + 100, ErrorCode.UNKNOWN_MEMBER_ID)
        join(journal, at_ms + 200)
    for at_ms in range(3_000, 9_000, 1_000):
        answer(journal, at_ms, ErrorCode.UNKNOWN_MEMBER_ID if at_ms % 2_000 else ErrorCode.NONE)
    assert "heartbeats_after_removal" not in {finding.rule for finding in findings(journal)}
