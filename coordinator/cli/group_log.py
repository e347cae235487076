"""Write one line to the server's log for each rebalance, when it has ended. Not a subcommand.

    group=shop message="rebalanced: session expired" state=Stable generation=4 members=2 took_s=3.02 member=till-3 ...

At the level debug every event has a line of its own. `/events` and `events.jsonl` have all of them in any case.
"""

import logging
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from coordinator.core.events import Cause, Event
from coordinator.core.kinds.registry import counts_by, is_settled

Line = tuple[int, str, dict[str, Any]]  # level, message, what else is known

OPEN_MAX: Final = 10_000  # rebalances at a time; the line of a further one lacks its beginning
STEPS: Final = frozenset(  # causes within a rebalance, which begin none
    {
        Cause.GROUP_CREATED, Cause.MEMBER_REJOINED, Cause.ALL_MEMBERS_JOINED, Cause.INITIAL_DELAY_PASSED,
        Cause.NO_MEMBER_LEFT, Cause.REBALANCE_TIMED_OUT, Cause.LEADER_SYNCED, Cause.ASSIGNMENT_COMPUTED,
        Cause.REVOCATION_AWAITED, Cause.PARTITIONS_REVOKED, Cause.MEMBER_RECONCILED,
        Cause.TASKS_ASSIGNED,
    }
)  # fmt: skip
_UUID: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
ID_LENGTH: Final = 40


class Rebalance(Struct):
    """A rebalance that has not ended: the event that began it, and the further causes."""

    began: Event
    further: list[Cause]


class GroupLog:
    """Turns events into lines of the log."""

    def __init__(self) -> None:
        self._open: dict[str, Rebalance] = {}

    def lines(self, event: Event, *, is_debug: bool = False) -> Iterator[Line]:
        """Yield the lines for an event: none for a step of a rebalance, unless `is_debug`."""
        if is_debug:
            yield logging.DEBUG, event.cause.words, dict(_event_facts(event))
        if event.cause is Cause.GROUP_CREATED:  # a reset of the server may have cut off a rebalance of another group
            self._open.pop(event.group, None)
        rebalance = self._open.get(event.group)
        if not is_settled(event.type, event.after):
            self._note(event, rebalance)
        elif rebalance is not None or event.before != event.after:
            self._open.pop(event.group, None)
            yield logging.INFO, *_describe(rebalance or Rebalance(event, []), event)
        elif event.cause not in STEPS:
            yield logging.INFO, event.cause.words, dict(_summary(event, event))

    def _note(self, event: Event, rebalance: Rebalance | None) -> None:
        if rebalance is None:
            if len(self._open) >= OPEN_MAX:
                del self._open[next(iter(self._open))]
            self._open[event.group] = Rebalance(event, [])
        elif event.cause not in STEPS and event.cause not in (rebalance.began.cause, *rebalance.further):
            rebalance.further.append(event.cause)


def _describe(rebalance: Rebalance, end: Event) -> tuple[str, dict[str, Any]]:
    began = rebalance.began
    facts = dict(_summary(began, end))
    if rebalance.further:
        facts["also"] = ", ".join(cause.words for cause in rebalance.further)
    if end.after == "Dead":
        return end.cause.words, facts
    return f"rebalanced: {began.cause.words}", facts


def _summary(began: Event, end: Event) -> Iterator[tuple[str, Any]]:
    """Yield the facts of a line: the group and its state at the end, and who or what began it."""
    yield "group", end.group
    yield "state", end.after
    yield counts_by(end.type), end.generation
    yield "members", end.members
    if end is not began:
        yield "took_s", round((end.at_ms - began.at_ms) / 1000, 2)
    if who := began.instance or shorten_id(began.member):
        yield "member", who
    yield from ((name, value) for name in ("by", "reason") if (value := getattr(began, name)))
    if began.last_beat_ms >= 0:
        yield "last_heartbeat_s", round((began.at_ms - began.last_beat_ms) / 1000, 1)


def _event_facts(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield all facts of an event, for the level debug: whole ids, and no empty fields."""
    yield "group", event.group
    yield "state", event.after if event.before == event.after else f"{event.before} -> {event.after}"
    yield counts_by(event.type), event.generation
    yield "members", event.members
    for name in ("member", "instance", "client_id", "protocol", "by", "reason"):
        if value := getattr(event, name):
            yield name, value
    if event.last_beat_ms >= 0:
        yield "last_heartbeat_s", round((event.at_ms - event.last_beat_ms) / 1000, 1)
        yield "late_s", round((event.at_ms - event.deadline_ms) / 1000, 3)


def shorten_id(member_id: str) -> str:
    """Return a member id with the UUID at its end cut to eight digits: enough to tell members apart."""
    short = _UUID.sub(r"\1", member_id)
    return short if len(short) <= ID_LENGTH else f"{short[: ID_LENGTH - 1]}…"
