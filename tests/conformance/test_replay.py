"""Each story against Muster: it says what Apache Kafka said, field by field, or docs/differences.md says why not.

Each has a Muster of its own in this process, whose clock jumps to what happens next (`in_process.py`): it hangs neither
on the speed of the machine nor on other stories. `-m long` plays them over TCP too, in real time.
"""

import re
import signal
import subprocess
import time
from subprocess import PIPE

import pytest

from coordinator.config import SETTINGS
from coordinator.setting import format_value
from tests.conformance.compare import ABSENT, LATE_S, Difference, differences
from tests.conformance.kafka import stop
from tests.conformance.listed import LISTED, PAGE
from tests.conformance.messages import MESSAGES
from tests.conformance.normal import Normal
from tests.conformance.replay import replay, replay_over_tcp, unlisted
from tests.conformance.servers import ONLY_IN_PROCESS, SERVERS
from tests.conformance.stage import Event
from tests.conformance.story import Story, tell_all

STORIES = tell_all()


@pytest.mark.parametrize("one", [pytest.param(one, id=f"{one.chapter}.{one.name}") for one in STORIES.values()])
def test_muster_says_what_kafka_said(one: Story) -> None:
    assert one.path.exists(), f"record it first: python -m tests.conformance.record --only {one.name}"
    messages: set[str] = set()
    events = replay(one, messages)
    assert messages == MESSAGES.get(one.name, set()), "write them anew: python -m tests.conformance.messages"
    found = unlisted(one, events)
    assert not found, f"{one.says}\n" + "\n".join(map(str, found))
    gone = unused(one, differences(one.transcript(), events))
    assert not gone, f"docs/differences.md lists what does not differ any more: {gone}"


@pytest.mark.long
@pytest.mark.parametrize("server", [name for name in SERVERS if name not in ONLY_IN_PROCESS])
def test_muster_says_the_same_over_tcp(server: str) -> None:
    """What differs is played again with little else going on: in real time a busy machine is late. Waits are not compared."""
    left = [one for one in STORIES.values() if one.server == server]
    for at_once in (48, 4, 1):
        events = replay_over_tcp(server, left, at_once)
        left = [one for one in left if differs_but_in_time(one, events[one.name])]
    assert not left, [(one.name, unlisted(one, events[one.name])[0]) for one in left]


def differs_but_in_time(one: Story, events: list[Event]) -> bool:
    return any(not found.path.endswith(".after") for found in unlisted(one, events))


def unused(one: Story, found: list[Difference]) -> list[str]:
    """The listed places of the story at which nothing differs."""
    return [
        row.place for row in LISTED if row.story == one.name and not any(row.covers(one.name, each) for each in found)
    ]


def test_every_transcript_has_its_story() -> None:
    for one in STORIES.values():
        assert one.server in SERVERS
    kept = {path.stem for one in STORIES.values() for path in one.path.parent.glob("*.jsonl")}
    assert kept == set(STORIES)


def test_every_listed_difference_names_a_story() -> None:
    assert LISTED and {row.story for row in LISTED} <= set(STORIES)


def test_every_default_that_is_not_kafka_s_is_listed() -> None:
    """Name and both values, and no default that is Kafka's."""
    found = re.findall(r"^\| `([a-z.]+)` \| (-?[\w:/.,-]+) \| (-?[\w:/.,-]+) \|", PAGE.read_text(), re.MULTILINE)
    assert found == [
        (setting.name, format_value(setting.kafka_default), format_value(setting.default))
        for setting in SETTINGS
        if setting.kafka_default is not None
    ]


def test_the_comparison_can_fail() -> None:
    """Another value, an event too few and one too many, an answer that is too late: each is a difference."""
    one = STORIES["a_static_member_bounces_and_keeps_its_partitions"]
    events = one.transcript()
    at = next(at for at, event in enumerate(events) if "answer" in event)
    other = {**events[at], "is": {**events[at]["is"], "error_code": "UNKNOWN_SERVER_ERROR"}}
    late = {**events[at], "after": events[at]["after"] + LATE_S + 0.1}
    assert unlisted(one, events) == []
    assert [found.event for found in unlisted(one, [*events[:at], other, *events[at + 1 :]])] == [at]
    assert [found.event for found in unlisted(one, [*events[:at], late, *events[at + 1 :]])] == [at]
    assert {found.event for found in unlisted(one, events[:-1])} == {len(events) - 1}
    assert {found.event for found in unlisted(one, [*events, events[-1]])} == {len(events)}


def test_an_absent_field_is_not_null() -> None:
    """Neither null against nothing, nor an entry of a list, nor False against 0 passes for the same."""
    kafka: Event = {"on": "a", "answer": "heartbeat", "n": 1, "after": 0.0, "is": {"error_code": "NONE", "text": None}}
    without: Event = {**kafka, "is": {"error_code": "NONE"}}
    assert differences([kafka], [without]) == [Difference(0, "a.answer.heartbeat.is.text", None, ABSENT)]
    assert differences([without], [kafka]) == [Difference(0, "a.answer.heartbeat.is.text", ABSENT, None)]
    assert differences([{"pause": 0}], [{"pause": False}])


def test_a_row_that_no_longer_holds_is_noticed() -> None:
    """Kafka's own transcript differs in nothing, so every row of the story is one too many."""
    for row in LISTED:
        one = STORIES[row.story]
        assert unused(one, differences(one.transcript(), one.transcript())) == [
            each.place for each in LISTED if each.story == row.story
        ]


def test_a_row_covers_one_field_with_two_values() -> None:
    """Not another story, event, longer path, nor another value on either side."""
    for row in LISTED:
        event, path = re.fullmatch(r"event (\d+): (.*)", row.place, re.DOTALL).groups()
        found = Difference(int(event), path, row.kafka, row.here)
        assert row.covers(row.story, found)
        assert not row.covers("another", found)
        for other in (
            found._replace(event=found.event * 10 + 1),
            found._replace(path=path + "s"),
            found._replace(path=f"{path}.more"),
            found._replace(kafka=row.here),
            found._replace(here="UNKNOWN_SERVER_ERROR"),
        ):
            assert not row.covers(row.story, other), f"{row.place} covers {other}"


def test_another_answer_in_place_of_silence_is_a_difference() -> None:
    """A row that lets Muster answer where Kafka does not lets it give that answer alone."""
    one = STORIES["a_second_join_takes_the_place_of_the_first"]
    events = one.transcript()
    at = next(at for at, event in enumerate(events) if "silent" in event and event["on"] == "b")
    answer: Event = {"on": "b", "answer": "join_group", "n": events[at]["n"], "after": 0.0}
    meant = {
        "error_code": "REBALANCE_IN_PROGRESS",
        "protocol_name": None,
        "skip_assignment": False,
        "member_id": "b-<id-2>",
    }
    for fields, differing in ((meant, 0), ({**meant, "error_code": "UNKNOWN_SERVER_ERROR"}, 1)):
        found = unlisted(one, [*events[:at], {**answer, "is": fields}, *events[at + 1 :]])
        assert len(found) == differing


def test_lists_keep_their_order_unless_kafka_has_none() -> None:
    normal = Normal("", 9092)
    assert normal.values({"replica_nodes": [2, 1], "topics": ["b", "a"]}, "metadata") == {
        "replica_nodes": [2, 1],
        "topics": ["b", "a"],
    }
    assert normal.values({"members": ["b", "a"]}, "join_group") == {"members": ["a", "b"]}


def test_a_server_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conformance.kafka.STOP_S", 0.1)
    deaf = subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; while :; do read x; done"], stdin=PIPE, stdout=PIPE)
    with deaf:
        assert deaf.stdout is not None and deaf.stdout.readline()
        stop(deaf)
    assert deaf.returncode == -signal.SIGKILL


def test_only_a_time_of_these_minutes_is_now() -> None:
    now, normal = int(time.time() * 1000), Normal("", 9092)
    assert normal.values({"timestamp": now - 1000}) == {"timestamp": "<now>"}
    assert normal.values({"timestamp": now - 3_600_000}) == {"timestamp": now - 3_600_000}
