"""How many partitions a client may create and delete a second: `controller_mutation_rate` (KIP-599).

Each partition takes a token. A client without tokens is refused THROTTLING_QUOTA_EXCEEDED by the newer versions; older
ones do what is asked, and tell how long to wait. Kafka: `ControllerMutationQuotaManager`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.quotas.entities import MUTATIONS
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from coordinator.runtime.steps import then
from protocol.errors import ErrorCode

Handler = Callable[[Engine, Any, Call, Where], Any]


def limit_mutations(handle: Handler, array: str, answers: str, strict_since: int) -> Handler:
    """Return a handler of an API that changes topics, which are entries of `array`, with the quota before it."""

    def check(engine: Engine, request: Any, call: Call, where: Where) -> Any:
        quotas = engine.ledger.catalog.quotas
        found = quotas.find(MUTATIONS, call.principal.name, call.client_id or "") if quotas.count else None
        if found is None:
            return handle(engine, request, call, where)
        (entity, rate), buckets, now_ms = found, engine.mutations, engine.real_ms()
        is_strict, throttle_ms = call.version >= strict_since, 0
        allowed: list[Any] = []
        refused: list[Any] = []
        for entry in getattr(request, array):
            if is_strict and buckets.is_empty(entity, rate, now_ms):
                refused.append(entry)
                throttle_ms = max(throttle_ms, buckets.take(entity, rate, 0, now_ms))
            else:
                allowed.append(entry)
                throttle_ms = buckets.take(entity, rate, _partitions(engine, entry), now_ms)
        if not refused:
            response = handle(engine, request, call, where)
        elif allowed:
            response = handle(engine, replace(request, **{array: tuple(allowed)}), call, where)
        else:
            response = error_response(replace(request, **{array: ()}), call.version, ErrorCode.NONE)
        part = replace(request, **{array: tuple(refused)})
        told = getattr(error_response(part, call.version, ErrorCode.THROTTLING_QUOTA_EXCEEDED), answers)

        def tell(response: Any) -> Any:
            return replace(response, throttle_time_ms=throttle_ms, **{answers: (*getattr(response, answers), *told)})

        return then(response, tell)

    return check


def _partitions(engine: Engine, entry: Any) -> int:
    """Return how many partitions an entry of a request creates or deletes."""
    catalog = engine.ledger.catalog
    name = entry if isinstance(entry, str) else entry.name
    if name is None:
        topic = catalog.topics.by_id(entry.topic_id)
        name = "" if topic is None else topic.name
    fact = catalog.topics_by_name.get(name)
    before = 0 if fact is None else fact.partitions
    if hasattr(entry, "num_partitions"):
        wanted = len(entry.assignments) or entry.num_partitions
        return wanted if wanted > 0 else catalog.settings.num_partitions
    return max(entry.count - before, 0) if hasattr(entry, "count") else before


LIMITED: Final[Mapping[str, tuple[tuple[str, str, int], ...]]] = {
    # the arrays of each API, the answers to them, and the version from which on a client is refused
    "CreateTopics": (("topics", "topics", 6),),
    "CreatePartitions": (("topics", "results", 3),),
    "DeleteTopics": (("topics", "responses", 5), ("topic_names", "responses", 5)),
}


def with_mutation_quota(api: str, handle: Handler) -> Handler:
    """Return the handler of an API, behind its quota if it changes topics."""
    for array, answers, strict_since in LIMITED.get(api, ()):
        handle = limit_mutations(handle, array, answers, strict_since)
    return handle
