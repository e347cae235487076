"""What stands before a message in its frame.

    request   api_key i16 · version i16 · correlation_id i32 · client_id string · tags where the version is flexible
    response  correlation_id i32 · tags where the version is flexible, but never for ApiVersions

ApiVersions is answered with the plain header in all versions, since the client does not yet know what the server can
read (KIP-511). The client id is never compact, so that a server can read it whatever the version (KIP-482). Kafka
defines no tagged fields of headers so far: what is there is skipped.
"""

from __future__ import annotations

from typing import Any

from construct import Construct

from protocol.apis import API
from protocol.schema import Message
from protocol.structs import StructOf, TagSection
from protocol.wire import INT16, INT32, PLAIN_NULLABLE_STRING

_API_KEY = _VERSION = INT16.at(0, False)
_CORRELATION_ID = INT32.at(0, False)
_CLIENT_ID = PLAIN_NULLABLE_STRING.at(0, False)


class Request(Message):
    """A request with its header. `body` is the message that the API's request schema names."""

    api_key: int = 0
    version: int = 0
    correlation_id: int = 0
    client_id: str | None = None
    body: Any = None


class Response(Message):
    """A response with its header, as a client reads it."""

    correlation_id: int = 0
    body: Any = None


def request_frame(api: API, version: int) -> StructOf:
    """Return the construct of a whole request, header and body, without the frame's size."""
    members: list[tuple[str, Construct]] = [
        ("api_key", _API_KEY),
        ("version", _VERSION),
        ("correlation_id", _CORRELATION_ID),
        ("client_id", _CLIENT_ID),
    ]
    if api.request_header_version(version) == 2:
        members.append(("", TagSection()))
    return StructOf(Request, (*members, ("body", api.request.at(version, api.is_flexible(version)))))


def response_frame(api: API, version: int) -> StructOf:
    """Return the construct of a whole response, header and body, without the frame's size."""
    members: list[tuple[str, Construct]] = [("correlation_id", _CORRELATION_ID)]
    if api.response_header_version(version) == 1:
        members.append(("", TagSection()))
    return StructOf(Response, (*members, ("body", api.response.at(version, api.is_flexible(version)))))
