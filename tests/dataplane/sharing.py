"""Members of share groups that are called without bytes: what they acquire, and what they make of it."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.authorizer import Rights
from coordinator.core.share_partitions.values import SharePartition
from coordinator.core.share_state.values import StateKey
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
)
from protocol.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponsePartition,
)
from tests.dataplane.broker import NODES, NOW, Broker, call, read_values, response_of
from tests.requests import share_acknowledge_topics, share_fetch_topics

ACCEPT, RELEASE, REJECT, RENEW = (1,), (2,), (3,), (4,)
Ranges = tuple[tuple[int, int, tuple[int, ...]], ...]  # first offset, last offset, types


class Got(Struct, frozen=True):
    """What a ShareFetch has brought of one partition."""

    acquired: list[tuple[int, int, int]]  # first offset, last offset, delivery count
    values: list[str]
    error: int
    acknowledge_error: int


def begin_sharing(broker: Broker, topic: str = "t", group: str = "g", partition: int = 0, at: int = 0) -> StateKey:
    """Begin the state of a share partition, as a member's join does; NO_OFFSET lets the first fetch decide."""
    key = StateKey(group, broker.node.world.ledger.catalog.topics_by_name[topic].id, partition)
    assert broker.node.engine.share_states.initialize(key, 1, at, NOW) == 0
    broker.node.engine.flush()
    return key


class Sharer:
    """A member of a share group, on a connection of its own."""

    def __init__(
        self, broker: Broker, name: str = "a", *, group: str = "g", topic: str = "t", connection: int | None = None
    ) -> None:
        self.broker, self.name, self.group = broker, name, group
        self.topic_id = broker.node.world.ledger.catalog.topics_by_name[topic].id
        self.connection = ord(name[0]) if connection is None else connection
        self.epoch = 0
        self.now_ms = NOW
        self.rights: Rights | None = None  # it may do everything

    def ask(self, request: Any, ticket: int = 1, version: int = 2) -> Any:
        """Return the response to a request, None while it is parked."""
        node = self.broker.node
        key = 78 if isinstance(request, ShareFetchRequest) else 79
        made = replace(call(request, ticket, version, self.now_ms), connection=self.connection, rights=self.rights)
        answer = response_of(node.engine.handle(key, request, made, NODES))
        while node.engine.unfinished:
            node.engine.long_requests.step()
            for number, response in self.broker._take_replies():
                if number == ticket:
                    answer = response
                else:
                    self.broker._replies.append((number, response))
        node.engine.flush()
        return answer

    def fetch(self, *ranges: tuple[int, int, tuple[int, ...]], partition: int = 0, **fields: Any) -> Any:
        """Return the whole response of the next ShareFetch of the session, None while it is parked."""
        ticket, version = fields.pop("ticket", 1), fields.pop("version", 2)
        epoch = fields.pop("epoch", self.epoch)
        topics = share_fetch_topics({(self.topic_id, partition): ranges})
        wanted = {"max_records": 500, "batch_size": 500, "topics": topics, "min_bytes": 1, **fields}
        answer = self.ask(ShareFetchRequest(self.group, self.name, epoch, **wanted), ticket, version)
        self.epoch = 1 if epoch == 0 else self.epoch + 1
        return answer

    def take(self, *ranges: tuple[int, int, tuple[int, ...]], **fields: Any) -> Got:
        """Return what a ShareFetch that does not wait brings of its one partition."""
        return got(self.fetch(*ranges, **fields))

    def acknowledge(self, *ranges: tuple[int, int, tuple[int, ...]], partition: int = 0, **fields: Any) -> Any:
        """Return the response to a ShareAcknowledge."""
        version, epoch = fields.pop("version", 2), fields.pop("epoch", self.epoch)
        wanted = {"topics": share_acknowledge_topics({(self.topic_id, partition): ranges}), **fields}
        answer = self.ask(ShareAcknowledgeRequest(self.group, self.name, epoch, **wanted), version=version)
        self.epoch += 1
        return answer

    def settle(self, *ranges: tuple[int, int, tuple[int, ...]], **fields: Any) -> int:
        """Acknowledge, and return the error of the one partition."""
        answer = self.acknowledge(*ranges, **fields)
        return answer.error_code or answer.responses[0].partitions[0].error_code

    def leave(self) -> None:
        """Lose the connection."""
        self.broker.node.engine.disconnect(self.connection, self.now_ms)
        self.broker.node.engine.flush()


def got(answer: Any) -> Got:
    assert answer.error_code == 0, answer
    parts: list[ShareFetchResponsePartition] = [one for topic in answer.responses for one in topic.partitions]
    if not parts:
        return Got([], [], 0, 0)
    (one,) = parts
    acquired = [(run.first_offset, run.last_offset, run.delivery_count) for run in one.acquired_records]
    return Got(acquired, read_values(one.records or b""), one.error_code, one.acknowledge_error_code)


def share_partition(broker: Broker, key: StateKey) -> SharePartition:
    found = broker.node.world.dataplane.share.find(key)
    assert found is not None, "it is served"
    return found
