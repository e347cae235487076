"""Findings about clients, each from a journal that shows it and none from one that does not."""

from collections import Counter
from itertools import groupby
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.control.finding import Finding
from coordinator.control.journal import Filter, Journal
from coordinator.control.lint import DEAF_MIN, FETCHES_MAX, REJOINS_MAX, STALE_CODES, WINDOW_MS, lint
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
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


@pytest.mark.parametrize("gap_ms", [4_000, 4_001])
def test_two_thirds_of_a_session_are_not_too_late(gap_ms: int) -> None:
    journal = Journal()
    join(journal, 0)
    for at_ms in (100, 100 + gap_ms):
        beat(journal, at_ms)
    assert len(findings(journal)) == gap_ms - 4_000


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


class Did(NamedTuple):
    """What a client did, so long after the last time."""

    what: str
    after_ms: int
    code: str = "NONE"
    member: str = "m"
    session_ms: int = 6_000


CODES = st.sampled_from(("NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"))  # fmt: skip
TIMES = st.sampled_from((0, 300, 3_999, 4_000, 4_001, 4_300, 10_000))
DONE = st.one_of(
    st.builds(Did, st.just("join"), TIMES, st.just("NONE"), st.just("m"), st.sampled_from((6_000, 6_450, 60_000))),
    st.builds(Did, st.sampled_from(("beat", "beat", "epoch")), TIMES, CODES, st.sampled_from("mmn"), st.just(0)),
    st.builds(Did, st.sampled_from(("commit", "transaction")), TIMES, CODES, st.just("m"), st.just(0)),
)
CLIENTS = (("g", "a"), ("g", "b"), ("h", "a"), ("gruppe-\u00e4", ""))


def do(journal: Journal, did: Did, group: str, client: str, at_ms: int) -> None:
    code, member = ErrorCode[did.code], f"{did.member}-{client}"
    if did.what == "join":
        note(journal, "JoinGroup", 5, JoinGroupRequest(group, did.session_ms), at_ms=at_ms, client=client)
    elif did.what == "beat":
        answer = HeartbeatResponse(error_code=code)
        note(journal, "Heartbeat", 4, HeartbeatRequest(group, 3, member), answer, at_ms=at_ms, client=client)
    elif did.what == "epoch":
        beats, told = ConsumerGroupHeartbeatRequest(group, member, 3), ConsumerGroupHeartbeatResponse(error_code=code)
        note(journal, "ConsumerGroupHeartbeat", 1, beats, told, at_ms=at_ms, client=client)
    elif did.what == "commit":
        partitions = tuple(OffsetCommitResponsePartition(index, code * index) for index in (0, 1))
        topics = (OffsetCommitResponseTopic("t", partitions=partitions),)
        commits, answered = OffsetCommitRequest(group), OffsetCommitResponse(topics=topics)
        note(journal, "OffsetCommit", 8, commits, answered, at_ms=at_ms, client=client)
    else:
        each = (TxnOffsetCommitResponsePartition(0, code),)
        ended = TxnOffsetCommitResponse(topics=(TxnOffsetCommitResponseTopic("t", each),))
        note(journal, "TxnOffsetCommit", 3, TxnOffsetCommitRequest("x", group), ended, at_ms=at_ms, client=client)


def findings_of(group: str, client: str, done: list[tuple[int, Did]]) -> list[Finding]:
    """Return the findings that lint owes about one client, counted rule by rule."""
    found = []
    joins = [at_ms for at_ms, did in done if did.what == "join"]
    windows = [[at for at in joins if at_ms - WINDOW_MS <= at <= at_ms] for at_ms in joins]
    most, span_ms = max(((len(window), window[-1] - window[0]) for window in windows), default=(0, 0))
    if most > REJOINS_MAX:
        found.append(Finding("rejoin_storm", client, group, f"{most} JoinGroup requests in {span_ms / 1000:.1f} s"))
    stale = Counter(did.code for _, did in done if did.what in ("commit", "transaction") and did.code in STALE_CODES)
    found += [
        Finding("commit_after_revoke", client, group, f"{count} commit{'s' * (count > 1)} answered {code}")
        for code, count in stale.items()
    ]
    beats = [(at_ms, did) for at_ms, did in done if did.what in ("join", "beat")]
    gaps, session_ms = [], 0
    for (before_ms, before), (at_ms, did) in zip([(0, Did("join", 0)), *beats], beats, strict=False):
        session_ms = did.session_ms if did.what == "join" else session_ms
        if did.what == before.what == "beat" and session_ms:
            gaps.append(((at_ms - before_ms) / session_ms, at_ms - before_ms, session_ms))
    if gaps and max(gaps)[0] > 2 / 3:
        evidence = f"{max(gaps)[1]} ms between two heartbeats, session {max(gaps)[2]} ms"
        found.append(Finding("heartbeat_gap", client, group, evidence))
    answers = [did.code if did.what != "join" else "joins" for _, did in done if did.what in ("join", "beat", "epoch")]
    removed = [code in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH") for code in answers]
    streak = max((len(list(run)) for is_removed, run in groupby(removed) if is_removed), default=0)
    if streak >= DEAF_MIN:
        evidence = f"{streak} heartbeats in a row answered that it is no member, and no attempt to join again"
        found.append(Finding("heartbeats_after_removal", client, group, evidence))
    members = [did.member for _, did in done if did.what in ("beat", "epoch")]
    spans = [range(members.index(one), len(members) - members[::-1].index(one)) for one in set(members)]
    if client and len(spans) == 2 and max(span.start for span in spans) < min(span.stop for span in spans):
        found.append(Finding("duplicate_client_id", client, group, "2 members share the client id"))
    return found


@given(st.data())
@settings(max_examples=60)
def test_what_is_found_of_each_client_is_what_it_did_itself(data: st.DataObject) -> None:
    """Clients of some groups, whose requests come in between each other."""
    journal, done = Journal(), {key: list[tuple[int, Did]]() for key in CLIENTS}
    storms = data.draw(st.booleans())
    for key in data.draw(st.lists(st.sampled_from(CLIENTS), min_size=10, max_size=30)):
        did = data.draw(DONE)
        if storms and did.code == "NONE":
            did = Did("join", data.draw(st.sampled_from((0, 800, 1_000, 1_001))))
        for _ in range(4 if storms and did.what == "join" else data.draw(st.sampled_from((1, 1, 2, 3)))):
            at_ms = (done[key][-1][0] if done[key] else 0) + did.after_ms
            done[key].append((at_ms, did))
            do(journal, did, *key, at_ms)
    expected = [one for key, each in done.items() for one in findings_of(*key, each)]
    assert sorted(map(str, findings(journal))) == sorted(map(str, expected))
    rules = [(one.rule, one.group, one.client) for one in findings(journal)]
    assert rules == sorted(rules)


@pytest.mark.parametrize("count", [FETCHES_MAX, FETCHES_MAX + 1])
def test_each_client_floods_for_itself(count: int) -> None:
    journal = Journal()
    for at_ms in range(count):
        for client in "ab" if at_ms % 3 else "b":
            note(journal, "Fetch", 12, FetchRequest(), at_ms=at_ms * (WINDOW_MS // FETCHES_MAX), client=client)
    flood = Finding("fetch_flood", "b", "", f"{FETCHES_MAX + 1} Fetch requests in 10.0 s")
    assert findings(journal) == [flood] * (count > FETCHES_MAX)
