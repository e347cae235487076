"""The table of APIs and the functions that answer them. The ApiVersions response is derived from it."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, Final

from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.decision import Decision, Done, answers, in_steps
from coordinator.core.kinds.kind import Kind
from coordinator.core.kinds.registry import KINDS
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.dataplane.dataplane import APIS as DATAPLANE
from coordinator.dataplane.isolation import ISOLATION_LEVELS
from coordinator.runtime import group_requests
from coordinator.runtime.api_versions import api_versions
from coordinator.runtime.engine import Engine, Route
from coordinator.runtime.error_response import error_everywhere, error_response
from coordinator.runtime.find_coordinator import find_coordinator
from coordinator.runtime.mutation_quota import with_mutation_quota
from coordinator.runtime.sasl import sasl_authenticate, sasl_handshake
from protocol.apis import ADVERTISED_ONLY, BY_NAME, KAFKA_3_9_RANGES, LATEST_RANGES, names_with
from protocol.errors import ErrorCode
from protocol.traits import Trait

Handler = Callable[[Engine, Any, Call, Where], Decision]

OPEN_TO_ALL: Final = names_with(Trait.HANDSHAKE) | names_with(Trait.UNGUARDED)
COMPAT: Final = ("4.3", "3.9")


def _rare(module: str, handler: str) -> Handler:
    """Return the handler of an API that not every server is asked for. The first request imports its module."""

    def handle(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        found: Handler = getattr(import_module(f"{__package__}.{module}"), handler)
        return found(engine, request, call, where)

    return handle


def _dataplane(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
    return engine.world.dataplane.handle(request, call, where)


def _with_isolation(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
    """Read, unless an isolation level is asked for that does not exist. Kafka: `IsolationLevel.forId`."""
    if request.isolation_level not in ISOLATION_LEVELS:
        return Done(error_everywhere(request, call.version, ErrorCode.UNKNOWN_SERVER_ERROR))
    return _dataplane(engine, request, call, where)


def own_apis(kind: Kind) -> dict[str, Handler]:
    """Return the handlers of the APIs that only groups of a kind have."""
    own = dict.fromkeys(
        [request.__name__.removesuffix("Request") for request in kind.creates], group_requests.one_group
    )
    return {**own, kind.description.api: in_steps(group_requests.describe(kind))}


HANDLERS: Final[Mapping[str, Handler]] = {
    "ApiVersions": answers(lambda engine, request, call, where: api_versions(request, call.version, engine.offered)),
    "UpdateFeatures": _rare("update_features", "update_features"),
    "WriteTxnMarkers": _rare("write_txn_markers", "write_txn_markers"),
    "FindCoordinator": in_steps(lambda engine, request, call, where: find_coordinator(request, call, engine, where)),
    "SaslHandshake": answers(lambda engine, request, call, where: sasl_handshake(request)),
    "SaslAuthenticate": answers(lambda engine, request, call, where: sasl_authenticate(request)),
    **{api: handler for kind in KINDS.values() for api, handler in own_apis(kind).items()},
    "OffsetDelete": group_requests.offset_delete,
    "OffsetFetch": group_requests.offset_fetch,
    "ListGroups": in_steps(group_requests.list_groups),
    "DeleteGroups": in_steps(group_requests.delete_groups),
    "OffsetCommit": group_requests.offset_commit,
    "TxnOffsetCommit": group_requests.txn_offset_commit,
    "AddOffsetsToTxn": answers(group_requests.add_offsets_to_txn),
    **dict.fromkeys(("CreateAcls", "DeleteAcls", "DescribeAcls"), _rare("security", "acls")),
    **dict.fromkeys(
        ("CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken", "RenewDelegationToken"),
        _rare("security", "delegation_token"),
    ),
    **dict.fromkeys(DATAPLANE, _dataplane),
    **{api: with_mutation_quota(api, _dataplane) for api in names_with(Trait.LIMITED)},
    **dict.fromkeys(("Fetch", "ListOffsets"), _with_isolation),
    **dict.fromkeys(("AlterShareGroupOffsets", "DeleteShareGroupOffsets"), group_requests.share_group_offsets),
    "DescribeShareGroupOffsets": _rare("share_group_offsets", "describe_share_group_offsets"),
    **{
        api: _rare("share_state_requests", handler)
        for api, handler in (
            ("DeleteShareGroupState", "delete_share_group_state"),
            ("InitializeShareGroupState", "initialize_share_group_state"),
            ("ReadShareGroupState", "read_share_group_state"),
            ("ReadShareGroupStateSummary", "read_share_group_state_summary"),
            ("WriteShareGroupState", "write_share_group_state"),
        )
    },
    "AddPartitionsToTxn": _rare("transactions", "add_partitions_to_txn"),
    "DescribeTransactions": _rare("transactions", "describe_transactions"),
    "EndTxn": _rare("transactions", "end_txn"),
    "InitProducerId": _rare("transactions", "init_producer_id"),
    "ListTransactions": _rare("transactions", "list_transactions"),
}


def _refuse_version(engine: Engine, request: Any, call: Call, where: Where) -> Any:
    """Refuse a request of a protocol that is switched off. ApiVersions lists it still, as in Kafka."""
    return error_response(request, call.version, ErrorCode.UNSUPPORTED_VERSION)


def supported_versions(compat: str) -> dict[int, range]:
    """Return the versions that a server of that compatibility offers: Kafka 4.3's, or with those that only 3.9 still
    had."""
    if compat == "4.3":
        return intersect_versions(LATEST_RANGES)
    older = (KAFKA_3_9_RANGES.get(key, span) for key, span in LATEST_RANGES.items())
    both = zip(LATEST_RANGES.items(), older, strict=True)
    return intersect_versions({key: range(old.start, span.stop) for (key, span), old in both})


def intersect_versions(ranges: Mapping[int, range]) -> dict[int, range]:
    """Return the versions, by API key, that are both answered and within `ranges`."""
    return {BY_NAME[name].key: ranges[BY_NAME[name].key] for name in HANDLERS if BY_NAME[name].key in ranges}


def routes(
    versions: Mapping[int, range], authorizer: Authorizer | None, protocols: Collection[str] | None = None
) -> dict[tuple[int, int], Route]:
    """Return the handlers by API key and version; with an authorizer they stand behind their guards.

    Of the kinds of groups that are optional, only those of `protocols` are served, if it is given.
    """
    handlers = HANDLERS if authorizer is None else _guard(HANDLERS, authorizer)
    off = [
        api
        for kind in KINDS.values()
        if kind.is_optional and protocols is not None and kind.name not in protocols
        for api in own_apis(kind)
    ]
    handlers = {**handlers, **dict.fromkeys(off, answers(_refuse_version))}
    by_key = {BY_NAME[name].key: Route(name, handle) for name, handle in handlers.items()}
    served = {(key, version) for key, span in versions.items() for version in span} - ADVERTISED_ONLY
    return {(key, version): by_key[key] for key, version in served}


def _guard(handlers: Mapping[str, Handler], authorizer: Authorizer) -> dict[str, Handler]:
    from coordinator.runtime.authorization.guard import guard_handler
    from coordinator.runtime.authorization.needs import NEEDS

    forgotten = handlers.keys() - NEEDS.keys() - OPEN_TO_ALL
    assert not forgotten, f"everybody could call {', '.join(sorted(forgotten))}: say what rights they need"
    return {
        name: guard_handler(handle, NEEDS[name], authorizer) if name in NEEDS else handle
        for name, handle in handlers.items()
    }
