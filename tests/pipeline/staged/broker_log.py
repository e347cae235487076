"""What a broker wrote into its own log about its groups, and whether it is what `why` told.

    told = compare(rebalances, read(lines, "shop"))

A broker says how each member came and went, and why it prepared a rebalance. It does not say why a member joined again:
for another subscription, for other topics or to get what others gave up. Such answers are `consistent` with its words, those that
it says itself are `same`; `open` are those that are told as not certain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from pipeline.history.records import Rebalance

LEFT, FAILED = "leave", "timeout"
_PREPARED = re.compile(
    r"Preparing to rebalance group (\S+) in state \S+ with old generation (\d+) .*?\(?reason: (.*)\)"
)
_REJOINED = ("Updating metadata", "re-joining")
_CONVERTED = re.compile(r"\[GroupId (\S+)\] Converted the .*group to a")
_RETURNED = re.compile(r"Static member with (?:groupInstanceId=|instance id )(\S+) .*?[Rr]eplac(?:e|ing)")
_CAME = (
    re.compile(r"Adding new member (\S+) with group instance id"),
    re.compile(r"Created a new member id (\S+) and"),  # the only line of one that joins while a rebalance is prepared
    re.compile(r"Member (\S+) joins the (?:consumer|share) group"),
    re.compile(r"\[MemberId (\S+)\] Member joins the streams group"),
    re.compile(r"Static member (\S+) with instance id \S+ joins the consumer group"),
)
_GONE: Mapping[re.Pattern[str], str] = {
    re.compile(r"[Mm]ember (\S+) (?:with instance id \S+ )?has left group"): LEFT,
    re.compile(r"Removing member (\S+) on LeaveGroup"): LEFT,
    re.compile(r"Member (\S+) left the (?:consumer|share|streams) group"): LEFT,
    re.compile(r"Static member (\S+) with instance id \S+ left the consumer group"): LEFT,
    re.compile(r"Member (\S+) in group \S+ has failed"): FAILED,
    re.compile(r"[Mm]ember (\S+) fenced from the group"): FAILED,
    re.compile(r"removed dynamic members who haven't joined: (.*)"): FAILED,
    re.compile(r"Removing (.*) on pending sync request expiration"): FAILED,
}


class Words(Struct):
    """What a broker has said of one group."""

    came: set[str] = field(default_factory=set)  # member ids
    gone: dict[str, str] = field(default_factory=dict)  # member id -> how it went
    returned: set[str] = field(default_factory=set)  # instance ids
    reasons: dict[int, list[str]] = field(default_factory=dict)  # generation -> why it was prepared
    is_converted: bool = False


class Verdict(Struct, frozen=True):
    """What was told of a rebalance, beside the broker's words."""

    generation: int | None
    cause: str
    word: str  # same, consistent, open, or WRONG


def read(lines: Iterable[str], group: str) -> Words:
    """Gather what the lines say of the group."""
    found = Words()
    for line in lines:
        if group not in line:
            continue
        if prepared := _PREPARED.search(line):
            found.reasons.setdefault(int(prepared[2]) + 1, []).append(prepared[3])
        found.is_converted |= bool(_CONVERTED.search(line))
        if returned := _RETURNED.search(line):
            found.returned.add(returned[1])
        found.came.update(came[1] for pattern in _CAME if (came := pattern.search(line)))
        for pattern, how in _GONE.items():
            if gone := pattern.search(line):
                found.gone |= dict.fromkeys(re.findall(r"[^\s,\[\]()]+", gone[1]), how)
    return found


def compare(rebalances: Iterable[Rebalance], words: Words) -> Iterator[Verdict]:
    """Yield a verdict for each cause that was told."""
    for one in rebalances:
        for cause in one.causes:
            yield Verdict(one.generation, cause, _judge(one, cause, words))


def _judge(told: Rebalance, cause: str, words: Words) -> str:
    went = {words.gone.get(member_id) for member_id in told.left}
    is_alone = "leave_or_timeout" not in told.causes
    match cause:
        case "leave":
            return _same(went == {LEFT} if is_alone else LEFT in went)
        case "leave_or_timeout":
            return "open" if None not in went else "WRONG"
        case "join":
            return _same(words.came.issuperset(told.joined))
        case "static_rejoin":
            return _same(bool(words.returned))
        case "migrated":
            return _same(words.is_converted)
        case "emptied":
            return _same(told.members_after == 0)
        case "unknown":
            return "open"
        case "subscription_change" | "partition_count_change" | "topic_found" | "cooperative_handover" if (
            told.type == "classic"
        ):
            reasons = words.reasons.get(told.generation or 0, [])
            return "consistent" if any(word in one for one in reasons for word in _REJOINED) else "WRONG"
    return "consistent"


def _same(is_so: bool) -> str:
    return "same" if is_so else "WRONG"
