"""SCRAM credentials: who may be altered, what is kept, what is told."""

import base64
from typing import Any

import pytest

from coordinator.core.catalog.alter_user_scram_credentials import alter_user_scram_credentials
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.describe_user_scram_credentials import describe_user_scram_credentials
from coordinator.core.catalog.records import decode, encode
from coordinator.core.result import Call
from coordinator.core.scram import SHA_256, SHA_512, derive_credential, hash_password, is_proof, sign
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
)

CALL = Call(1, 5_000, 0, "c", "/h", lambda: "")
Deletion = AlterUserScramCredentialsRequestScramCredentialDeletion


def upsertion(name: str, mechanism: int = 1, iterations: int = 4_096, salt: bytes = b"salt") -> Any:
    return AlterUserScramCredentialsRequestScramCredentialUpsertion(name, mechanism, iterations, salt, b"salted")


def alter(catalog: Catalog, *changes: Any) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        tuple(one for one in changes if isinstance(one, Deletion)),
        tuple(one for one in changes if not isinstance(one, Deletion)),
    )
    for result in alter_user_scram_credentials(catalog, request, CALL):
        for record in result.records:
            assert decode(*encode(record)) == record
            catalog.replay(record)
    return {one.user: (one.error_code, one.error_message) for one in result.response.results}


def describe(catalog: Catalog, *names: str) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest(
        tuple(map(DescribeUserScramCredentialsRequestUserName, names)) or None
    )
    response = list(describe_user_scram_credentials(catalog, request, CALL))[-1].response
    return {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos] or ErrorCode(one.error_code).name
        for one in response.results
    }


def test_what_was_set_is_described_and_what_was_deleted_is_not() -> None:
    catalog = Catalog()
    assert describe(catalog) == {}
    assert alter(catalog, upsertion("ann"), upsertion("bob", 2, 8_192)) == {"ann": (0, None), "bob": (0, None)}
    assert alter(catalog, upsertion("ann", 2)) == {"ann": (0, None)}
    assert describe(catalog) == {"ann": [(1, 4_096), (2, 4_096)], "bob": [(2, 8_192)]}
    assert alter(catalog, Deletion("ann", 1)) == {"ann": (0, None)}
    assert describe(catalog, "ann", "eve", "bob", "bob") == {
        "ann": [(2, 4_096)],
        "eve": "RESOURCE_NOT_FOUND",
        "bob": "DUPLICATE_RESOURCE",
    }


def test_the_salted_password_is_not_kept() -> None:
    catalog = Catalog()
    alter(catalog, upsertion("ann"))
    kept = catalog.scram["ann", 1]
    assert b"salted" not in kept.stored_key + kept.server_key
    assert kept.stored_key == derive_credential(SHA_256, b"salt", 4_096, b"salted").stored_key


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ((upsertion(""),), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ((upsertion("u", 3),), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ((upsertion("u", 0),), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ((upsertion("u", 1, 4_095),), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ((upsertion("u", 1, 16_385),), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ((upsertion("u", salt=bytes(1_025)),), ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt is too long"),
        (
            (Deletion("u", 1),),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        (
            (upsertion("u"), upsertion("u", 2), upsertion("u", 2)),
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
    ],
)
def test_a_mistake_changes_nothing_and_leaves_the_others_alone(
    changes: tuple[Any, ...], error: ErrorCode, message: str
) -> None:
    catalog = Catalog()
    answered = alter(catalog, *changes, upsertion("other"))
    assert answered.pop("other") == (0, None)
    assert list(answered.values()) == [(error, message)]
    assert [user for user, _ in catalog.scram] == ["other"]


def test_there_is_room_for_so_many_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.core.catalog.alter_user_scram_credentials.CREDENTIALS_MAX", 2)
    catalog = Catalog()
    assert alter(catalog, upsertion("a"), upsertion("b")) == {"a": (0, None), "b": (0, None)}
    full = (ErrorCode.POLICY_VIOLATION, "There are 2 credentials already")
    assert alter(catalog, upsertion("a"), upsertion("c")) == {"a": (0, None), "c": full}


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_proof_is_made_with_the_password_and_with_no_other(mechanism: Any) -> None:
    salted = hash_password(mechanism, "secret", b"salt", 4_096)
    credential = derive_credential(mechanism, b"salt", 4_096, salted)
    for password, is_right in (("secret", True), ("Secret", False)):
        client_key = sign(mechanism, hash_password(mechanism, password, b"salt", 4_096), b"Client Key")
        signature = sign(mechanism, credential.stored_key, b"message")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        assert is_proof(mechanism, credential, b"message", proof) is is_right
        assert not is_proof(mechanism, credential, b"message", proof[1:])
        assert not is_proof(mechanism, credential, b"another", proof)


def test_keys_are_those_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hash_password(SHA_256, "pencil", salt, 4_096)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    server_key = derive_credential(SHA_256, salt, 4_096, salted).server_key
    signature = sign(SHA_256, server_key, message.encode())
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
