"""How many partitions a client may create and delete a second: `controller_mutation_rate` (KIP-599).

Each partition takes a token. A client without tokens is refused THROTTLING_QUOTA_EXCEEDED by the newer versions; older
ones do what is asked, and tell how long to wait. What would create and delete nothing, such as a topic that is there
already, takes no token and needs none. Kafka: `ControllerMutationQuotaManager`, `ReplicationControlManager`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.decision import Decision, Done, map_response
from coordinator.core.quotas.entities import MUTATIONS
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from coordinator.runtime.partial_refusal import LAST, divide, join
from protocol.errors import ErrorCode
from protocol.steps import finish_steps

if TYPE_CHECKING:
    from protocol.messages.create_partitions import CreatePartitionsRequestTopic
    from protocol.messages.create_topics import CreateTopicsRequestCreatableTopic
    from protocol.messages.delete_topics import DeleteTopicsRequestDeleteTopicState

Handler = Callable[[Engine, Any, Call, Where], Decision]
Count = Callable[[Catalog, Any], int]


class Limit(Struct, frozen=True):
    """What the quota of an API is about."""

    answers: str  # the array of the response
    strict_since: int  # the version from which on a client is refused
    counts: Mapping[str, Count]
    """By an array of the request, of which a version has one: how many partitions an entry creates or deletes."""


def limit_mutations(handle: Handler, limit: Limit) -> Handler:
    """Return a handler of an API that changes topics with the quota before it."""

    def check(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        catalog = engine.world.ledger.catalog
        quotas = catalog.quotas
        found = quotas.find(MUTATIONS, call.principal.name, call.client_id or "") if quotas.count else None
        array = next((array for array in limit.counts if getattr(request, array)), None)
        if found is None or array is None:
            return handle(engine, request, call, where)
        (entity, rate), buckets, now_ms = found, engine.mutations, engine.real_ms()
        is_strict, throttle_ms = call.version >= limit.strict_since, 0

        def judge(entry: Any) -> ErrorCode | None:
            nonlocal throttle_ms
            count = limit.counts[array](catalog, entry)
            if not count:
                return None
            if is_strict and buckets.is_empty(entity, rate, now_ms):
                throttle_ms = max(throttle_ms, buckets.take(entity, rate, 0, now_ms))
                return ErrorCode.THROTTLING_QUOTA_EXCEEDED
            throttle_ms = buckets.take(entity, rate, count, now_ms)
            return None

        divided = finish_steps(divide(request, call.version, array, limit.answers, judge))
        if divided is None:
            decision = handle(engine, request, call, where)
        elif divided.is_empty:
            decision = Done(error_response(divided.request, call.version, ErrorCode.NONE))
        else:
            decision = handle(engine, divided.request, call, where)

        def finish(response: Any) -> Any:
            if divided is not None:
                response = join(response, divided, limit.answers, LAST)
            return replace(response, throttle_time_ms=throttle_ms)

        return map_response(decision, finish)

    return check


def _count_created(catalog: Catalog, topic: "CreateTopicsRequestCreatableTopic") -> int:
    if topic.name in catalog.topics_by_name:
        return 0
    wanted = len(topic.assignments) or topic.num_partitions
    return wanted if wanted > 0 else catalog.settings.num_partitions


def _count_added(catalog: Catalog, topic: "CreatePartitionsRequestTopic") -> int:
    known = catalog.partitions_of(topic.name)
    return max(topic.count - known, 0) if known else 0


def _count_deleted(catalog: Catalog, topic: "DeleteTopicsRequestDeleteTopicState") -> int:
    if topic.name is not None:
        return catalog.partitions_of(topic.name)
    found = catalog.topics.by_id(topic.topic_id)
    return 0 if found is None else catalog.partitions_of(found.name)


LIMITED: Final[Mapping[str, Limit]] = {
    "CreateTopics": Limit("topics", 6, {"topics": _count_created}),
    "CreatePartitions": Limit("results", 3, {"topics": _count_added}),
    "DeleteTopics": Limit("responses", 5, {"topics": _count_deleted, "topic_names": Catalog.partitions_of}),
}


def with_mutation_quota(api: str, handle: Handler) -> Handler:
    """Return the handler of an API with the trait LIMITED, behind its quota."""
    return limit_mutations(handle, LIMITED[api])
