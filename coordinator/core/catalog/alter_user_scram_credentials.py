"""AlterUserScramCredentials: set and delete what the server knows of users' passwords (KIP-554).

Shown by tests/core/catalog/test_scram.py and tests/conformance/stories/admin_cluster.py.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import CatalogRecord, ScramKey, ScramValue
from coordinator.core.pace import Pace
from coordinator.core.prices import Room
from coordinator.core.refusal import Refusal, truncate
from coordinator.core.result import Call, Decisions, Result
from coordinator.core.scram import BY_NUMBER, ITERATIONS_MAX, ITERATIONS_MIN, derive_credential
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseAlterUserScramCredentialsResult,
)

Deletion = AlterUserScramCredentialsRequestScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequestScramCredentialUpsertion

SALT_BYTES_MAX: Final = 1_024
_DERIVATION_UNITS: Final = 5  # what it takes to derive the keys of one user
CREDENTIALS_MAX: Final = 100_000  # a bound on what clients can make us keep

_TWICE: Final = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def alter_user_scram_credentials(catalog: Catalog, request: AlterUserScramCredentialsRequest, call: Call) -> Decisions:
    """Alter the credentials of each user that is named once; a mistake in one leaves the others alone.

    Kafka: `ScramControlManager.alterCredentials`.
    """
    by_user: dict[str, list[Deletion | Upsertion]] = {}
    pace = Pace()
    changes: Iterable[Deletion | Upsertion] = chain(request.deletions, request.upsertions)
    for change in changes:
        if pace.is_due():
            yield Result()
        by_user.setdefault(change.name, []).append(change)
    results: list[AlterUserScramCredentialsResponseAlterUserScramCredentialsResult] = []
    records: list[CatalogRecord] = []
    room = Room(catalog.held)
    for user, asked in by_user.items():
        if pace.is_due(_DERIVATION_UNITS):
            yield Result(records=tuple(records))
            records.clear()
            room.begin_step()
        outcome = _validate(catalog, asked[0]) or (_TWICE if len(asked) > 1 else _take_room(room, asked[0]))
        if isinstance(outcome, CatalogRecord):
            records.append(outcome)
        results.append(_result(user, outcome))
    yield Result(records=tuple(records), response=AlterUserScramCredentialsResponse(results=tuple(results)))


def _validate(catalog: Catalog, change: Deletion | Upsertion) -> Refusal | None:
    if not change.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    is_there = (change.name, mechanism.number) in catalog.scram
    if isinstance(change, Deletion):
        message = "Attempt to delete a user credential that does not exist"
        return None if is_there else Refusal(ErrorCode.RESOURCE_NOT_FOUND, message)
    if change.iterations < ITERATIONS_MIN:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salted_password:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which finds that no key can be empty
    if len(change.salt) > SALT_BYTES_MAX:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt is too long")
    if not is_there and len(catalog.scram) >= CREDENTIALS_MAX:
        return Refusal(ErrorCode.POLICY_VIOLATION, f"There are {CREDENTIALS_MAX} credentials already")
    return None


def _take_room(room: Room, change: Deletion | Upsertion) -> Refusal | CatalogRecord:
    record = _record(change)
    return room.take((record,)) or record


def _record(change: Deletion | Upsertion) -> CatalogRecord:
    key = ScramKey(change.name, change.mechanism)
    if isinstance(change, Deletion):
        return CatalogRecord(key, None)
    made = derive_credential(BY_NUMBER[change.mechanism], change.salt, change.iterations, change.salted_password)
    return CatalogRecord(key, ScramValue(made.salt, made.stored_key, made.server_key, made.iterations))


def _result(
    user: str, outcome: Refusal | CatalogRecord
) -> AlterUserScramCredentialsResponseAlterUserScramCredentialsResult:
    if isinstance(outcome, Refusal):
        message = None if outcome.message is None else truncate(outcome.message)
        return AlterUserScramCredentialsResponseAlterUserScramCredentialsResult(user, outcome.error, message)
    return AlterUserScramCredentialsResponseAlterUserScramCredentialsResult(user)
