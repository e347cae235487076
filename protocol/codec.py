"""The one door between bytes and messages. Past it there are frozen messages, and one error: `ProtocolError`.

    request = decode_request(frame)        # as FrameBuffer gives it, without its four bytes of size
    answer = encode_response(request.api_key, request.version, request.correlation_id, message)    # with them

The functions that do the work are generated at the first use of a version (`protocol.decoder`, `protocol.encoder`).
What they refuse is given to construct's own interpretation, which says where and why; it never gives another answer.
Should it do so after all, that is a mistake of ours which costs a server the one connection, and a test its life.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from struct import Struct
from typing import Any, NoReturn

from protocol import bounds, interpret
from protocol.apis import API, APIS
from protocol.decoder import UNREADABLE, decoder, decoder_in_steps
from protocol.encoder import UNWRITABLE, encoder, encoder_in_pieces
from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.header import Request, Response, request_frame, response_frame
from protocol.schema import Message, Schema
from protocol.structs import StructOf
from protocol.traits import Trait

Decoder = Callable[[bytes], Any]
Encoder = Callable[..., bytes]

EXPLAINED_BYTES_MAX = 4 * 1024  # the interpretation is slow (6 ms for that many): an error beyond is not located
_SHOWN_BYTES_MAX = 64  # of a frame, or characters of a message, on which the two disagree
_HEAD = Struct(">hhi")
write_correlation_id = Struct(">i").pack
"""The bytes of a correlation id. Every header of a response begins with it (`header`), so the same response to another
request is `frame[:4] + write_correlation_id(its correlation id) + frame[8:]`."""

is_strict = False
"""Whether a disagreement of the fast codec with construct is an AssertionError: in tests, which set this."""

# Only what exists gets in, so that no client can make these grow.
_request_decoders: dict[bytes, Decoder] = {}  # by the first four bytes of a frame: key and version
_request_step_decoders: dict[bytes, Callable[[bytes], Generator[None, None, Request]]] = {}
_request_encoders: dict[tuple[int, int], Encoder] = {}
_response_decoders: dict[tuple[int, int], Decoder] = {}
_response_encoders: dict[tuple[int, int], Encoder] = {}
_response_piece_encoders: dict[tuple[int, int], Callable[..., Iterator[bytes]]] = {}
_readers: dict[tuple[Schema, int, bool], Decoder] = {}
_writers: dict[tuple[Schema, int, bool], Encoder] = {}


def decode_request(frame: bytes) -> Request:
    """Return a server's reading of a frame, its size already taken off. Bytes behind the message are ignored, as Kafka
    does.

    Raises `UnsupportedVersion` for an API or a version that nobody here can read, `ProtocolError` for all else.
    """
    decode = _request_decoders.get(frame[:4]) or _new_request_decoder(frame)
    try:
        request: Request = decode(frame)
    except UNREADABLE as error:
        api, version = _head(frame)
        _raise_unreadable(request_frame(api, version), frame, api.name, version, error)
    return request


def decode_request_in_steps(frame: bytes) -> Generator[None, None, Request]:
    """Read a long frame in steps of about a millisecond. Returns and raises the same as `decode_request`."""
    decode = _request_step_decoders.get(frame[:4])
    if decode is None:
        api, version = _head(frame)
        decode = decoder_in_steps(request_frame(api, version), is_small=Trait.LARGE not in api.traits)
        _request_step_decoders[bytes(frame[:4])] = decode
    try:
        return (yield from decode(frame))
    except UNREADABLE as error:
        api, version = _head(frame)
        _raise_unreadable(request_frame(api, version), frame, api.name, version, error)


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> bytes:
    """Return a server's frame, with its size."""
    encode = _response_encoders.get((api_key, version))
    if encode is None:
        encode = encoder(response_frame(_api(api_key, version, correlation_id), version), framed=True)
        _response_encoders[api_key, version] = encode
    try:
        return encode(correlation_id, message)
    except UNWRITABLE:
        root = response_frame(APIS[api_key], version)
        _raise_unwritable(root, Response(correlation_id, message), APIS[api_key].name, version)


def encode_response_in_pieces(api_key: int, version: int, correlation_id: int, message: Message) -> Iterator[bytes]:
    """Yield a server's frame without its size, in pieces that take about a millisecond each. The iteration raises
    `ProtocolError`."""
    encode = _response_piece_encoders.get((api_key, version))
    if encode is None:
        encode = encoder_in_pieces(response_frame(_api(api_key, version, correlation_id), version))
        _response_piece_encoders[api_key, version] = encode
    try:
        yield from encode(correlation_id, message)
    except UNWRITABLE:
        root = response_frame(APIS[api_key], version)
        _raise_unwritable(root, Response(correlation_id, message), APIS[api_key].name, version)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message) -> bytes:
    """Return a client's frame, with its size."""
    encode = _request_encoders.get((api_key, version))
    if encode is None:
        encode = encoder(request_frame(_api(api_key, version, correlation_id), version), framed=True)
        _request_encoders[api_key, version] = encode
    try:
        return encode(api_key, version, correlation_id, client_id, message)
    except UNWRITABLE:
        request = Request(api_key, version, correlation_id, client_id, message)
        _raise_unwritable(request_frame(APIS[api_key], version), request, APIS[api_key].name, version)


def decode_response(api_key: int, version: int, frame: bytes) -> Response:
    """Return a client's reading of a frame, its size already taken off."""
    decode = _response_decoders.get((api_key, version))
    if decode is None:
        decode = decoder(response_frame(_api(api_key, version, -1), version), is_response=True)
        _response_decoders[api_key, version] = decode
    try:
        response: Response = decode(frame)
    except UNREADABLE as error:
        _raise_unreadable(response_frame(APIS[api_key], version), frame, APIS[api_key].name, version, error)
    return response


def read(schema: Schema, data: bytes, version: int, *, flexible: bool = False) -> Any:
    """Return a message that is neither request nor response: one inside another, or a record of a log.

    What is behind it in `data` is ignored.
    """
    decode = _readers.get((schema, version, flexible))
    if decode is None:
        decode = _readers[schema, version, flexible] = decoder(schema.at(version, flexible))
    try:
        return decode(data)
    except UNREADABLE as error:
        _raise_unreadable(schema.at(version, flexible), data, schema.cls.__name__, version, error)


def write(schema: Schema, message: Message, version: int, *, flexible: bool = False) -> bytes:
    """Return the bytes of a message that is neither request nor response."""
    encode = _writers.get((schema, version, flexible))
    if encode is None:
        encode = _writers[schema, version, flexible] = encoder(schema.at(version, flexible))
    try:
        return encode(message)
    except UNWRITABLE:
        _raise_unwritable(schema.at(version, flexible), message, schema.cls.__name__, version)


def _api(api_key: int, version: int, correlation_id: int) -> API:
    api = APIS.get(api_key)
    if api is None or version not in api.versions:
        raise UnsupportedVersion(api_key, version, correlation_id)
    return api


def _head(frame: bytes) -> tuple[API, int]:
    """Whose request it is. The part of the header that is the same in all of its versions."""
    if len(frame) < _HEAD.size:
        raise ProtocolError(f"{len(frame)} bytes are too few for a request header", offset=len(frame))
    api_key, version, correlation_id = _HEAD.unpack_from(frame)
    return _api(api_key, version, correlation_id), version


def _new_request_decoder(frame: bytes) -> Decoder:
    api, version = _head(frame)
    is_small = Trait.LARGE not in api.traits
    decode = _request_decoders[bytes(frame[:4])] = decoder(request_frame(api, version), is_small=is_small)
    return decode


def _raise_unreadable(root: StructOf, data: bytes, name: str, version: int, error: Exception) -> NoReturn:
    """Say why `data` could not be read."""
    if len(data) > EXPLAINED_BYTES_MAX:
        reason = str(error) if isinstance(error, bounds.OverBudget) else "bytes that this schema does not have"
        raise ProtocolError(reason, api=name, version=version) from None
    try:
        interpret.parse(root, data)
    except ProtocolError as located:
        raise located.of(name, version) from None
    shown = f"{data[:_SHOWN_BYTES_MAX].hex()} and so on, {len(data)} bytes"
    _disagree(f"the fast decoder refuses what construct reads: {shown}", name, version)


def _raise_unwritable(root: StructOf, value: Message, name: str, version: int) -> NoReturn:
    """Say why `value` could not be written."""
    try:
        interpret.build(root, value)
    except ProtocolError as error:
        raise error.of(name, version) from None
    _disagree(f"the fast encoder refuses what construct writes: {str(value)[:_SHOWN_BYTES_MAX]}", name, version)


def _disagree(how: str, name: str, version: int) -> NoReturn:
    if is_strict:
        raise AssertionError(f"{name} v{version}: {how}")
    raise ProtocolError(how, api=name, version=version) from None
