"""When a group's regular expressions are matched against the topics, and what the answer changes.

All patterns of a group are matched together, in steps of a few milliseconds, by a timer that is due as soon as the
turn's requests are decided: no heartbeat waits for it. The answer is a change of its own; the next heartbeat finds it.

Shown by tests/core/scripts/consumer/regex*.txt, tests/core/kinds/consumer/test_patterns.py and
tests/conformance/stories/consumer_regex.py.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from coordinator.core import regex
from coordinator.core.acls.authorizer import Rights
from coordinator.core.acls.names import Operation, Resource
from coordinator.core.events import Cause
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup, ResolvedRegex, Resolving
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.modern.topics import metadata_hash
from coordinator.core.limits import Limits
from coordinator.core.result import SetTimer
from coordinator.core.timers import IMMEDIATELY, REGEX
from coordinator.core.topics import Topics

THROTTLE_MS: Final = 10_000  # between two resolutions of a group, whatever its members ask for


def is_stale(
    patterns: Mapping[str, int], resolved: Mapping[str, ResolvedRegex], topics: Topics, limits: Limits, now_ms: int
) -> bool:
    """Return whether patterns are not resolved, topics were created since, or it is time to look again."""
    if len(patterns) != len(resolved):
        return True
    oldest = min((each.version for each in resolved.values()), default=topics.version)
    if oldest < topics.created_version or oldest > topics.version:
        return True  # a version ahead of ours was counted by a server before a restart
    return now_ms > _resolution_ms(resolved) + limits.group_consumer_regex_refresh_interval_ms


def may_refresh(resolved: Mapping[str, ResolvedRegex], now_ms: int) -> bool:
    """Return whether the last resolution is long enough ago, or from the future: then the clock was put back since."""
    return not resolved or not 0 <= now_ms - _resolution_ms(resolved) <= THROTTLE_MS


def is_quiet(group: ConsumerGroup, topics: Topics, limits: Limits, now_ms: int) -> bool:
    """Return whether a heartbeat with nothing new need not think of patterns."""
    if not group.patterns or group.resolving is not None or not may_refresh(group.resolved, now_ms):
        return True
    return not is_stale(group.patterns, group.resolved, topics, limits, now_ms)


def start(transition: GroupTransition) -> None:
    """Begin to match all patterns of the group."""
    group = transition.group
    if not group.patterns:
        return
    topics = transition.topics
    resolving = Resolving(
        topics.version, topics.names, tuple(sorted(group.patterns)), rights=transition.env.call.rights
    )
    transition.group = replace(group, resolving=resolving)
    transition.set_timer(REGEX, "", 0)


def resolve_patterns(transition: GroupTransition) -> None:
    """Match some more names. With the last name of the last pattern, apply what has matched.

    Kafka: `GroupMetadataManager.refreshRegularExpressions`, which does so in a thread of its own.
    """
    resolving = transition.group.resolving
    if resolving is None:
        return
    if not resolving.left:  # it was given up
        transition.group = replace(transition.group, resolving=None)
        return
    resolving = _match_some(resolving)
    if resolving.left:
        transition.group = replace(transition.group, resolving=resolving)
        transition.effects.append(SetTimer((REGEX, transition.group.group_id, ""), IMMEDIATELY))
        return
    transition.group = replace(transition.group, resolving=None)
    now_ms, done = transition.now_ms, resolving.done
    _apply(transition, {pattern: ResolvedRegex(topics, resolving.version, now_ms) for pattern, topics in done.items()})


def give_up(transition: GroupTransition) -> None:
    """Throw away what has matched, and let nobody begin anew before another resolution were due."""
    resolving = Resolving(transition.topics.version, (), ())
    transition.group = replace(transition.group, resolving=resolving)
    transition.set_timer(REGEX, "", THROTTLE_MS)


def _match_some(resolving: Resolving) -> Resolving:
    """Do one step of work: some names of one pattern, or all names of several."""
    names, left, at, matched = resolving.names, resolving.left, resolving.at, resolving.matched
    done, units = dict(resolving.done), 0
    while left and units < regex.STEP_UNITS:
        found = regex.match(left[0], names, at, regex.STEP_UNITS - units)
        units += found.units + regex.COMPILE_UNITS
        at, matched = found.end, matched + _visible_topics(resolving.rights, found.names)
        if at == len(names):
            done[left[0]] = frozenset(matched)
            left, at, matched = left[1:], 0, ()
    return replace(resolving, left=left, at=at, matched=matched, done=done)


def _visible_topics(rights: Rights | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics that the member whose heartbeat has begun this may describe."""
    if rights is None:
        return names
    return tuple([name for name in names if rights.may(Operation.DESCRIBE, Resource.TOPIC, name)])


def _apply(transition: GroupTransition, answer: Mapping[str, ResolvedRegex]) -> None:
    """Keep the answer; raise the epoch if topics came or went. The target waits for a heartbeat."""
    group = transition.group
    is_changed = False
    for pattern, resolved in answer.items():
        if pattern in group.patterns:  # somebody still subscribes to it
            is_changed |= group.topics_matching(pattern) != resolved.topics
            transition.write(record_builders.pattern(group.group_id, pattern, resolved))
    topics_hash = metadata_hash(transition.group, transition.topics)
    if is_changed or topics_hash != group.metadata_hash:
        transition.write(record_builders.epoch(group.group_id, group.epoch + 1, topics_hash))
        transition.group = replace(transition.group, topics_seen=transition.topics.version)
        transition.tell(Cause.PATTERN_RESOLVED)


def _resolution_ms(resolved: Mapping[str, ResolvedRegex]) -> int:
    """Return when the patterns were resolved: all of a group are resolved together, so any of them tells."""
    return next(iter(resolved.values())).at_ms if resolved else -THROTTLE_MS
