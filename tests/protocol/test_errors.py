"""The error codes against an independent list, and what a ProtocolError says."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from protocol.errors import ErrorCode, ProtocolError, UnreadableValue, UnsupportedVersion


def test_the_codes_and_their_names_are_kafkas() -> None:
    assert {code.name.lower(): int(code) for code in ErrorCode} == {code.name: int(code) for code in KioErrorCode}


def test_an_error_says_whose_bytes_what_where_and_at_which_byte() -> None:
    error = ProtocolError("3 bytes where 2 are left", path="topics[1].name", offset=17, api="Fetch", version=4)
    assert str(error) == "Fetch v4: 3 bytes where 2 are left in topics[1].name at byte 17"
    assert str(ProtocolError("no")) == str(UnreadableValue("no")) == "no"


def test_r11_an_unsupported_version_is_a_protocol_error_of_its_own() -> None:
    error = UnsupportedVersion(18, 9, 1234)
    assert isinstance(error, ProtocolError)
    assert (error.api_key, error.version, error.correlation_id) == (18, 9, 1234)
    assert str(error) == "version 9 of API 18 is not supported"
