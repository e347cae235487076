"""Print one frame of Kafka's protocol as JSON, each field by its path.

A request names its API and version. A response does not: give them with --api and --version. The frame is given as hex
digits, as a file, or as - for standard input. A file holds the bytes, hex digits, or a hex dump as Wireshark, tcpdump
-X and xxd write it. The four bytes of the frame's size may be there or not.

If the frame cannot be read, the error names the field and the byte, and the exit code is 2."""

import argparse
import errno
import json
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from construct import Bytes, Construct

from coordinator.cli import fail
from coordinator.cli.hexdump import read_hex
from coordinator.cli.parser import integer, suggest
from coordinator.cli.tables import count
from protocol import interpret
from protocol.apis import API, APIS, BY_NAME
from protocol.constructs import ArrayOf
from protocol.errors import ErrorCode, ProtocolError
from protocol.header import request_frame, response_frame
from protocol.structs import NullableStruct, StructOf, TagSection

EXAMPLES: Final = """\
muster decode 000000170012000300000001000474657374000574657374023100
muster decode --response --api JoinGroup --version 9 frame.bin
muster decode wireshark-hex-dump.txt"""
_CODES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}


class InputError(Exception):
    """The input is not a frame, or the options do not fit it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument("--request", action="store_true", help="the frame is a request (the default)")
    direction.add_argument("--response", action="store_true", help="the frame is a response; needs --api and --version")
    parser.add_argument("--api", help="a key or Kafka's name, such as 11 or JoinGroup")
    parser.add_argument("--version", type=integer(0), metavar="N", help="the API version of the frame")
    parser.add_argument("frame", metavar="HEX|FILE", help="hex digits, the name of a file, or - for standard input")


def run(args: argparse.Namespace) -> int:
    try:
        frame = _strip_size(_read_input(args.frame))
        decoded = to_json(frame, args.response, args.api, args.version)
    except OSError as error:
        return fail("decode", f"invalid frame {args.frame!r}: cannot read it: {error.strerror}", 2)
    except (InputError, ProtocolError) as error:
        return fail("decode", error, 2)
    print(json.dumps(decoded, ensure_ascii=False, indent=2))  # an output that ends is none of the errors above
    return 0


def to_json(frame: bytes, is_response: bool, api_word: str | None, version: int | None) -> dict[str, Any]:
    """Return the frame as a JSON object: what it is, and its fields by their paths."""
    if is_response:
        if api_word is None or version is None:
            raise InputError("a response does not name its API: give --api and --version")
        api = _find_api(_find_key(api_word), version)
        root = response_frame(api, version)
    else:
        api, version = _identify(frame, api_word, version)
        root = request_frame(api, version)
    try:
        message, used = interpret.parse_prefix(root, frame)
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


def _identify(frame: bytes, api_word: str | None, version: int | None) -> tuple[API, int]:
    """Return the API and version that a request names. Raises InputError if `--api` or `--version` names another
    one."""
    if len(frame) < 4:
        raise InputError(f"{count(len(frame), 'byte')} too few for a request: expected 4 at least")
    key, own = int.from_bytes(frame[:2], signed=True), int.from_bytes(frame[2:4], signed=True)
    api = _find_api(key, own)
    if (api_word is not None and _find_key(api_word) != key) or version not in (None, own):
        raise InputError(f"the request is {api.name} v{own}")
    return api, own


def _find_key(word: str) -> int:
    """Return the key of the API that `word` names or numbers, in any case. Raises InputError."""
    keys = {api.name.lower(): api.key for api in BY_NAME.values()}
    if word.lower() in keys:
        return keys[word.lower()]
    try:
        return int(word)
    except ValueError:
        raise InputError(
            f"invalid --api {word!r}: expected a key or a name such as JoinGroup" + suggest(word, BY_NAME)
        ) from None


def _find_api(key: int, version: int) -> API:
    api = APIS.get(key)
    if api is None:
        raise InputError(f"unknown API key {key}")
    if version not in api.versions:
        raise InputError(f"unknown version {api.name} v{version}: expected v{api.versions[0]} to v{api.versions[-1]}")
    return api


def _read_input(word: str) -> bytes:
    """Return the bytes of hex digits, of a file, or of standard input. Raises InputError, OSError."""
    if word == "-":
        data = sys.stdin.buffer.read()
    elif (digits := read_hex(word)) is not None:
        return digits
    else:
        try:
            data = Path(word).read_bytes()
        except (FileNotFoundError, ValueError):
            raise InputError(f"invalid frame {_shorten(word)!r}: expected hex digits or a file") from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InputError(f"invalid frame {_shorten(word)!r}: expected hex digits or a file") from None
            raise
    try:
        digits = read_hex(data.decode("ascii"))
    except UnicodeDecodeError:
        digits = None
    return data if digits is None else digits


def _shorten(word: str) -> str:
    return word if len(word) <= 60 else word[:60] + "…"


def _strip_size(data: bytes) -> bytes:
    """Return a frame without its size, if it has one."""
    return data[4:] if len(data) > 4 and int.from_bytes(data[:4]) == len(data) - 4 else data


def _fields(subcon: Construct, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each field of a value, by its path: `topics[0].name`."""
    if isinstance(subcon, StructOf) and value is not None:
        for name, member in subcon.members:
            if isinstance(member, TagSection):
                for field in member.fields:
                    yield from _fields(field.subcon, getattr(value, field.name), _join(path, field.name))
            else:
                yield from _fields(member, getattr(value, name), _join(path, name))
    elif isinstance(subcon, NullableStruct) and value is not None:
        yield from _fields(subcon.subcon, value, path)
    elif isinstance(subcon, ArrayOf) and value:
        for index, element in enumerate(value):
            yield from _fields(subcon.element, element, f"{path}[{index}]")
    else:
        yield path, _format(subcon, value)


def _join(path: str, name: str) -> str:
    """Return the path of a field. Fields of the body have no prefix, just as those of the header."""
    return name if path in ("", "body") else f"{path}.{name}"


def _format(subcon: Construct, value: Any) -> Any:
    """Return a value as JSON: UUIDs in Kafka's base 64, bytes as hex."""
    if isinstance(subcon, Bytes):
        return urlsafe_b64encode(value).decode().rstrip("=")
    return value.hex() if isinstance(value, bytes) else value
