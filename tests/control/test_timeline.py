"""The timeline of a group as data, as text and as a diagram."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.control import timeline
from coordinator.control.timeline import as_data, as_mermaid, as_text
from coordinator.core.events import Cause, Event

EVENTS = [
    (11, Event(1_000, "g", Cause.MEMBER_JOINED, "Empty", "PreparingRebalance", 1, member="a-0123456789abcdef", client_id="a")),
    (12, Event(11_003, "g", Cause.SESSION_EXPIRED, "Stable", "PreparingRebalance", 3, member="b-1", client_id="b",
               by="timer session", last_beat_ms=1_000, deadline_ms=11_000)),
    (13, Event(11_100, "g", Cause.MEMBER_LEFT, "Stable", "Stable", 3, instance="i;1", reason="bye\nbye\x9b\u202e")),
]  # fmt: skip


def test_text_has_a_line_an_event() -> None:
    assert as_text(EVENTS).splitlines() == [
        '#11    +0.000s  Empty -> PreparingRebalance (generation 1)  member joined: "a" (0123456789ab)',
        '#12    +10.003s  Stable -> PreparingRebalance (generation 3)  session expired: "b" (1), '
        "last heartbeat 10.003 s ago, limit 10.000 s (by timer session)",
        '#13    +10.100s  Stable (generation 3)  member left: "i;1", reason given: "bye\\nbye\\u009b\\u202e"',
    ]


def test_a_consumer_group_has_an_epoch_and_no_generation() -> None:
    event = Event(1_000, "g", Cause.ASSIGNMENT_COMPUTED, "Assigning", "Reconciling", 4, type="consumer")
    assert as_text([(7, event)]) == "#7     +0.000s  Assigning -> Reconciling (epoch 4)  assignment computed\n"
    assert "Note over G: Reconciling, epoch 4" in as_mermaid("g", [(7, event)])
    assert [one["type"] for one in as_data([(7, event), *EVENTS[:1]])] == ["consumer", "classic"]


def test_data_has_the_cause_with_its_member() -> None:
    first, expired, _ = as_data(EVENTS)
    assert (first["number"], first["from"], first["to"]) == (11, "Empty", "PreparingRebalance")
    assert expired["cause"]["kind"] == Cause.SESSION_EXPIRED.value
    assert expired["cause"]["member"] == "b-1"


def test_a_diagram_cannot_be_broken_by_names() -> None:
    lines = as_mermaid("g\n-->x: y", EVENTS).splitlines()
    assert lines[0] == "sequenceDiagram"
    assert lines[1] == "  participant G as g_--_x_ y"
    assert "  participant M3 as _i_1_" in lines
    assert "  M2->>G: session expired" in lines
    assert all(line.startswith("  ") for line in lines[1:])


@given(st.lists(st.sampled_from(("g", "h", "g\u00e4", "i")), max_size=14))
def test_the_groups_that_changed_last_are_shown_with_their_latest_events(groups: list[str]) -> None:
    events = [(number, Event(number * 500, group, Cause.MEMBER_LEFT, "Stable", "Empty", 1)) for number, group in enumerate(groups, 1)]  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timeline, "GROUPS_MAX", 3)
        patched.setattr(timeline, "EVENTS_MAX", 2)
        lines = list(timeline.format_timelines(events))
    last = sorted(set(groups), key=lambda group: max(at for at, one in enumerate(groups) if one == group))[-3:]
    expected = []
    for group in last:
        expected.append(f"muster: the timeline of group {group}")
        own = [number for number, one in enumerate(groups, 1) if one == group][-2:]
        expected += [f"#{number:<5} +{(number - own[0]) / 2:.3f}s" for number in own]
    assert [line.partition("  Stable")[0] for line in lines] == expected


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, " and 1 more"), (12, " and 4 more")])
def test_some_of_many_tasks_are_named(count: int, more: str) -> None:
    tasks = tuple(f"0_{number}" for number in range(count))
    event = Event(1, "g", Cause.TASKS_ASSIGNED, "", "", 1, member="m", records="", tasks=tasks)
    assert timeline.describe(event) == f'tasks assigned: "m": {", ".join(tasks[:8])}{more}'


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"records": "t-0 3-4"}, "lock expired: t-0 3-4"),
        ({"records": "t-0 3-4", "member": "m"}, 'lock expired: t-0 3-4, of "m"'),
        ({"last_beat_ms": 0, "deadline_ms": 900}, "lock expired, last heartbeat 1.000 s ago, limit 0.900 s"),
        ({"last_beat_ms": 900, "deadline_ms": -1}, "lock expired"),
        ({"protocol": "range", "reason": "so"}, 'lock expired, assignor range, reason given: "so"'),
        ({"member": "till", "client_id": "till"}, 'lock expired: "till"'),
    ],
)
def test_what_happened_is_said_in_one_sentence(fields: dict[str, Any], said: str) -> None:
    assert timeline.describe(Event(1_000, "g", Cause.LOCK_EXPIRED, "", "", 1, **fields)) == said
