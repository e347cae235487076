"""What a test expects, compared with what has happened."""

from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.control import journal as journal_module
from coordinator.control.decoded import Decoder, Work
from coordinator.control.journal import Entry, Journal, JournalClient
from coordinator.control.names import SpecError
from coordinator.control.resets import PREFIXES_MAX, Mark, Resets
from coordinator.control.verify import Expectation, Verdict, find_difference, verify
from coordinator.control.verify import check as check_expectations
from coordinator.core.events import Cause, Event
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupRequest
from tests.control.frames import note, request_frame
from tests.requests import commit

EVENTS = [(1, Event(5_000, "g", Cause.SESSION_EXPIRED, "Stable", "PreparingRebalance", 3, client_id="b"))]


@pytest.fixture
def journal() -> Journal:
    journal = Journal()
    for at_ms, offset in ((1_000, 5), (2_000, 7)):
        request = commit("g", {"orders": {2: offset}})
        note(journal, "OffsetCommit", 8, request, OffsetCommitResponse(), at_ms=at_ms, client="a")
    refused = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    note(journal, "Heartbeat", 4, HeartbeatRequest(group_id="g"), refused, at_ms=6_000, client="a")
    return journal


def check(journal: Journal, *expected: dict[str, Any], in_order: bool = False, resets: Resets | None = None) -> Verdict:
    wanted = msgspec.convert(expected, list[Expectation])
    return verify(wanted, journal.after(0), EVENTS, in_order=in_order, resets=resets)


COMMIT = {"api": "OffsetCommit", "group": "g"}


@pytest.mark.parametrize(
    "expected",
    [
        COMMIT,
        {**COMMIT, "times": 2},
        {**COMMIT, "times": {"gte": 1, "lte": 3}},
        {**COMMIT, "topic": "orders", "client": "a"},
        {**COMMIT, "request": {"topics": [{"name": "orders", "partitions": [{"committed_offset": 7}]}]}, "times": 1},
        {**COMMIT, "request": {"topics": [{"partitions": [{"committed_offset": {"gte": 6}}]}]}, "times": 1},
        {"api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS", "response": {"error_code": 27}},
        {"event": "session_expired", "group": "g", "client": "b", "times": 1},
        {"event": "session_expired", "group": "h", "times": 0},
        {"api": "LeaveGroup", "times": 0},
    ],
)
def test_what_has_happened_agrees(journal: Journal, expected: dict[str, Any]) -> None:
    assert check(journal, expected) == Verdict(True)


def test_what_came_before_a_reset_does_not_count(journal: Journal) -> None:
    expired = {"event": "session_expired", "group": "g"}
    resets = Resets()
    resets.note("h", Mark(3, 1))
    assert check(journal, {**COMMIT, "times": 2}, {**expired, "times": 1}, resets=resets).ok, "another prefix"
    resets.note("g", Mark(1, 0))
    assert check(journal, {**COMMIT, "times": 1}, {**expired, "times": 1}, resets=resets).ok
    assert check(journal, {"api": "OffsetCommit", "times": 2}, resets=resets).ok, "it may be of any group"
    assert check(journal, {"api": "OffsetCommit", "topic": "orders", "times": 2}, resets=resets).ok
    resets.note("ord", Mark(1, 0))
    assert check(journal, {"api": "OffsetCommit", "topic": "orders", "times": 1}, resets=resets).ok
    resets.note("", Mark(2, 1))
    assert check(journal, {**COMMIT, "times": 0}, {**expired, "times": 0}, resets=resets).ok
    assert check(journal, {"api": "OffsetCommit", "times": 0}, {"api": "Heartbeat", "times": 1}, resets=resets).ok
    resets.note_new_journal()
    assert check(journal, {**COMMIT, "times": 2}, {**expired, "times": 0}, resets=resets).ok


def test_what_is_not_kept_any_more_may_have_counted(journal: Journal) -> None:
    """An expectation of none, or of no more than some, is not known to hold then."""
    entries, events = list(journal.after(0)), EVENTS

    def differences(expected: dict[str, Any], dropped: Mark, resets: Resets | None = None) -> list[str]:
        wanted = [msgspec.convert(expected, Expectation)]
        return verify(wanted, entries, events, resets=resets, dropped=dropped).differences

    never = {"api": "LeaveGroup", "times": 0}
    requests = "requests are gone: a larger journal.max.bytes keeps more"
    assert differences(never, Mark(1, 0)) == [f"LeaveGroup: expected 0, found 0, but {requests}"]
    assert differences(never, Mark(0, 7)) == []
    assert differences({**COMMIT, "times": {"gte": 2}}, Mark(1, 0)) == [], "there are enough, whatever is gone"
    assert differences({**COMMIT, "times": 3}, Mark(1, 0))[0].endswith(f"found 2, but {requests}")
    (events_gone,) = differences({"event": "member_left", "times": 0}, Mark(0, 1))
    assert events_gone.endswith("events are gone: the latest 10,000 are kept, within events.max.bytes")
    resets = Resets()
    resets.note("", Mark(1, 1))
    assert differences(never, Mark(1, 1), resets) == []
    assert differences({"event": "member_left", "times": 0}, Mark(1, 1), resets) == []


def test_the_resets_of_many_prefixes_are_bounded() -> None:
    resets = Resets()
    for number in range(PREFIXES_MAX + 1):
        resets.note(f"{number}-", Mark(number + 1))
    assert (resets.find("0-g"), resets.find("1-g")) == (Mark(), Mark(2))
    resets.note("1-", Mark(7))
    resets.note("new-", Mark(8))
    assert (resets.find("1-g"), resets.find("2-g")) == (Mark(7), Mark()), "the one whose reset is longest ago goes"


def test_a_difference_says_what_was_found_and_what_came_near(journal: Journal) -> None:
    verdict = check(journal, {**COMMIT, "client": "z", "times": 1})
    assert verdict.differences == [
        "OffsetCommit group=g client=z: expected 1, found 0; near miss #2: client is a; near miss #1: client is a"
    ]
    offset = {"topics": [{"name": "orders", "partitions": [{"committed_offset": 9}]}]}
    (difference,) = check(journal, {**COMMIT, "request": offset}).differences
    assert "near miss #2: request.topics has no element like the expected .topics[0]" in difference
    (difference,) = check(journal, {"event": "member_left"}).differences
    assert difference == (
        "event member_left: expected at least 1, found 0; there were session_expired 1 of the same group and client"
    )
    (difference,) = check(journal, {"event": "session_expired", "group": "h"}).differences
    assert difference.endswith("found 0; near miss: group is g, client is b")
    (difference,) = check(journal, {"api": "LeaveGroup", "group": "g"}).differences
    assert difference.endswith("; there were OffsetCommit 2, Heartbeat 1 of the same kind but for the API")
    (difference,) = check(journal, {"api": "LeaveGroup", "group": "h"}).differences
    assert difference.endswith("expected at least 1, found 0")


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        (
            {"api": "JoinGrup"},
            "invalid expect[1].api 'JoinGrup': expected Kafka's name of an API, such as OffsetCommit",
        ),
        ({"event": "session expired"}, "invalid expect[1].event 'session expired': expected the cause of an event, "),
        ({"error": "FENCED"}, "invalid expect[1].error 'FENCED': expected Kafka's name of an error, such as "),
        (
            {"request": {"topics": [{"partitions": [{"committed_offset": {"gte": "7"}}]}]}},
            "invalid expect[1].request.topics[0].partitions[0].committed_offset.gte '7': expected a number",
        ),
        (
            {"response": {"error_code": {"lt": None}}},
            "invalid expect[1].response.error_code.lt None: expected a number",
        ),
        ({"api": "Fetch", "times": -1}, "invalid expect[1].times -1: expected 0 or more"),
        (
            {"event": "session_expired", "topic": "t", "request": {"a": 1}},
            "invalid expect[1]: expected no topic and no request, which events do not have",
        ),
    ],
)
def test_what_nothing_could_agree_with_is_refused(expected: dict[str, Any], sentence: str) -> None:
    """A test that expects none of it would pass for ever."""
    with pytest.raises(SpecError) as refused:
        check_expectations(msgspec.convert([{"api": "Fetch"}, {"times": 0} | expected], list[Expectation]))
    assert str(refused.value).startswith(sentence)


def test_the_order_can_be_part_of_it(journal: Journal) -> None:
    expired, beat = {"event": "session_expired"}, {"api": "Heartbeat"}
    assert check(journal, COMMIT, expired, beat, in_order=True).ok
    verdict = check(journal, beat, expired, in_order=True)
    assert verdict.differences == ["event session_expired: expected after Heartbeat, found only before it"]


@given(st.lists(st.integers(0, 2), min_size=3, max_size=8), st.permutations(range(3)))
@settings(max_examples=300)
def test_an_order_holds_if_there_is_any_choice_of_requests_in_it(came: list[int], wanted: list[int]) -> None:
    """One request for each expectation, none of them earlier than the one before it."""
    apis, journal = ("Heartbeat", "LeaveGroup", "SyncGroup"), Journal()
    bodies = (HeartbeatRequest(group_id="g"), LeaveGroupRequest(group_id="g"), SyncGroupRequest(group_id="g"))
    for at, api in enumerate(came):
        note(journal, apis[api], 3, bodies[api], at_ms=at // 2)  # two of them at a time
    times = [[at // 2 for at, api in enumerate(came) if api == one] for one in wanted]
    is_in_order = any(list(chosen) == sorted(chosen) for chosen in product(*times))
    assert check(journal, *({"api": apis[one]} for one in wanted), in_order=True).ok == is_in_order


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, None),
        ({"a": 1}, {"a": 2}, ".a is 2"),
        ({"a": {"b": None}}, {"a": {}}, ".a.b is missing"),
        ([1, 2], [2, 3, 1], None),
        ([4], [1], " has no element like the expected [0]"),
        ({"gt": 1, "lt": 3}, 2, None),
        ({"gt": 2}, 2, " is 2"),
        ({"lt": 2}, 2, " is 2"),
        ({"lte": 2}, 2, None),
        ({"a": {}}, {"a": 1}, ".a is 1"),
        ([1], 1, " is 1"),
        ("x", "y" * 70, " is " + "y" * 57 + "..."),
    ],
)
def test_a_part_of_a_body(expected: Any, found: Any, difference: str | None) -> None:
    assert find_difference(expected, found) == difference


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the entries that are decoded, once for their requests and once for their responses."""
    numbers: list[int] = []
    for name in ("describe_request", "describe_response"):
        describe = getattr(journal_module, name)

        def note_number(entry: Entry, *args: Any, describe: Any = describe) -> Any:
            numbers.append(entry.number)
            return describe(entry, *args)

        monkeypatch.setattr(f"coordinator.control.decoded.{name}", note_number)
    return numbers


def test_what_no_expectation_asks_for_is_not_decoded(journal: Journal, decodings: list[int]) -> None:
    assert check(journal, {"api": "Heartbeat", "times": 1}, {"api": "JoinGroup", "times": 0}).ok
    assert decodings == []
    assert check(journal, {**COMMIT, "client": "a", "times": 2}, {**COMMIT, "topic": "orders"}).ok
    assert sorted(decodings) == [1, 2], "each request once, and no response"


def test_requests_that_differ_in_their_correlation_id_are_decoded_once(decodings: list[int]) -> None:
    journal, client = Journal(), JournalClient("/127.0.0.1", 50_000, 1)
    for number in range(20):
        frame = request_frame("Heartbeat", 4, HeartbeatRequest(group_id="g"), "a", number)
        entry = journal.note_request(number, client, frame)
        journal.note_response(entry, encode_response(12, 4, number, HeartbeatResponse()), number)
    assert check(journal, {"group": "g", "response": {"error_code": 0}, "times": 20}).ok
    assert decodings == [1, 1]


def test_verifications_may_share_what_they_decode(journal: Journal, decodings: list[int]) -> None:
    decoder, wanted = Decoder(), [msgspec.convert(COMMIT, Expectation)]
    for _ in range(4):
        assert verify(wanted, journal.after(0), (), decoder=decoder).ok
    assert sorted(decodings) == [1, 2]


@pytest.mark.parametrize(
    "expected",
    [
        [{"client": "nobody", "times": 0}] * 1_000,
        [{"event": "session_expired", "group": "h", "times": 0}] * 1_000,
        [{"api": "OffsetCommit", "request": {"topics": [{"partitions": [{"partition_index": 2}] * 400}]}}],
    ],
)
def test_what_would_take_too_long_is_refused(
    journal: Journal, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is compared counts: requests, events, and the fields of what is in them."""
    monkeypatch.setattr(Work.__init__, "__defaults__", (800,))
    with pytest.raises(SpecError, match="this verification takes too long"):
        check(journal, *expected)
