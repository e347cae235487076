"""Requests about groups: each is given to the partition that owns the group, or split over all and put together
again."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.acls.names import ALL_OPERATIONS, Resource
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.cleanup import TOMBSTONES_A_STEP
from coordinator.core.decision import PARKED, Decision, Done, InSteps, Outcome, Steps, begin, respond_in_steps
from coordinator.core.kinds.kind import Kind
from coordinator.core.kinds.registry import KINDS, kind_of
from coordinator.core.limits import Limits
from coordinator.core.list_groups import Filters
from coordinator.core.offsets.offset_fetch import (
    GROUPS_SINCE,
    merge_groups,
    name_topics,
    refuse_group,
    split_groups,
)
from coordinator.core.offsets.txn_offset_commit import refuse_txn_commit
from coordinator.core.pace import Pace, map_in_steps, name_units
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call, EndAllShareStates
from coordinator.core.transactions import add_offsets_to_txn as adding
from coordinator.core.transactions.membership import add_to_transaction, verify_partition
from coordinator.core.weights import weigh
from coordinator.dataplane.brokers import Where
from coordinator.runtime.edge import Failure
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response, unserved_response
from coordinator.runtime.long_commits import (
    PART_PARTITIONS,
    JoinedTopics,
    cut_topics,
    decide_in_parts,
    is_long,
)
from coordinator.runtime.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseDeletableGroupResult,
)
from protocol.messages.list_groups import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseListedGroup,
)
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

GROUP_OPERATIONS: Final = ALL_OPERATIONS[Resource.GROUP]
_GROUP_WORK: Final = 5  # what a group costs beside its offsets, counted in partitions
_CHARACTERS: Final = 50  # of its id, to find its partition: they cost as much as a partition
_JOINS_SINCE: Final = 5  # KIP-890: a transactional commit joins its group's partition to the transaction
_ABORTABLE_SINCE: Final = 4  # before, clients do not know TRANSACTION_ABORTABLE


def one_group(engine: Engine, request: Any, call: Call, where: Where) -> Outcome:
    """Handle a request that names one group, of which alone the response tells."""
    partition = engine.world.partitions.owner(request.group_id)
    if partition.served_by != where.node_id and (code := engine.world.coordinators.refuse(partition, where)):
        return Done(_refuse_unserved(request, call.version, code, partition.shard.limits), request.group_id)
    response = engine.take(partition, partition.shard.handle(request, call), request.group_id)
    return PARKED if response is None else Done(response, request.group_id)


def _refuse_unserved(request: Any, version: int, code: ErrorCode, limits: Limits) -> Any:
    """Refuse a request that is malformed, whether its group is served or not; else say that it is not."""
    for kind in KINDS.values():
        if (refuse := kind.malformed.get(type(request))) and (refused := refuse(request, version, limits)):
            return refused
    return unserved_response(request, version, code)


def offset_commit(engine: Engine, request: OffsetCommitRequest, call: Call, where: Where) -> Decision:
    """Commit offsets of one group, those of many partitions in parts."""
    if not is_long(request):
        return one_group(engine, request, call, where)
    return InSteps(decide_in_parts(request, lambda part: one_group(engine, part, call, where)))


def offset_delete(engine: Engine, request: OffsetDeleteRequest, call: Call, where: Where) -> Decision:
    """Delete offsets of one group, those of many partitions in parts."""
    if not is_long(request):
        return one_group(engine, request, call, where)
    return InSteps(decide_in_parts(request, lambda part: one_group(engine, part, call, where)))


def offset_fetch(engine: Engine, request: OffsetFetchRequest, call: Call, where: Where) -> Decision:
    """Fetch offsets of one group, or from version 8 on of several, those of many partitions in steps."""
    wanted = split_groups(request, call.version)
    if not _wants_few(engine, wanted):
        return InSteps(respond_in_steps(_fetch_in_steps(engine, wanted, request, call, where)))
    groups = tuple([_fetch(engine, group, request, call, where) for group in wanted])
    return Done(merge_groups(groups, request, call.version))


def _wants_few(engine: Engine, groups: tuple[OffsetFetchRequestGroup, ...]) -> bool:
    """Return whether so few partitions are wanted that their offsets are fetched at once."""
    work = _GROUP_WORK * len(groups)
    for group in groups:
        work += len(group.group_id) // _CHARACTERS
        if group.topics is not None:
            work += len(group.topics)
        if work > PART_PARTITIONS:
            return False
        if group.topics is not None:
            for topic in group.topics:
                work += len(topic.partition_indexes)
        else:
            work += engine.world.partitions.owner(group.group_id).shard.offsets.count_up_to(
                PART_PARTITIONS, group.group_id
            )
    return work <= PART_PARTITIONS


def _fetch_in_steps(
    engine: Engine,
    all_wanted: tuple[OffsetFetchRequestGroup, ...],
    request: OffsetFetchRequest,
    call: Call,
    where: Where,
) -> Steps[Any]:
    """Fetch offsets part by part, the first one behind other requests as well: to name all of a group takes long."""
    yield
    groups: list[Any] = []
    budget = ResponseBudget()
    work = 0  # since the last step, counted in partitions
    for wanted in all_wanted:
        topics = JoinedTopics()
        for part, goes_on in _parts(engine, wanted, call):
            if work >= PART_PARTITIONS:
                work = 0
                yield
            group = _fetch(engine, part, request, call, where)
            work += _GROUP_WORK + len(group.group_id) // _CHARACTERS + len(group.topics)
            partitions = sum([len(topic.partitions) for topic in group.topics])
            work += partitions
            budget.charge_elements(1 + len(group.topics) + partitions)
            # Before groups there is one, and its topics have another form.
            found = merge_groups((group,), request, call.version) if call.version < GROUPS_SINCE else group
            if group.error_code:
                break
            topics.add(found.topics, goes_on=goes_on)
        groups.append(found if group.error_code else replace(found, topics=(yield from topics.freeze())))
    if call.version < GROUPS_SINCE:
        return groups[0]
    return OffsetFetchResponse(groups=tuple(groups))


def _parts(
    engine: Engine, wanted: OffsetFetchRequestGroup, call: Call
) -> Iterable[tuple[OffsetFetchRequestGroup, bool]]:
    """Cut what is wanted of a group into parts, if it is much."""
    partition = engine.world.partitions.owner(wanted.group_id)
    named = name_topics(wanted, call.version, partition.shard.offsets, partition.shard.topics)
    topics = named.topics or ()
    if len(topics) + sum([len(topic.partition_indexes) for topic in topics]) <= PART_PARTITIONS:
        return ((named, False),)
    return cut_topics(named, "partition_indexes")


def _fetch(
    engine: Engine, wanted: OffsetFetchRequestGroup, request: OffsetFetchRequest, call: Call, where: Where
) -> OffsetFetchResponseGroup:
    partition = engine.world.partitions.owner(wanted.group_id)
    if code := engine.world.coordinators.refuse(partition, where):
        return refuse_group(wanted.group_id, code)
    return partition.shard.fetch_offsets(wanted, call.version, require_stable=request.require_stable)


def describe(kind: Kind) -> Callable[[Engine, Any, Call, Where], Steps[Any]]:
    """Return the handler of the API that describes groups of a kind: each by itself, in steps."""
    described = kind.description

    def handle(engine: Engine, request: Any, call: Call, where: Where) -> Steps[Any]:
        budget, known = ResponseBudget(), dict[str, tuple[Any, int]]()

        def describe_once(group_id: str) -> Any:
            """Describe a group once; one that is named again is the same entry again."""
            found = known.get(group_id)
            if found is None:
                entry = describe_one(group_id)
                found = known[group_id] = entry, weigh(entry)
            budget.charge(found[1])
            return found[0]

        def describe_one(group_id: str) -> Any:
            partition = engine.world.partitions.owner(group_id)
            if code := engine.world.coordinators.refuse(partition, where):
                return described.entry(error_code=code, group_id=group_id)
            entry = partition.shard.describe(kind, group_id, call)
            if request.include_authorized_operations and not entry.error_code:
                entry = replace(entry, authorized_operations=GROUP_OPERATIONS)
            return entry

        group_ids = getattr(request, described.ids)
        entries = yield from map_in_steps(
            group_ids, describe_once, units=lambda one: 1 if one in known else _group_units(engine, one)
        )
        return described.response(groups=tuple(entries))

    return handle


def _group_units(engine: Engine, group_id: str) -> int:
    """Return what it takes to describe a group: each member is a small entry."""
    group = engine.world.partitions.owner(group_id).shard.groups.get(group_id)
    return name_units(group_id) + (0 if group is None else len(group.members))


def list_groups(engine: Engine, request: ListGroupsRequest, call: Call, where: Where) -> Steps[ListGroupsResponse]:
    """List the groups that the broker coordinates, in steps; none while it loads some of them: the list would lack
    them."""
    own = [
        one
        for one in engine.world.partitions
        if engine.world.coordinators.refuse(one, where) != ErrorCode.NOT_COORDINATOR
    ]
    loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    if not all(partition.is_loaded for partition in own):
        return loading
    wanted, pace, budget = Filters(request), Pace(), ResponseBudget()
    groups: list[ListGroupsResponseListedGroup] = []
    for partition in own:
        if not partition.is_loaded:  # it has moved between two steps
            return loading
        for group in partition.shard.list_groups():
            if pace.is_due():
                yield
            if wanted.has(group):
                budget.charge_elements(1)
                groups.append(group)
    return ListGroupsResponse(groups=tuple(groups))


def delete_groups(
    engine: Engine, request: DeleteGroupsRequest, call: Call, where: Where
) -> Steps[DeleteGroupsResponse]:
    """Delete each group by itself, and each once, in steps."""
    pace, results = Pace(), []
    for group_id in dict.fromkeys(request.groups_names):
        if pace.is_due(_end_units(engine, group_id)):
            yield
        results.append((yield from _delete(engine, group_id, call, where)))
    return DeleteGroupsResponse(results=tuple(results))


def _end_units(engine: Engine, group_id: str) -> int:
    """Return what it takes to end a group, as far as that is done at once."""
    offsets = engine.world.partitions.owner(group_id).shard.offsets
    return name_units(group_id) + min(offsets.count_up_to(TOMBSTONES_A_STEP, group_id), TOMBSTONES_A_STEP)


def _delete(engine: Engine, group_id: str, call: Call, where: Where) -> Steps[DeleteGroupsResponseDeletableGroupResult]:
    """Delete a group by itself: one that fails leaves the others deleted."""
    partition = engine.world.partitions.owner(group_id)
    if code := engine.world.coordinators.refuse(partition, where):
        return DeleteGroupsResponseDeletableGroupResult(group_id, code)
    ended = yield from engine.world.edge.attempt_steps(
        "DeleteGroups", _end_share_states(engine, partition, group_id, call)
    )
    if ended != ErrorCode.NONE:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if isinstance(ended, Failure) else ended
        return DeleteGroupsResponseDeletableGroupResult(group_id, code)
    result = engine.world.edge.attempt("DeleteGroups", partition.shard.delete, group_id, call)
    if isinstance(result, Failure):
        return DeleteGroupsResponseDeletableGroupResult(group_id, ErrorCode.UNKNOWN_SERVER_ERROR)
    deleted: DeleteGroupsResponseDeletableGroupResult = engine.take(partition, result)
    return deleted


def _end_share_states(engine: Engine, partition: Partition, group_id: str, call: Call) -> Steps[ErrorCode]:
    """End what the share coordinator keeps for a group, if it is about to be deleted; again, if an administrator has
    had some of it begun meanwhile. Returns why that cannot be."""
    code = ErrorCode.NONE
    while not code:
        group = partition.shard.groups.get(group_id)
        if group is None or not group.is_empty or not kind_of(group).has_share_states:
            break
        ended = engine.take(partition, partition.shard.handle(EndAllShareStates(group_id), call))
        if not isinstance(ended, InSteps):  # there are none
            break
        outcome = yield from ended.steps
        assert isinstance(outcome, Done), "what the share coordinator says is a response"
        code = outcome.response
    return code


def share_group_offsets(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
    """Alter or delete the offsets of a share group. The response rests on the states of its partitions, too, which are
    begun in steps."""
    outcome = one_group(engine, request, call, where)
    if not isinstance(outcome, Done):
        return outcome
    if isinstance(outcome.response, InSteps):
        return begin(outcome.response.steps)
    return Done(outcome.response)


def add_offsets_to_txn(engine: Engine, request: AddOffsetsToTxnRequest, call: Call, where: Where) -> Any:
    """Let the partition that keeps the group's offsets join the transaction."""
    if code := engine.world.coordinators.refuse_transaction(request.transactional_id, where):
        return error_response(request, call.version, code)
    index = engine.world.partitions.owner(request.group_id).index
    return engine.record(adding.add_offsets_to_txn(engine.world.ledger.transactions, index, request, call), call.now_ms)


def txn_offset_commit(engine: Engine, request: TxnOffsetCommitRequest, call: Call, where: Where) -> Decision:
    """Commit offsets in a transaction, those of many partitions in parts."""
    if not is_long(request):
        return _txn_commit(engine, request, call, where)
    return InSteps(decide_in_parts(request, lambda part: _txn_commit(engine, part, call, where)))


def _txn_commit(engine: Engine, request: TxnOffsetCommitRequest, call: Call, where: Where) -> Outcome:
    """Check that the transaction has the group's partition in it; from version 5 on it takes it in.

    Nobody is asked about offsets of partitions that do not exist (Kafka: `handleTxnOffsetCommitRequest`).
    """
    topics = engine.world.ledger.catalog.topics
    names_any = any(
        topics.has_partition(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    )
    error = _not_in_transaction(engine, request, call) if request.group_id and names_any else ErrorCode.NONE
    if error:
        return Done(refuse_txn_commit(request, topics, error))
    outcome = one_group(engine, request, call, where)
    return Done(outcome.response) if isinstance(outcome, Done) else outcome  # it rests on the transaction as well


def _not_in_transaction(engine: Engine, request: TxnOffsetCommitRequest, call: Call) -> ErrorCode:
    """Return why the producer may not commit this group's offsets now; NONE when it may (O-116, KIP-890).

    As for Produce, the log is asked before the transaction: it refuses older epochs than it knows, and lets an open
    transaction go on. Kafka: `ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
    """
    transactions = engine.world.ledger.transactions
    producer = (request.producer_id, request.producer_epoch)
    owner = engine.world.partitions.owner(request.group_id)
    partition = (OFFSETS_TOPIC, owner.index)
    joins, verifies = call.version >= _JOINS_SINCE, engine.world.config["transaction.partition.verification.enable"]
    if (joins or verifies) and not engine.world.coordinators.is_transaction_served(request.transactional_id):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    known = owner.log.producers.get(request.producer_id) if (joins or verifies) and owner.has_log else None
    if known is not None and request.producer_epoch < known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if known is not None and request.producer_epoch == known.epoch and known.first_open_offset is not None:
        return ErrorCode.NONE
    if joins:
        outcome = add_to_transaction(transactions, request.transactional_id, producer, (partition,), call.now_ms)
        if not isinstance(outcome, ErrorCode):
            engine.record(outcome, call.now_ms)
            return ErrorCode.NONE
        error = outcome
    elif verifies:
        error = verify_partition(transactions, request.transactional_id, producer, partition)
    else:
        return ErrorCode.NONE
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and call.version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error
