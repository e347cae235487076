"""The internal topics of a topology that are missing: the coordinator has them created, in the client's name.

The client needs the right to create all of them; without it for one, none is created, and it is told which. A topic
that could not be created is asked for again at each heartbeat, and the members are told why.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.acls.names import CLUSTER_NAME, Operation, Resource
from coordinator.core.env import Env
from coordinator.core.kinds.streams.configuration import InternalTopic
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.transition import GroupTransition
from coordinator.core.result import Call, CreateTopics, NewTopic, NoteCreatedTopics, Result
from protocol.messages.streams_group_heartbeat import StatusCode, StreamsGroupHeartbeatResponseStatus

DEFAULT: Final = -1  # in place of a replication factor
ERRORS_SHOWN: Final = 3  # in a status

Statuses = tuple[StreamsGroupHeartbeatResponseStatus, ...]


def create_missing(transition: GroupTransition, statuses: Statuses) -> Statuses:
    """Have missing internal topics created, or tell the client that it may not create them. Returns the statuses."""
    configured = transition.group.configured
    missing = () if configured is None else configured.missing
    if not missing:
        return statuses
    denied = _find_denied(transition.env.call, missing)
    if not denied:
        topics = tuple(map(_new_topic, missing))
        transition.effects.append(CreateTopics(transition.group.group_id, topics, transition.env.call))
        return _explain(statuses, _describe_errors(transition.group))
    return _explain(statuses, f"; not authorized to create {', '.join(denied)}")


def keep_errors(group: StreamsGroup, outcome: NoteCreatedTopics, env: Env) -> Result[Any]:
    """Keep why topics could not be created, for the members' next heartbeats."""
    return (
        Result() if outcome.errors == group.creation_errors else Result(replace(group, creation_errors=outcome.errors))
    )


def _explain(statuses: Statuses, detail: str) -> Statuses:
    """Return the statuses with more words in that of the missing internal topics."""
    return tuple(
        replace(status, status_detail=status.status_detail + detail)
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS
        else status
        for status in statuses
    )


def _find_denied(call: Call, topics: Iterable[InternalTopic]) -> list[str]:
    if call.may(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        return []
    return [topic.name for topic in topics if not call.may(Operation.CREATE, Resource.TOPIC, topic.name)]


def _describe_errors(group: StreamsGroup) -> str:
    if not group.creation_errors:
        return ""
    named = [f"{name} ({error})" for name, error in sorted(group.creation_errors.items())]
    more = len(named) - ERRORS_SHOWN
    return f"; creation failed: {', '.join(named[:ERRORS_SHOWN])}" + (f" and {more} more" if more > 0 else "")


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, topic.replication_factor or DEFAULT, topic.configs)
