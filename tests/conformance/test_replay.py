"""Each story against a live Muster: it says what Apache Kafka said, field by field, or docs/differences.md says why not.

The stories of one server are played against one Muster, many at once, so that their waits overlap; each is a test of its
own. Stories that wait for minutes have a Muster each whose clock jumps (`indoors.py`). With `-k` only the chosen ones are played. What differs on a busy machine is played once more, on a Muster of its
own with nobody else about, and counts if it differs again.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.config import KNOBS, shown
from tests.conformance.compare import Difference, differences
from tests.conformance.listed import LISTED, PAGE
from tests.conformance.replay import replay, unlisted
from tests.conformance.servers import SERVERS
from tests.conformance.stage import Event
from tests.conformance.story import Story, tell_all

STORIES = tell_all()
Said = Callable[[Story], list[Event]]


def grouped(one: Story) -> Any:
    """A pytest parameter that keeps the stories of a server together when tests are spread over processes."""
    group = "conformance" if one.server == "plain" else "conformance of other servers"
    return pytest.param(one, id=f"{one.chapter}.{one.name}", marks=pytest.mark.xdist_group(group))


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest) -> Said:
    """What Muster says to a story. Plays all chosen stories of its server when first asked for one."""
    chosen = {one.name for item in request.session.items if (one := story_of(item))}
    heard: dict[str, list[Event]] = {}

    def ask(one: Story) -> list[Event]:
        if one.name not in heard:
            mine = [each for each in STORIES.values() if each.server == one.server and each.name in chosen]
            heard.update(replay(one.server, mine))
            heard.update(again([each for each in mine if unlisted(each, heard[each.name])]))
        return heard[one.name]

    return ask


def story_of(item: pytest.Item) -> Story | None:
    """The story that a collected test is about; None if it is about none."""
    callspec = getattr(item, "callspec", None)
    found = None if callspec is None else callspec.params.get("one")
    return found if isinstance(found, Story) else None


def again(stories: list[Story]) -> dict[str, list[Event]]:
    """A few stories once more, with little else going on; many that differ are no matter of a busy machine."""
    if not stories or len(stories) > 12:
        return {}
    return replay(stories[0].server, stories, at_once=4)


@pytest.mark.parametrize("one", [grouped(one) for one in STORIES.values()])
def test_muster_says_what_kafka_said(one: Story, said: Said) -> None:
    events = said(one)
    assert one.path.exists(), f"record it first: python -m tests.conformance.record --only {one.name}"
    found = unlisted(one, events)
    assert not found, f"{one.says}\n" + "\n".join(map(str, found))
    assert not unused(one, differences(one.transcript(), events)), (
        "docs/differences.md lists what does not differ any more"
    )


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
    found = re.findall(r"^\| `([a-z.]+)` \| (\w+) \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    assert found == [
        (knob.name, shown(knob.kafka_default), shown(knob.default)) for knob in KNOBS if knob.kafka_default is not None
    ]


def test_the_comparison_can_fail() -> None:
    """Another value, an event too few and one too many, an answer that is too late: each is a difference."""
    one = STORIES["a_static_member_bounces_and_keeps_its_partitions"]
    events = one.transcript()
    at = next(at for at, event in enumerate(events) if "answer" in event)
    other = {**events[at], "is": {**events[at]["is"], "error_code": "UNKNOWN_SERVER_ERROR"}}
    late = {**events[at], "after": events[at]["after"] + 2.5}
    assert unlisted(one, events) == []
    assert [found.event for found in unlisted(one, [*events[:at], other, *events[at + 1 :]])] == [at]
    assert [found.event for found in unlisted(one, [*events[:at], late, *events[at + 1 :]])] == [at]
    assert {found.event for found in unlisted(one, events[:-1])} == {len(events) - 1}
    assert {found.event for found in unlisted(one, [*events, events[-1]])} == {len(events)}


def test_a_row_that_no_longer_holds_is_noticed() -> None:
    """Kafka's own transcript differs in nothing, so every row of the story is one too many; others' rows are not its."""
    for row in LISTED:
        one = STORIES[row.story]
        assert unused(one, differences(one.transcript(), one.transcript())) == [
            each.place for each in LISTED if each.story == row.story
        ]
    story, other = LISTED[0].story, next(row.story for row in LISTED if row.story != LISTED[0].story)
    found = Difference(int(re.findall(r"\d+", LISTED[0].place)[0]), LISTED[0].place.partition(": ")[2], None, None)
    assert LISTED[0].covers(story, found)
    assert not LISTED[0].covers(other, found)
    assert not LISTED[0].covers(story, found._replace(event=found.event * 10 + 1))
