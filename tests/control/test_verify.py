"""What a test expects, compared with what has happened."""

from collections import Counter
from itertools import combinations, product
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
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
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
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
    resets.note_new_journal(1)
    assert check(journal, {**COMMIT, "times": 0}, {**expired, "times": 0}, resets=resets).ok
    (resets := Resets()).note_new_journal(1)
    assert check(journal, {**COMMIT, "times": 1}, {**expired, "times": 1}, resets=resets).ok


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


@given(
    st.lists(
        st.none() | st.tuples(st.sampled_from(("", "a", "a-b", "b")), st.sampled_from(((), ("a-",), ("a-b", "b")))),
        max_size=6,
    ),
    st.sampled_from(("", "a", "a-b-c", "b")),
)
def test_the_last_reset_that_concerns_a_name_counts(done: list[tuple[str, tuple[str, ...]] | None], name: str) -> None:
    """No name is concerned by all but some, or by some: it may be of one that was kept."""
    resets, request, event = Resets(), 0, 0
    for number, reset in enumerate(done, 1):
        if reset is None:
            resets.note_new_journal(number)
            request = number
        else:
            prefix, keep = reset
            resets.note(prefix, Mark(number, 10 * number), keep)
            is_kept = any(name.startswith(one) for one in keep) if name else bool(prefix or keep)
            if name.startswith(prefix) and not is_kept:
                request, event = number, 10 * number
    assert resets.find(name) == Mark(request, event)


def test_a_reset_may_be_noted_while_a_thread_looks_for_one() -> None:
    resets, prefixes = Resets(), iter("abc")
    resets.note("", Mark(1, 1))
    resets.note("g", Mark(2, 2))

    class Name(str):
        __slots__ = ()

        def startswith(self, *beginnings: Any) -> bool:  # type: ignore[override]  # of two numbers nobody makes use
            resets.note(next(prefixes), Mark(3, 3))
            return str.startswith(self, *beginnings)

    assert resets.find(Name("g-1")) == Mark(2, 2)


def test_the_resets_of_many_prefixes_are_bounded() -> None:
    resets = Resets()
    for number in range(PREFIXES_MAX + 1):
        resets.note(f"{number}-", Mark(number + 1))
    assert (resets.find("0-g"), resets.find("1-g")) == (Mark(), Mark(2))
    resets.note("1-", Mark(7))
    resets.note("new-", Mark(8))
    assert (resets.find("1-g"), resets.find("2-g")) == (Mark(7), Mark()), "the one whose reset is longest ago goes"
    resets.note("", Mark(9), tuple([f"kept-{number}" for number in range(PREFIXES_MAX)]))
    assert (resets.find("new-g"), resets.find("kept-7")) == (Mark(9), Mark()), "what is kept counts as well"
    resets.note("", Mark(10))
    resets.note("1-", Mark(11))
    assert (resets.find("1-g"), resets.find("2-g")) == (Mark(11), Mark(10))


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


@given(
    st.lists(st.integers(0, 2), max_size=7),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
    st.sampled_from([1, 2, 100]),
)
@settings(max_examples=500)
def test_an_order_holds_if_there_is_any_choice_in_it(came: list[int], wanted: list[int], at_a_time: int) -> None:
    """One request or event for each expectation, each after the one before it. With all at one time: the clock is
    frozen."""
    apis, journal, events = ("Heartbeat", "LeaveGroup"), Journal(), list[tuple[int, Event]]()
    bodies = (HeartbeatRequest(group_id="g"), LeaveGroupRequest(group_id="g"))
    for at, what in enumerate(came):
        if what == 2:
            events.append((at + 1, Event(at // at_a_time, "g", Cause.SESSION_EXPIRED, "Stable", "Empty", 3)))
        else:
            note(journal, apis[what], 3, bodies[what], at_ms=at // at_a_time)

    def is_in_order(chosen: tuple[int, ...]) -> bool:
        return all(
            one // at_a_time <= other // at_a_time and (one < other or (came[one] == 2) != (came[other] == 2))
            for one, other in combinations(chosen, 2)
        )

    expected = [{"event": "session_expired"} if what == 2 else {"api": apis[what]} for what in wanted]
    places = [[at for at, what in enumerate(came) if what == one] for one in wanted]
    verdict = verify(msgspec.convert(expected, list[Expectation]), journal.after(0), events, in_order=True)
    assert verdict.ok == any(map(is_in_order, product(*places)))


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


def test_requests_of_two_versions_are_not_alike() -> None:
    """The same bytes of another version say something else."""
    journal, client = Journal(), JournalClient("/127.0.0.1", 50_000, 1)
    frames = [request_frame("LeaveGroup", version, LeaveGroupRequest(group_id="g"), "a") for version in (0, 1)]
    assert frames[0][4:] == frames[1][4:]
    for frame in frames:
        answer = bytes(4) + frame[4:8] + b"\0\x19\0\0\0\x1b"
        journal.note_response(journal.note_request(1, client, frame), answer, 1)
    older, newer = Decoder().take(journal.after(0), Work())
    assert (older.errors, newer.errors) == (["UNKNOWN_MEMBER_ID"], ["REBALANCE_IN_PROGRESS"])


def test_verifications_may_share_what_they_decode(journal: Journal, decodings: list[int]) -> None:
    decoder, wanted = Decoder(), [msgspec.convert(COMMIT, Expectation)]
    for _ in range(4):
        assert verify(wanted, journal.after(0), (), decoder=decoder).ok
    assert sorted(decodings) == [1, 2]


def test_verifications_that_share_what_they_decode_see_what_came_in_between(journal: Journal) -> None:
    """A response that has come, and another journal, whose requests have the same numbers."""
    decoder = Decoder()

    def count(journal: Journal, **expected: Any) -> str:
        wanted = [msgspec.convert({"times": 0} | expected, Expectation)]
        (difference,) = verify(wanted, journal.after(0), (), decoder=decoder).differences or [""]
        return difference.partition(";")[0]

    parked = note(journal, "SyncGroup", 3, SyncGroupRequest(group_id="g"))
    assert count(journal, error="UNKNOWN_MEMBER_ID") == count(journal, response={"error_code": 25}) == ""
    refusal = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    journal.note_response(parked, encode_response(14, 3, 7, SyncGroupResponse(error_code=25)), 7_000)
    assert count(journal, error="UNKNOWN_MEMBER_ID").endswith("expected 0, found 1")
    assert count(journal, response={"error_code": 25}).endswith("expected 0, found 1")
    another = Journal()
    note(another, "Heartbeat", 4, HeartbeatRequest(group_id="h"), refusal)
    assert count(another, group="h", error="UNKNOWN_MEMBER_ID").endswith("expected 0, found 1")
    assert count(another, group="g") == ""


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
RANGES = st.dictionaries(st.sampled_from(("gte", "lte", "gt", "lt")), st.integers(0, 3), min_size=1)


@st.composite
def parts_of(draw: st.DrawFn, found: Any) -> Any:
    """What a test may say of a body: a part of it, in another order, with a value here and there that is not its own."""
    if draw(st.integers(0, 9)) == 0:
        return draw(JSON)
    if isinstance(found, dict):
        names = [name for name in found if draw(st.integers(0, 3))]
        return {name: draw(parts_of(found[name])) for name in names} | (
            {"z": 1} if draw(st.integers(0, 9)) == 0 else {}
        )
    if isinstance(found, list):
        return [draw(parts_of(one)) for one in draw(st.permutations(found)) if draw(st.integers(0, 3))]
    if isinstance(found, int) and draw(st.booleans()):
        return draw(RANGES)
    return found


def is_part(expected: Any, found: Any) -> bool:
    match expected:
        case dict() if expected and not expected.keys() - {"gte", "lte", "gt", "lt"} and isinstance(found, int):
            within = {"gte": int.__ge__, "lte": int.__le__, "gt": int.__gt__, "lt": int.__lt__}
            return all(within[name](found, bound) for name, bound in expected.items())
        case dict():
            return isinstance(found, dict) and all(n in found and is_part(v, found[n]) for n, v in expected.items())
        case list():
            return isinstance(found, list) and all(any(is_part(one, item) for item in found) for one in expected)
    return bool(expected == found)


@given(JSON.flatmap(lambda found: st.tuples(st.just(found), parts_of(found))))
@settings(max_examples=150)
def test_a_difference_is_found_where_a_body_has_no_such_part(pair: tuple[Any, Any]) -> None:
    found, expected = pair
    assert (find_difference(expected, found) is None) == is_part(expected, found)


class Fact(NamedTuple):
    """A request as a test speaks of it; an error in its response, None if it has none yet."""

    api: str
    group: str
    topic: str
    client: str
    member: str
    error: str | None


FACTS = st.builds(
    Fact,
    api=st.sampled_from(("OffsetCommit", "Heartbeat", "SyncGroup")),
    group=st.sampled_from(("g", "gruppe-ä")),
    topic=st.sampled_from(("orders", "payments")),
    client=st.sampled_from(("till", "tills")),
    member=st.sampled_from(("m-1", "m-2")),
    error=st.sampled_from(("NONE", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", None)),
).map(lambda fact: fact if fact.api == "OffsetCommit" else fact._replace(topic=""))


def note_fact(journal: Journal, fact: Fact) -> None:
    code = None if fact.error is None else ErrorCode[fact.error]
    body: Any
    response: Any
    if fact.api == "OffsetCommit":
        body = commit(fact.group, {fact.topic: {0: 5, 1: 5}}, 3, member_id=fact.member)
        partitions = tuple(OffsetCommitResponsePartition(index, code or 0) for index in (0, 1))
        response = OffsetCommitResponse(topics=(OffsetCommitResponseTopic(fact.topic, partitions=partitions),))
    elif fact.api == "Heartbeat":
        body, response = HeartbeatRequest(fact.group, 3, fact.member), HeartbeatResponse(error_code=code or 0)
    else:
        body = SyncGroupRequest(fact.group, 3, fact.member)
        response = SyncGroupResponse(error_code=code or 0)
    version = {"OffsetCommit": 8, "Heartbeat": 4, "SyncGroup": 3}[fact.api]
    note(journal, fact.api, version, body, None if code is None else response, client=fact.client)


def find_faults(wanted: dict[str, str], fact: Fact) -> list[str]:
    """The fields in which a request is not what is wanted, with what they are."""
    faults = []
    for name, value in wanted.items():
        if name == "client":
            if value not in (fact.client, fact.member):
                faults.append(f"client is {fact.client}")
        elif name == "error":
            error = "none" if fact.error in (None, "NONE") else fact.error
            if value != error:
                faults.append(f"error is {error}")
        elif value != getattr(fact, name):
            faults.append(f"{name} is {getattr(fact, name) or 'none'}")
    return faults


WANTED = st.fixed_dictionaries(
    {},
    optional={
        "api": st.sampled_from(("OffsetCommit", "Heartbeat", "SyncGroup", "LeaveGroup")),
        "group": st.sampled_from(("g", "gruppe-ä")),
        "topic": st.sampled_from(("orders", "payments")),
        "client": st.sampled_from(("till", "tills", "m-1", "m-2")),
        "error": st.sampled_from(("UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS")),
    },
).map(lambda wanted: {name: wanted[name] for name in Expectation.__struct_fields__ if name in wanted})
TIMES = st.integers(0, 4) | st.builds(lambda gte, more: {"gte": gte} | more, st.integers(0, 3), st.sampled_from(({}, {"lte": 3})))  # fmt: skip


@given(st.lists(FACTS, max_size=8), WANTED, TIMES, st.integers(0, 4))
@settings(max_examples=120)
def test_requests_are_counted_and_the_nearest_are_named(
    facts: list[Fact], wanted: dict[str, str], times: Any, reset: int
) -> None:
    journal, resets = Journal(), Resets()
    for number, fact in enumerate(facts, 1):
        note_fact(journal, fact)
        if number == reset:
            resets.note(wanted.get("group", wanted.get("topic", "")), Mark(number))
    judged = [(find_faults(wanted, fact), number, fact) for number, fact in enumerate(facts, 1)]
    judged = judged[reset if reset <= len(facts) else 0 :]
    count = sum(not faults for faults, *_ in judged)
    verdict = check(journal, {**wanted, "times": times}, resets=resets)
    least, most = (times, times) if isinstance(times, int) else (times["gte"], times.get("lte", len(facts)))
    assert verdict.ok == (least <= count <= most)
    if not verdict.ok:
        (difference,) = verdict.differences
        said, _, misses = difference.partition(f", found {count}")
        bounds = f"{least}" if least == most else f"{least} to {most}" if "lte" in times else f"at least {least}"
        fields = "".join(f" {name}={value}" for name, value in wanted.items() if name != "api")
        assert said == f"{wanted.get('api', 'any request')}{fields}: expected {bounds}"
        near = [miss for miss in judged if miss[0] and "api" not in {fault.partition(" ")[0] for fault in miss[0]}]
        near = sorted(near, key=lambda miss: (len(miss[0]), -miss[1]))[:3]
        if near:
            assert misses == "".join(f"; near miss #{number}: {', '.join(faults)}" for faults, number, _ in near)
        elif "api" in wanted:
            others = Counter(fact.api for faults, _, fact in judged if len(faults) == 1)
            shown = ", ".join(f"{api} {number}" for api, number in others.most_common())
            assert misses == (f"; there were {shown} of the same kind but for the API" if others else "")


CAUSES = st.sampled_from(("tasks_assigned", "tasks_assigned", "session_expired", "member_left"))
HAPPENED = st.tuples(
    CAUSES,
    st.sampled_from("gh"),
    st.sampled_from(("till", "tills", "")),
    st.sampled_from(("m-1", "m-2")),
    st.sampled_from((None, "i")),
    st.lists(st.sampled_from(("0_0", "0_1")), unique=True).map(tuple),
)


SAME_TASK_OF_ANOTHER_GROUP = [
    ("tasks_assigned", group, client, member, None, ("0_0",))
    for group, client, member in (("g", "till", "m-1"), ("h", "tills", "m-2"), ("g", "", "m-3"))
]


@example(SAME_TASK_OF_ANOTHER_GROUP, "tasks_assigned", "g", "", "0_0", "till", 0)
@given(
    st.lists(HAPPENED, max_size=8),
    CAUSES,
    st.sampled_from(("", "g", "h")),
    st.sampled_from(("", "", "till", "m-1", "i")),
    st.sampled_from(("0_0", "0_0", "")),
    st.sampled_from(("till", "tills", "m-2", "")),
    st.integers(0, 3),
)
@settings(max_examples=120)
def test_events_are_counted_by_their_group_member_and_task(
    happened: list[Any], cause: str, group: str, client: str, task: str, source: str, reset: int
) -> None:
    events, holders, expected = [], dict[tuple[str, str], tuple[str, str]](), 0
    for number, (kind, of, client_id, member, instance, given_tasks) in enumerate(happened, 1):
        tasks = given_tasks if kind == "tasks_assigned" else ()
        events.append((number, Event(number, of, Cause(kind), "", "", 1, member=member, instance=instance, client_id=client_id, tasks=tasks)))  # fmt: skip
        agrees = kind == cause and group in ("", of) and client in ("", client_id, member, instance)
        if task and cause == "tasks_assigned":
            agrees = agrees and task in tasks and (not source or source in holders.get((of, task), ()))
        expected += agrees and number > reset
        holders |= {(of, one): (client_id, member) for one in tasks}
    wanted = {"event": cause, "group": group, "client": client, "times": expected}
    if cause == "tasks_assigned":
        wanted |= {"task": task, "from": source if task else ""}
    resets = Resets()
    resets.note(group, Mark(0, reset))
    expectations = msgspec.convert([wanted, {**wanted, "times": expected + 1}], list[Expectation])
    (difference,) = verify(expectations, (), events, resets=resets).differences
    assert f"expected {expected + 1}, found {expected}" in difference
