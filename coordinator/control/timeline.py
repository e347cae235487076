"""The timeline of a group: its events, each with its cause, as data, as text, and as a Mermaid diagram."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from coordinator.control.printable import make_printable
from coordinator.core.dispatch import counts_by
from coordinator.core.events import Event

SHORT_ID: Final = 12  # characters of a generated member id that are shown behind its client id

TASKS_SHOWN: Final = 8  # of those that a member was given

GROUPS_MAX: Final = 20  # whose timelines are shown together: those in which something happened last
EVENTS_MAX: Final = 40  # of each of them, the latest

Numbered = tuple[int, Event]  # the number of an event, and the event


def as_data(events: Iterable[Numbered]) -> list[dict[str, Any]]:
    """Return one object an event, ready for JSON."""
    return [
        {
            "number": number,
            "at_ms": event.at_ms,
            "group": event.group,
            "type": event.type,
            "generation": event.generation,
            "counts_by": counts_by(event.type),
            "from": event.before,
            "to": event.after,
            "cause": {
                "kind": event.cause.value,
                "member": event.member,
                "client_id": event.client_id,
                "instance": event.instance,
                "by": event.by,
                **({"tasks": event.tasks} if event.tasks else {}),
                "detail": describe(event),
            },
            "members": event.members,
        }
        for number, event in events
    ]


def as_text(events: Iterable[Numbered]) -> str:
    """Return one line an event: its number, the time since the first one, what the group did, and why."""
    return "".join(line + "\n" for line in _lines(events))


def format_timelines(events: Iterable[Numbered]) -> Iterator[str]:
    """Yield the latest timelines of all groups, line by line. The group that changed last is the last one."""
    by_group: dict[str, deque[Numbered]] = {}
    for number, event in events:
        by_group[event.group] = by_group.pop(event.group, deque(maxlen=EVENTS_MAX))
        by_group[event.group].append((number, event))
    for group in list(by_group)[-GROUPS_MAX:]:
        yield f"muster: the timeline of group {make_printable(group)}"
        yield from map(make_printable, _lines(by_group[group]))


def _lines(events: Iterable[Numbered]) -> Iterator[str]:
    start_ms: int | None = None
    for number, event in events:
        start_ms = event.at_ms if start_ms is None else start_ms
        seconds = (event.at_ms - start_ms) / 1000
        what = f"{event.before} -> {event.after}" if event.before != event.after else event.after
        yield f"#{number:<5} +{seconds:.3f}s  {what} ({format_generation(event)})  {describe(event)}"


def format_generation(event: Event) -> str:
    """Return the number of the group's membership, by Kafka's name for it: a generation, or a group epoch (KIP-848)."""
    return f"{counts_by(event.type)} {event.generation}"


def describe(event: Event) -> str:
    """Return why the event happened, as one sentence without a full stop."""
    who = member_name(event)
    said = event.cause.value.replace("_", " ")
    text = f"{said}: {', of '.join(filter(None, (event.records, who)))}" if who or event.records else said
    if event.deadline_ms >= 0 and event.last_beat_ms >= 0:
        late, limit = (event.at_ms - event.last_beat_ms) / 1000, (event.deadline_ms - event.last_beat_ms) / 1000
        text += f", last heartbeat {late:.3f} s ago, limit {limit:.3f} s"
    if event.tasks:
        more = len(event.tasks) - TASKS_SHOWN
        text += f": {', '.join(event.tasks[:TASKS_SHOWN])}" + (f" and {more} more" if more > 0 else "")
    if event.protocol:
        text += f", assignor {event.protocol}"
    if event.reason:
        text += f", reason given: {_quote(event.reason)}"
    return f"{text} (by {event.by})" if event.by else text


def member_name(event: Event) -> str:
    """Return the name by which a person knows the member: its instance id, its client id with a part of its id."""
    if event.instance:
        return _quote(event.instance)
    if not event.member:
        return ""
    if event.client_id:
        rest = event.member.removeprefix(event.client_id).lstrip("-")
        return _quote(event.client_id) + (f" ({_quote(rest[:SHORT_ID])[1:-1]})" if rest else "")
    return _quote(event.member[:SHORT_ID])


def _quote(text: str) -> str:
    """Return a client's words in quotes, on one line."""
    return make_printable(json.dumps(text, ensure_ascii=False))


def as_mermaid(group: str, events: Iterable[Numbered]) -> str:
    """Return a sequence diagram in Mermaid's language."""
    lines = ["sequenceDiagram", f"  participant G as {_plain(group)}"]
    aliases: dict[str, str] = {}
    body = []
    for _, event in events:
        name = member_name(event)
        if name and name not in aliases:
            aliases[name] = f"M{len(aliases) + 1}"
            lines.append(f"  participant {aliases[name]} as {_plain(name)}")
        said = _plain(event.cause.value.replace("_", " "))
        if name:
            body.append(f"  {aliases[name]}->>G: {said}")
        else:
            body.append(f"  Note over G: {said}")
        if event.before != event.after:
            body.append(f"  Note over G: {event.after}, {format_generation(event)}")
    return "\n".join([*lines, *body]) + "\n"


def _plain(text: str) -> str:
    """Mermaid ends a statement at these characters; whatever a client put into its name stays one line."""
    return "".join(letter if letter.isalnum() or letter in " ._-()/" else "_" for letter in text)[:80] or "_"
