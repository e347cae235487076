"""How many partitions a client may create and delete a second: `controller_mutation_rate` (KIP-599).

Each partition takes a token. A client without tokens is refused THROTTLING_QUOTA_EXCEEDED by the newer versions; older
ones do what is asked, and tell how long to wait. What creates and deletes nothing, such as a topic that is there
already or one with an invalid name, takes no token and needs none. Kafka: `ControllerMutationQuotaManager`,
`ReplicationControlManager`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.decision import Decision, Done, InSteps, Outcome, Steps, begin, map_response
from coordinator.core.quotas.entities import Entity
from coordinator.core.quotas.mutations import find_quota
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from coordinator.runtime.partial_refusal import LAST, divide, join
from protocol.errors import ErrorCode

Handler = Callable[[Engine, Any, Call, Where], Decision]
Count = Callable[[Any], int]
"""Returns how many partitions an entry of a request creates or deletes."""


class Limit(Struct, frozen=True):
    """What the quota of an API is about."""

    answers: str  # the array of the response
    strict_since: int  # the version from which on a client is refused
    counts: Mapping[str, Callable[[Catalog, Sequence[Any]], Count]]
    """By an array of the request, of which a version has one: what counts its entries, when it has seen them all."""


def limit_mutations(handle: Handler, limit: Limit) -> Handler:
    """Return a handler of an API that changes topics with the quota before it."""

    def check(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        found = find_quota(engine.world.ledger.catalog.quotas, call)
        array = next((array for array in limit.counts if getattr(request, array)), None)
        if found is None or array is None:
            return handle(engine, request, call, where)
        return begin(_handle_within(handle, limit, array, found, engine, request, call, where))

    return check


def _handle_within(
    handle: Handler,
    limit: Limit,
    array: str,
    quota: tuple[Entity, float],
    engine: Engine,
    request: Any,
    call: Call,
    where: Where,
) -> Steps[Outcome]:
    """Handle what the quota allows of a request, and refuse the rest."""
    (entity, rate), buckets, now_ms = quota, engine.mutations, engine.real_ms()
    is_strict, throttle_ms = call.version >= limit.strict_since, 0
    entries = getattr(request, array)
    count, times = limit.counts[array](engine.world.ledger.catalog, entries), Counter(map(_name, entries))

    def judge(entry: Any) -> ErrorCode | None:
        nonlocal throttle_ms
        partitions = count(entry) if times[_name(entry)] == 1 else 0
        if not partitions:
            return None
        if is_strict and buckets.is_empty(entity, rate, now_ms):
            throttle_ms = max(throttle_ms, buckets.take(entity, rate, 0, now_ms))
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        throttle_ms = buckets.take(entity, rate, partitions, now_ms)
        return None

    divided = yield from divide(request, call.version, array, limit.answers, judge)

    def finish(response: Any) -> Any:
        joined = response if divided is None else join(response, divided, limit.answers, LAST)
        return replace(joined, throttle_time_ms=throttle_ms)

    if divided is not None and divided.is_empty:
        return Done(finish(error_response(divided.request, call.version, ErrorCode.NONE)))
    decision = map_response(handle(engine, request if divided is None else divided.request, call, where), finish)
    return (yield from decision.steps) if isinstance(decision, InSteps) else decision


def _name(entry: Any) -> Any:
    """Return how an entry names its topic. One that is named twice is refused."""
    return entry if isinstance(entry, str) else (entry.name, getattr(entry, "topic_id", None))


def _count_created(catalog: Catalog, topics: Sequence[Any]) -> Count:
    from coordinator.core.catalog.create_topics import count_partitions, is_excessive, refusal  # with its handler

    if is_excessive(catalog, topics):
        return lambda topic: 0
    return lambda topic: 0 if refusal(catalog, topic, _room(catalog)) else count_partitions(topic, catalog)


def _count_added(catalog: Catalog, topics: Sequence[Any]) -> Count:
    from coordinator.core.catalog.create_partitions import refusal

    def count(topic: Any) -> int:
        return 0 if refusal(catalog, topic, _room(catalog)) else topic.count - catalog.partitions_of(topic.name)

    return count


def _room(catalog: Catalog) -> int:
    return catalog.settings.partitions_max - catalog.partitions


def _count_deleted(catalog: Catalog, topics: Sequence[Any]) -> Count:
    def count(topic: Any) -> int:
        name = topic if isinstance(topic, str) else topic.name
        if name is None:
            found = catalog.topics.by_id(topic.topic_id)
            name = None if found is None else found.name
        return 0 if name is None or name in INTERNAL else catalog.partitions_of(name)

    return count


LIMITED: Final[Mapping[str, Limit]] = {
    "CreateTopics": Limit("topics", 6, {"topics": _count_created}),
    "CreatePartitions": Limit("results", 3, {"topics": _count_added}),
    "DeleteTopics": Limit("responses", 5, {"topics": _count_deleted, "topic_names": _count_deleted}),
}


def with_mutation_quota(api: str, handle: Handler) -> Handler:
    """Return the handler of an API with the trait LIMITED, behind its quota."""
    return limit_mutations(handle, LIMITED[api])
