"""What requests of producers and about transactions need, where it is more than one check of one name."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.decision import Steps
from coordinator.core.pace import map_in_steps
from coordinator.core.transactions.add_partitions_to_txn import BATCHED_SINCE
from coordinator.dataplane.produce import is_transactional
from coordinator.runtime.authorization.guard import Asking, cluster

Entry = Any
Response = Any
_O, _R = Operation, Resource


def of_nobody(asking: Asking, entry: Entry) -> Entry:
    return replace(entry, producer_id=0, producer_epoch=0)


def transaction_topics(asking: Asking, response: Response) -> Steps[Response]:
    """Leave out the topics of transactions that the client may not describe."""

    def hide_denied_topics(state: Entry) -> Entry:
        topics = [one for one in state.topics if asking.rights.may(_O.DESCRIBE, _R.TOPIC, one.topic)]
        return replace(state, topics=tuple(topics))

    states = yield from map_in_steps(
        response.transaction_states, hide_denied_topics, units=lambda state: 1 + len(state.topics)
    )
    return replace(response, transaction_states=tuple(states))


def produce_transaction(asking: Asking) -> str | None:
    """Return the transactional id of a Produce request with transactional records."""
    request = asking.request
    batches = (data.records for topic in request.topic_data for data in topic.partition_data)
    return request.transactional_id if any(map(is_transactional, batches)) else None


def any_producer(asking: Asking) -> Iterable[str]:
    """Allow an id to a producer without transactions if it may write to any topic (KIP-679)."""
    if asking.request.transactional_id is not None or asking.rights.may_any(_O.WRITE, _R.TOPIC):
        return ()
    return cluster(asking)


def own_transaction(asking: Asking) -> str | None:
    return asking.request.v3_and_below_transactional_id if asking.version < BATCHED_SINCE else None


def of_brokers(asking: Asking) -> Iterable[str]:
    return cluster(asking) if asking.version >= BATCHED_SINCE else ()
