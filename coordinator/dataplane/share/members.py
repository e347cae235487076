"""Find the member that sends a ShareFetch or a ShareAcknowledge, and the broker that it is to ask instead."""

from typing import Final

from coordinator.core.share_partitions.sessions import SessionKey
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.brokers import Broker
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode

MEMBER_ID_CHARACTERS_MAX: Final = 36  # of a UUID


def find_member(group_id: str | None, member_id: str | None, node_id: int) -> SessionKey | ErrorCode:
    """Return the group and the member of a request to a broker, or why it is refused.

    That it is a member of the group is not checked, as in Kafka.
    """
    if group_id is None or not member_id or len(member_id) > MEMBER_ID_CHARACTERS_MAX:
        return ErrorCode.INVALID_REQUEST
    return SessionKey(group_id, member_id, node_id)


def find_leader(state: State, key: StateKey, env: Env) -> Broker | None:
    """Return the broker that leads a partition, where the client reaches it."""
    name = state.name_of(key.topic_id)
    replicas = () if name is None else state.replicas(name, key.partition, 1, env.where)
    return env.where.find(replicas[0]) if replicas else None
