"""AlterClientQuotas: set and take back quotas. Kafka: `ClientQuotaControlManager.alterClientQuotas`.

Shown by tests/core/quotas/test_*.py and tests/conformance/stories/quotas.py.
"""

from typing import Final

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import CatalogRecord, QuotaKey, QuotaPart, QuotaValue
from coordinator.core.pace import Pace
from coordinator.core.prices import Room
from coordinator.core.quotas.entities import Entity, entity_of, refuse_entity, refuse_value, stored_value
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestOpData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)

_ENTITY_UNITS: Final = 2  # for an entity, and for each of its keys
QUOTAS_MAX: Final = 100_000  # a bound on what clients can make us keep


def alter_client_quotas(catalog: Catalog, request: AlterClientQuotasRequest, call: Call) -> Decisions:
    """Alter the quotas of each entity: all that is asked of one, or nothing of it."""
    asked: dict[Entity, list[tuple[AlterClientQuotasRequestOpData, ...]]] = {}
    pace = Pace()
    for entry in request.entries:
        if pace.is_due():
            yield Result()
        asked.setdefault(entity_of(entry.entity), []).append(entry.ops)
    answers: list[AlterClientQuotasResponseEntryData] = []
    records: list[CatalogRecord] = []
    room = Room(catalog.held)
    for entity, ops in asked.items():
        if pace.is_due(_ENTITY_UNITS * (1 + sum(map(len, ops)))):
            yield Result(records=tuple(records))
            records.clear()
            room.begin_step()
        wrong = _validate(catalog, entity, ops)
        changed = (
            []
            if wrong
            else [_record(entity, op) for op in ops[0] if not op.remove or op.key in catalog.quotas.of(entity)]
        )
        wrong = wrong or room.take(changed)
        told = tuple([AlterClientQuotasResponseEntityData(kind, name) for kind, name in entity])
        error, message = (ErrorCode.NONE, None) if wrong is None else (wrong.error, wrong.message)
        answers.append(AlterClientQuotasResponseEntryData(error, message, told))
        records += () if wrong or request.validate_only else changed
    yield Result(response=AlterClientQuotasResponse(entries=tuple(answers)), records=tuple(records))


def _validate(
    catalog: Catalog, entity: Entity, ops: list[tuple[AlterClientQuotasRequestOpData, ...]]
) -> Refusal | None:
    if len(ops) > 1 or len({op.key for op in ops[0]}) < len(ops[0]):
        return Refusal(ErrorCode.INVALID_REQUEST, "An entity, or a key of it, is there twice.")
    if (wrong := refuse_entity(entity)) is not None:
        return wrong
    known = catalog.quotas.of(entity)
    more = sum([(not op.remove) - (op.key in known) for op in ops[0]])
    if more > 0 and len(catalog.quotas) + more > QUOTAS_MAX:
        return Refusal(ErrorCode.POLICY_VIOLATION, f"There is room for {QUOTAS_MAX} quotas here.")
    refusals = (refuse_value(entity, op.key, None if op.remove else op.value) for op in ops[0])
    return next((one for one in refusals if one is not None), None)


def _record(entity: Entity, op: AlterClientQuotasRequestOpData) -> CatalogRecord:
    key = QuotaKey(tuple([QuotaPart(kind, name) for kind, name in entity]), op.key)
    return CatalogRecord(key, None if op.remove else QuotaValue(stored_value(op.key, op.value)))
