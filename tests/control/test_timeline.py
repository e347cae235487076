"""The timeline of a group as data, as text and as a diagram."""

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
