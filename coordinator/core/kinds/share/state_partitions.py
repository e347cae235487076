"""Which partitions have a state at the share coordinator, which are about to have one, and which lose theirs.

subscribe                  record 15: initializing         effect: ask the share coordinator
NoteBegunStates            record 15: initialized          from now on they may be assigned
NoteFailedStates           record 15: neither              the next heartbeat asks again
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.share import record_builders
from coordinator.core.kinds.share.group import ShareGroup, StatePartitions, StateTopics
from coordinator.core.limits import Limits
from coordinator.core.result import BeginShareStates, NoteBegunStates, NoteFailedStates, Result
from coordinator.core.share_state.values import NO_OFFSET
from coordinator.core.topics import Topics


def ask_for_states(transition: GroupTransition[ShareGroup]) -> None:
    """Note the partitions of subscribed topics that have no state yet, and ask the share coordinator to begin it.

    Kafka: `maybeCreateInitializeShareGroupStateRequest`.
    """
    group, now_ms = transition.group, transition.now_ms
    missing = find_missing(group, transition.topics, transition.limits, now_ms)
    if not missing:
        return
    note_initializing(transition, missing)
    offsets = {topic_id: dict.fromkeys(one.partitions, NO_OFFSET) for topic_id, one in missing.items()}
    transition.effects.append(BeginShareStates(group.group_id, offsets, transition.group.epoch, now_ms))


def find_missing(group: ShareGroup, topics: Topics, limits: Limits, now_ms: int) -> StateTopics:
    """Return the partitions that nobody was asked to begin, or so long ago that the answer must have been lost.

    Kafka: `subscribedTopicsChangeMap`.
    """
    missing: dict[bytes, StatePartitions] = {}
    for name in topics.existing_names(group.names.keys()):
        topic = topics[name]
        known = set(_partitions(group.initialized.get(topic.id)))
        asked = group.initializing.get(topic.id)
        if asked is not None and 0 <= now_ms - asked.at_ms < limits.group_share_initialize_retry_interval_ms:
            known.update(asked.partitions)
        if len(known) < topic.partitions:
            every = range(topic.partitions)
            left = tuple([index for index in every if index not in known]) if known else tuple(every)
            missing[topic.id] = StatePartitions(name, left, now_ms)
    return missing


def note_initializing(transition: GroupTransition[ShareGroup], more: StateTopics) -> None:
    """Write that states are about to be begun. Kafka: `addInitializingTopicsRecords`."""
    group = transition.group
    initializing = _union(group.initializing, more)
    deleting = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in initializing}
    write_states(transition, initializing, group.initialized, deleting)


def note_begun(group: ShareGroup, told: NoteBegunStates, env: Env) -> Result[Any]:
    """Write that the states of partitions exist, unless they have been deleted since. Kafka:
    `initializeShareGroupState`."""
    begun = {topic_id: StatePartitions(_name(topic_id, env.topics), parts)
             for topic_id, parts in told.topics.items() if topic_id in group.initializing}  # fmt: skip
    if not begun:
        return Result()
    transition = GroupTransition(group, env, "ShareStates")
    left = _difference(group.initializing, told.topics)
    write_states(transition, left, _union(group.initialized, begun), group.deleting)
    return transition.result()


def note_failed_states(group: ShareGroup, told: NoteFailedStates, env: Env) -> Result[Any]:
    """Write that the states of partitions could not be begun. Kafka: `uninitializeShareGroupState`."""
    if not group.initializing or not told.topics:
        return Result()
    transition = GroupTransition(group, env, "ShareStates")
    write_states(transition, _difference(group.initializing, told.topics), group.initialized, group.deleting)
    return transition.result()


def has_unassigned(group: ShareGroup) -> bool:
    """Return whether a subscribed topic has states of partitions that the target does not have.

    Kafka: `initializedAssignmentPending`. A target that an operator has forced leaves out what it leaves out.
    """
    if not group.initialized or group.forced_epoch == group.epoch:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return any(
        one.name in group.names and assigned.get(topic_id) != set(one.partitions)
        for topic_id, one in group.initialized.items()
    )


def without_topics(group: ShareGroup, gone: Iterable[bytes], env: Env) -> Result[Any]:
    """Forget topics that are no more. Kafka: `maybeCleanupShareGroupState`."""
    gone = set(gone)
    if gone.isdisjoint((*group.initializing, *group.initialized, *group.deleting)):
        return Result()
    transition = GroupTransition(group, env, "topics")
    left = [{one: kept for one, kept in topics.items() if one not in gone}
            for topics in (group.initializing, group.initialized)]  # fmt: skip
    deleting = {one: name for one, name in group.deleting.items() if one not in gone}
    write_states(transition, left[0], left[1], deleting)
    return transition.result()


def find_all_states(group: ShareGroup, topics: Topics) -> dict[bytes, StatePartitions]:
    """Return the share partitions that the share coordinator may have a state of: also those of which the end was
    begun and not noted."""
    ending = {
        topic_id: StatePartitions(name, tuple(range(topic.partitions)))
        for topic_id, name in group.deleting.items()
        if (topic := topics.by_id(topic_id)) is not None
    }
    return _union(_union(group.initialized, group.initializing), ending)


def write_states(
    transition: GroupTransition[ShareGroup],
    initializing: StateTopics,
    initialized: StateTopics,
    deleting: Mapping[bytes, str],
) -> None:
    """Write record 15. No record has the time at which a state was asked for: what is still being begun keeps it."""
    transition.write(record_builders.states(transition.group.group_id, initializing, initialized, deleting))
    written = transition.group.initializing
    timed = {topic_id: replace(one, at_ms=initializing[topic_id].at_ms) for topic_id, one in written.items()}
    transition.group = replace(transition.group, initializing=timed)


def _partitions(one: StatePartitions | None) -> tuple[int, ...]:
    return () if one is None else one.partitions


def _union(some: StateTopics, more: StateTopics) -> dict[bytes, StatePartitions]:
    found = dict(some)
    for topic_id, one in more.items():
        known = _partitions(found.get(topic_id))
        found[topic_id] = replace(one, partitions=tuple(sorted({*known, *one.partitions}))) if known else one
    return found


def _difference(some: StateTopics, less: Mapping[bytes, tuple[int, ...]]) -> dict[bytes, StatePartitions]:
    found: dict[bytes, StatePartitions] = {}
    for topic_id, one in some.items():
        gone = frozenset(less.get(topic_id, ()))
        left = tuple([index for index in one.partitions if index not in gone])
        if left:
            found[topic_id] = replace(one, partitions=left)
    return found


def _name(topic_id: bytes, topics: Topics) -> str:
    topic = topics.by_id(topic_id)
    return "<UNKNOWN>" if topic is None else topic.name
