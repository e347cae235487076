"""The log's lines about groups: one a rebalance, with what began it, how long it took and how it ended."""

import logging
from typing import Any

from coordinator.cli import group_log
from coordinator.cli.group_log import GroupLog, shorten_id
from coordinator.core.events import Cause, Event

MEMBER = "till-3-030894c6-1b63-4f56-b931-ded91190ab35"


def event(at_ms: int, cause: Cause, before: str, after: str, **more: Any) -> Event:
    return Event(at_ms, more.pop("group", "shop"), cause, before, after, more.pop("generation", 4), **more)


def lines(*events: Event, is_debug: bool = False) -> list[tuple[int, str, dict[str, Any]]]:
    log = GroupLog()
    return [line for one in events for line in log.lines(one, is_debug=is_debug)]


EXPIRED = event(
    10_000, Cause.SESSION_EXPIRED, "Stable", "PreparingRebalance", generation=3, member=MEMBER, members=2,
    by="timer session", last_beat_ms=4_000, deadline_ms=10_000,
)  # fmt: skip
JOINED = event(11_000, Cause.ALL_MEMBERS_JOINED, "PreparingRebalance", "CompletingRebalance", members=2)
SYNCED = event(12_500, Cause.LEADER_SYNCED, "CompletingRebalance", "Stable", members=2)


def test_a_new_group_has_no_part_in_a_rebalance_that_a_reset_cut_off() -> None:
    created = event(20_000, Cause.GROUP_CREATED, "Empty", "Empty", generation=0)
    joined = event(20_001, Cause.MEMBER_JOINED, "Empty", "PreparingRebalance", generation=0, members=1)
    synced = event(20_002, Cause.LEADER_SYNCED, "CompletingRebalance", "Stable", generation=1, members=1)
    ((_, message, facts),) = lines(EXPIRED, created, joined, synced)
    assert (message, facts["took_s"]) == ("rebalanced: member joined", 0.0)


def test_a_rebalance_is_one_line_with_its_first_cause_and_its_duration() -> None:
    assert lines(EXPIRED, JOINED, SYNCED) == [
        (
            logging.INFO,
            "rebalanced: session expired",
            {
                "group": "shop", "state": "Stable", "generation": 4, "members": 2, "took_s": 2.5,
                "member": "till-3-030894c6", "by": "timer session", "last_heartbeat_s": 6.0,
            },
        )
    ]  # fmt: skip


def test_further_causes_are_named_once_and_steps_are_not() -> None:
    left = event(10_500, Cause.MEMBER_LEFT, "PreparingRebalance", "PreparingRebalance", member="b")
    (line,) = lines(EXPIRED, left, left, JOINED, SYNCED)
    assert line[2]["also"] == "member left"


def test_groups_do_not_share_a_rebalance() -> None:
    other = event(11_000, Cause.MEMBER_JOINED, "Empty", "Assigning", group="other", type="consumer")
    done = event(11_250, Cause.MEMBER_RECONCILED, "Reconciling", "Stable", group="other", type="consumer")
    assert [(line[2]["group"], line[1], line[2]["took_s"]) for line in lines(EXPIRED, other, done, SYNCED)] == [
        ("other", "rebalanced: member joined", 0.25),
        ("shop", "rebalanced: session expired", 2.5),
    ]


def test_what_happens_without_a_rebalance_is_a_line_unless_it_is_a_step() -> None:
    away = event(1, Cause.STATIC_MEMBER_AWAY, "Stable", "Stable", instance="till-3")
    step = event(2, Cause.MEMBER_RECONCILED, "Stable", "Stable")
    gone = event(3, Cause.GROUP_DELETED, "Empty", "Dead")
    assert [line[1] for line in lines(away, step, gone)] == ["static member away", "group deleted"]


def test_debug_has_a_line_for_every_event_with_whole_ids() -> None:
    told = lines(EXPIRED, JOINED, SYNCED, is_debug=True)
    assert [level for level, _, _ in told] == [logging.DEBUG] * 3 + [logging.INFO]
    assert told[0][2]["member"] == MEMBER
    assert (told[0][2]["state"], told[0][2]["late_s"]) == ("Stable -> PreparingRebalance", 0.0)


def test_rebalances_that_never_end_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(group_log, "OPEN_MAX", 2)
    log = GroupLog()
    for number in range(5):
        assert list(log.lines(event(1, Cause.MEMBER_JOINED, "Empty", "PreparingRebalance", group=str(number)))) == []
    assert len(log._open) == 2


def test_an_id_is_short_and_still_tells_members_apart() -> None:
    assert shorten_id(MEMBER) == "till-3-030894c6"
    assert shorten_id("030894c6-1b63-4f56-b931-ded91190ab35") == "030894c6"
    assert shorten_id("m-1") == "m-1"
    assert len(shorten_id("x" * 300)) == 40
