"""Prints one frame of Kafka's protocol as JSON, each field by its path. For the day a client misbehaves.

A request says itself what it is. A response does not: name the API and version of its request. A frame is read from hex
digits, from a file of bytes or, as -, from standard input; its four bytes of size may be there or not. What cannot be
read is said with the field's path and the byte at which reading stopped, and the exit code is 2.
"""

import argparse
import json
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from construct import Bytes, Construct

from coordinator.cli import fail
from protocol import interpret
from protocol.apis import API, APIS, BY_NAME
from protocol.constructs import ArrayOf
from protocol.errors import ErrorCode, ProtocolError
from protocol.header import request_frame, response_frame
from protocol.structs import NullableStruct, StructOf, TagSection

HELP = "print a frame of Kafka's protocol as JSON"
_CODES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}


class InputError(Exception):
    """What was given is no frame that could be looked at."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument("--request", action="store_true", help="what a client sent (the default)")
    direction.add_argument("--response", action="store_true", help="what a server answered; needs --api and --version")
    parser.add_argument("--api", help="a key or Kafka's name: 11 or JoinGroup")
    parser.add_argument("--version", type=int, help="the version of the request")
    parser.add_argument("frame", metavar="HEX|FILE", help="hex digits, the name of a file, or - for standard input")


def run(args: argparse.Namespace) -> int:
    try:
        frame = _unsized(_bytes(args.frame))
        print(json.dumps(described(frame, args.response, args.api, args.version), ensure_ascii=False, indent=2))
    except (InputError, ProtocolError, OSError) as error:
        return fail("decode", error, 2)
    return 0


def described(frame: bytes, is_response: bool, api_word: str | None, version: int | None) -> dict[str, Any]:
    """The frame as a JSON object: what it is, and its fields by their paths."""
    if is_response:
        if api_word is None or version is None:
            raise InputError("a response does not say what it is: give --api and --version")
        api = _known(_key(api_word), version)
        root = response_frame(api, version)
    else:
        api, version = _asked(frame, api_word, version)
        root = request_frame(api, version)
    try:
        message, used = interpret.measured(root, frame)
    except ProtocolError as error:
        raise error.of(api.name, version) from None
    fields = dict(_fields(root, message, ""))
    codes = {path: _CODES.get(value, "?") for path, value in fields.items() if path.endswith("error_code") and value}
    return {
        "api": api.name,
        "version": version,
        "direction": "response" if is_response else "request",
        "bytes": len(frame),
        "surplus_bytes": len(frame) - used,
        "fields": fields,
        **({"errors": codes} if codes else {}),
    }


def _asked(frame: bytes, api_word: str | None, version: int | None) -> tuple[API, int]:
    """What a request says it is, if that is what it was said to be."""
    if len(frame) < 4:
        raise InputError(f"{len(frame)} bytes are too few for a request")
    key, own = int.from_bytes(frame[:2], signed=True), int.from_bytes(frame[2:4], signed=True)
    api = _known(key, own)
    if (api_word is not None and _key(api_word) != key) or version not in (None, own):
        raise InputError(f"the request says that it is {api.name} v{own}")
    return api, own


def _key(word: str) -> int:
    """An API by its key or its name, in upper or lower case."""
    keys = {api.name.lower(): api.key for api in BY_NAME.values()}
    if word.lower() in keys:
        return keys[word.lower()]
    try:
        return int(word)
    except ValueError:
        raise InputError(f"no API is called {word}") from None


def _known(key: int, version: int) -> API:
    api = APIS.get(key)
    if api is None:
        raise InputError(f"API {key} is not known here")
    if version not in api.versions:
        raise InputError(f"{api.name} v{version} is not known here, only v0 to v{api.versions[-1]}")
    return api


def _bytes(word: str) -> bytes:
    if word == "-":
        return _of_hex(sys.stdin.buffer.read())
    path = Path(word)
    try:
        is_file = path.is_file()
    except OSError:  # hex longer than the name of a file may be
        is_file = False
    return _of_hex(path.read_bytes()) if is_file else _of_hex(word.encode(), must=True)


def _of_hex(data: bytes, must: bool = False) -> bytes:
    """The bytes that hex digits stand for. What is no hex is taken as it is, unless it must be."""
    try:
        return bytes.fromhex(data.decode("ascii").replace(":", " ").removeprefix("0x"))
    except ValueError:
        if must:
            raise InputError(f"{data.decode(errors='replace')} is neither hex digits nor a file") from None
        return data


def _unsized(data: bytes) -> bytes:
    """A frame without its size, if it has one."""
    return data[4:] if len(data) > 4 and int.from_bytes(data[:4]) == len(data) - 4 else data


def _fields(subcon: Construct, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each field of a value, by its path: `topics[0].name`."""
    if isinstance(subcon, StructOf) and value is not None:
        for name, member in subcon.members:
            if isinstance(member, TagSection):
                for field in member.fields:
                    yield from _fields(field.subcon, getattr(value, field.name), _joined(path, field.name))
            else:
                yield from _fields(member, getattr(value, name), _joined(path, name))
    elif isinstance(subcon, NullableStruct) and value is not None:
        yield from _fields(subcon.subcon, value, path)
    elif isinstance(subcon, ArrayOf) and value:
        for index, element in enumerate(value):
            yield from _fields(subcon.element, element, f"{path}[{index}]")
    else:
        yield path, _shown(subcon, value)


def _joined(path: str, name: str) -> str:
    """The header's fields and the message's stand side by side, as in Kafka's documents."""
    return name if path in ("", "body") else f"{path}.{name}"


def _shown(subcon: Construct, value: Any) -> Any:
    """A value as JSON has it: UUIDs in Kafka's base 64, bytes as hex."""
    if isinstance(subcon, Bytes):
        return urlsafe_b64encode(value).decode().rstrip("=")
    return value.hex() if isinstance(value, bytes) else value
