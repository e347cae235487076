"""The one door between bytes and messages. Past it there are frozen messages, and one error: `ProtocolError`.

request = decode_request(frame)               # frame: without its four bytes of size, as FrameBuffer gives it
answer = encode_response(request.api_key, request.version, request.correlation_id, message)    # with them
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any

from protocol import interpret
from protocol.apis import APIS
from protocol.constructs import StructOf
from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.header import Request, Response, request_frame, response_frame
from protocol.schema import Message, Schema

_SIZE = Struct(">i")
_HEAD = Struct(">hhi")


def decode_request(frame: bytes) -> Request:
    """A server's reading of a frame, its size already taken off. Bytes behind the message are ignored, as Kafka does.

    Raises `UnsupportedVersion` for an API or a version that nobody here can read, `ProtocolError` for all else.
    """
    if len(frame) < _HEAD.size:
        raise ProtocolError(f"{len(frame)} bytes are too few for a request header", offset=len(frame))
    api_key, version, correlation_id = _HEAD.unpack_from(frame)
    root = _request(api_key, version)
    if root is None:
        raise UnsupportedVersion(api_key, version, correlation_id)
    request: Request = interpret.parse(root, frame)
    return request


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Message) -> bytes:
    """A client's frame, with its size."""
    request = Request(api_key, version, correlation_id, client_id, body)
    return _framed(interpret.build(_known(_request(api_key, version), api_key, version, correlation_id), request))


def decode_response(api_key: int, version: int, frame: bytes) -> Response:
    """A client's reading of a frame, its size already taken off."""
    response: Response = interpret.parse(_known(_response(api_key, version), api_key, version, -1), frame)
    return response


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> bytes:
    """A server's frame, with its size."""
    root = _known(_response(api_key, version), api_key, version, correlation_id)
    return _framed(interpret.build(root, Response(correlation_id, message)))


def read(schema: Schema, data: bytes, version: int, flexible: bool = False) -> Any:
    """A message that is not a request or response: one embedded in another, or a record in a log."""
    return interpret.parse(schema.at(version, flexible), data)


def write(schema: Schema, message: Message, version: int, flexible: bool = False) -> bytes:
    """The bytes of a message that is not a request or response."""
    return interpret.build(schema.at(version, flexible), message)


@cache
def _request(api_key: int, version: int) -> StructOf | None:
    api = APIS.get(api_key)
    return request_frame(api, version) if api and version in api.versions else None


@cache
def _response(api_key: int, version: int) -> StructOf | None:
    api = APIS.get(api_key)
    return response_frame(api, version) if api and version in api.versions else None


def _known(root: StructOf | None, api_key: int, version: int, correlation_id: int) -> StructOf:
    if root is None:
        raise UnsupportedVersion(api_key, version, correlation_id)
    return root


def _framed(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
