"""The timeline of a group as its log tells it: the inferred rebalances as data, as text, and as a Mermaid diagram.

The forms are those of `coordinator.control.timeline`, which has the exact causes of a running Muster; each line here
says that its cause is inferred, and whether the log can tell it for certain.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from coordinator.control.printable import format_span, make_printable
from coordinator.core.dispatch import counts_by
from pipeline.history.live import MemberName
from pipeline.history.records import Rebalance

Naming = Callable[[str, str], MemberName]  # group, member id

WORDS: Final[Mapping[str, str]] = {
    "join": "member joined",
    "leave": "member left",
    "timeout": "session expired",
    "leave_or_timeout": "member left or its session expired",
    "static_rejoin": "static member returned",
    "static_rejoin_or_join": "static member returned, or joined after it was removed",
    "subscription_change": "subscription changed",
    "partition_count_change": "topics changed",
    "partitions_initialized": "partitions may be assigned, as their states are initialized",
    "topic_found": "topic new to the leader",
    "cooperative_handover": "partitions handed over",
    "assignor_change": "assignor changed",
    "migrated": "protocol changed",
    "emptied": "group empty",
    "deleted": "group deleted",
    "unknown": "cause not known",
}
UNCERTAIN: Final = frozenset({"leave_or_timeout", "static_rejoin_or_join", "unknown"})
UNUSUAL: Final = 2  # times the interval between commits: gaps that are worth a word
NAMED_MAX: Final = 5  # topics in a line
GAP_LENGTH: Final = 60  # of the names of partitions in a line
_OF_TOPICS: Final = frozenset({"partition_count_change", "topic_found"})
_OF_LEFT: Final = frozenset({"leave", "timeout", "leave_or_timeout"})
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[A-Za-z0-9_-]{22}\Z")


def as_data(rebalances: Iterable[Rebalance], naming: Naming) -> list[dict[str, Any]]:
    """Return one object a rebalance, ready for JSON: the fields of an event, and what only the log has."""
    return [_as_event(one, naming) for one in rebalances]


def _as_event(one: Rebalance, naming: Naming) -> dict[str, Any]:
    who = next(iter(one.left if one.causes[0] in _OF_LEFT else one.joined), "")
    name = naming(one.group, who)
    return {
        "number": one.log_offset,
        "at_ms": one.at_ms,
        "group": one.group,
        "type": one.type,
        "counts_by": counts_by(one.type),
        "generation": one.generation,
        "from": "Empty" if not one.members_before else "Stable",
        "to": state_after(one),
        "cause": {
            "kind": one.causes[0],
            "member": who,
            "client_id": name.client_id,
            "instance": name.instance_id,
            "by": "",
            "detail": describe(one, naming),
        },
        "members": one.members_after,
        "source": one.cause_source,
        "certain": is_certain(one),
        "causes": one.causes,
        "joined": one.joined,
        "left": one.left,
        "partitions_moved": one.partitions_moved,
        "sync_ms": one.sync_ms,
        "commit_gap_ms": one.commit_gap_ms,
        "commit_gap_partitions": one.commit_gap_partitions,
        "commit_interval_ms": one.commit_interval_ms,
    }


def is_certain(one: Rebalance) -> bool:
    """Return whether the log tells all causes of the rebalance."""
    return UNCERTAIN.isdisjoint(one.causes)


def state_after(one: Rebalance) -> str:
    """Return the group's state after it, by Kafka's names."""
    if "deleted" in one.causes:
        return "Dead"
    return "Stable" if one.members_after else "Empty"


def as_line(one: Rebalance, naming: Naming, start_ms: int) -> str:
    """Return a line: the offset of the record, the time since the first one and that of day, the state, and why."""
    seconds = (one.at_ms - start_ms) / 1000
    told = f"{format_state(one)}  {describe(one, naming)} [{format_mark(one)}]"
    return f"#{one.log_offset:<7} +{seconds:.3f}s  {format_clock(one.at_ms)}  {told}"


def format_state(one: Rebalance) -> str:
    """Return the state after it, with the generation or the epoch if there is one."""
    number = "" if one.generation is None else f" ({format_generation(one)})"
    return f"{state_after(one)}{number}"


def format_generation(one: Rebalance) -> str:
    """Return the number of the group's membership, by Kafka's name for it."""
    return f"{counts_by(one.type)} {one.generation}"


def format_mark(one: Rebalance) -> str:
    """Return how far the causes can be relied on."""
    return "inferred" if is_certain(one) else "inferred, not certain"


def describe(one: Rebalance, naming: Naming) -> str:
    """Return why the group rebalanced, in words: each cause with its members, and what it cost."""
    parts = [_describe_cause(cause, one, naming) for cause in one.causes]
    facts = [f"{one.members_before} -> {one.members_after} members"]
    if one.partitions_moved:
        what = "task" if one.type == "streams" else "partition"
        facts.append(f"{_count(one.partitions_moved, what)} moved")
    if gap := describe_gap(one.commit_gap_ms, one.commit_gap_partitions, one.commit_interval_ms):
        facts.append(gap)
    return f"{'; '.join(parts)} ({', '.join(facts)})"


def _describe_cause(cause: str, one: Rebalance, naming: Naming) -> str:
    words = WORDS.get(cause, cause.replace("_", " "))
    if cause in _OF_TOPICS and (topics := _names_in_detail(one, "topics")):
        return f"{words}: {', '.join(map(_quote, topics[:NAMED_MAX]))}"
    ids = one.joined if cause == "join" else one.left if cause in _OF_LEFT else []
    if cause.startswith("static_rejoin"):
        ids = _names_in_detail(one, "returned")
    names = ", ".join(format_name(member, naming(one.group, member)) for member in ids)
    return f"{words}: {names}" if names else words


def _names_in_detail(one: Rebalance, name: str) -> list[str]:
    """Return what the detail lists at its end under a name; nothing if it does not."""
    _, found, listed = one.cause_detail.rpartition(f"{name}: ")
    return listed.split(", ") if found else []


def format_name(member_id: str, name: MemberName) -> str:
    """Return the name by which a person knows the member: its instance id, or its client id with a part of its id."""
    if name.instance_id:
        return _quote(name.instance_id)
    found = _UUID.search(member_id)
    short = found[0][:8] if found else member_id[-12:]
    return f"{_quote(name.client_id)} ({make_printable(short)})" if name.client_id else _quote(short)


def describe_gap(gap_ms: int | None, partitions: str | None, interval_ms: int | None) -> str:
    """Return how long partitions that changed hands had no commit; nothing if it was hardly longer than usual."""
    if gap_ms is None or gap_ms < UNUSUAL * (interval_ms or 0):
        return ""
    usual = f", usually {interval_ms / 1000:.1f} s" if interval_ms else ""
    names = make_printable(partitions or "")
    names = names if len(names) <= GAP_LENGTH else f"{names[: GAP_LENGTH - 1]}…"
    return f"{names} {gap_ms / 1000:.1f} s without a commit{usual}"


def _quote(text: str) -> str:
    return make_printable(json.dumps(text, ensure_ascii=False))


def summarize(group: str, rebalances: list[Rebalance], naming: Naming) -> str:
    """Return in one line how often the group rebalanced, and the most frequent cause and member."""
    if not rebalances:
        return f"{make_printable(group)}: no rebalance in what was read"
    span_s = (rebalances[-1].at_ms - rebalances[0].at_ms) / 1000
    causes, members = Counter[str](), Counter[str]()
    for one in rebalances:
        causes.update(one.causes)
        members.update({_person(naming(group, m)) for m in [*one.joined, *one.left]} - {""})
    cause, times = causes.most_common(1)[0]
    first, last = format_second(rebalances[0].at_ms), format_second(rebalances[-1].at_ms)
    when = f"{first} to {last if last[:10] != first[:10] else last[11:]}"
    text = f"{make_printable(group)}: {_count(len(rebalances), 'rebalance')} in {format_span(span_s)}, {when}"
    if len(rebalances) > 1:
        text += f"; most often ({times}): {WORDS.get(cause, cause)}"
        if members and members.most_common(1)[0][1] > 1:
            who, often = members.most_common(1)[0]
            text += f"; {who} came or went in {often} of them"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _person(name: MemberName) -> str:
    """Return what stays the same when a process starts again: its instance id or its client id, and which it is."""
    if name.instance_id:
        return f"instance {_quote(name.instance_id)}"
    return f"client id {_quote(name.client_id)}" if name.client_id else ""


def format_time(ms: int) -> str:
    """Return a time in ms as UTC."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def format_second(ms: int) -> str:
    """Return a time in ms as UTC, to the second."""
    return f"{format_time(ms)[:19]}Z"


def format_clock(ms: int) -> str:
    """Return the time of day of a time in ms, in UTC, to the second."""
    return format_second(ms)[11:]


def as_mermaid(group: str, rebalances: Iterable[Rebalance], naming: Naming) -> str:
    """Return a sequence diagram in Mermaid's language."""
    return "\n".join(_mermaid(group, list(rebalances), naming)) + "\n"


def _mermaid(group: str, rebalances: list[Rebalance], naming: Naming) -> Iterator[str]:
    yield "sequenceDiagram"
    yield f"  participant G as {_plain(group)}"
    aliases: dict[str, str] = {}
    body: list[str] = []
    for one in rebalances:
        for cause in one.causes:
            ids = one.joined if cause == "join" else one.left if cause in _OF_LEFT else []
            for name in [format_name(member, naming(group, member)) for member in ids]:
                if name not in aliases:
                    aliases[name] = f"M{len(aliases) + 1}"
                    yield f"  participant {aliases[name]} as {_plain(name)}"
                body.append(f"  {aliases[name]}->>G: {_plain(WORDS[cause])}")
            if not ids:
                body.append(f"  Note over G: {_plain(WORDS.get(cause, cause))}")
        body.append(f"  Note over G: {_plain(format_state(one))}")
    yield from body


def _plain(text: str) -> str:
    """Mermaid ends a statement at other characters; whatever a client put into its name stays one line."""
    return "".join(letter if letter.isalnum() or letter in " ._-()/" else "_" for letter in text)[:80] or "_"
