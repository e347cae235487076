"""What there is to test: each API in each version and direction, as one value with its two codecs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec
from hypothesis import note

from protocol import interpret
from protocol.apis import API, TABLE
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.header import Request, Response, request_frame, response_frame
from protocol.structs import StructOf

CORRELATION_ID = 7
CLIENT_ID = "client-1"


class Target(msgspec.Struct, frozen=True, dict=True):
    """One API, version and direction."""

    api: API
    version: int
    direction: str

    def __str__(self) -> str:
        return f"{self.api.module}_v{self.version}_{self.direction}"

    @cached_property
    def root(self) -> StructOf:
        """The construct of the whole frame."""
        return (request_frame if self.direction == "request" else response_frame)(self.api, self.version)

    @property
    def body(self) -> StructOf:
        """The construct of the message alone."""
        return dict(self.root.members)["body"]

    def frame_of(self, body: Any) -> Request | Response:
        if self.direction == "request":
            return Request(self.api.key, self.version, CORRELATION_ID, CLIENT_ID, body)
        return Response(CORRELATION_ID, body)

    def encode(self, body: Any) -> bytes:
        """By the fast codec, without the size."""
        if self.direction == "request":
            return encode_request(self.api.key, self.version, CORRELATION_ID, CLIENT_ID, body)[4:]
        return encode_response(self.api.key, self.version, CORRELATION_ID, body)[4:]

    def decode(self, frame: bytes) -> Any:
        """By the fast codec."""
        if self.direction == "request":
            return decode_request(frame)
        return decode_response(self.api.key, self.version, frame)

    def build(self, body: Any) -> bytes:
        """By construct's own interpretation."""
        return interpret.build(self.root, self.frame_of(body))

    def parse(self, frame: bytes) -> Any:
        """By construct's own interpretation."""
        return interpret.parse(self.root, frame)


REQUESTS = [Target(api, version, "request") for api in TABLE for version in api.versions]
RESPONSES = [Target(api, version, "response") for api in TABLE for version in api.versions]
TARGETS = REQUESTS + RESPONSES


def outcome(read: Callable[[bytes], Any], frame: bytes, refused: tuple[type[Exception], ...]) -> Any:
    """What reading gives, or None if it is refused."""
    try:
        return read(frame)
    except refused:
        return None


def by_api(targets: Iterable[Target]) -> dict[str, list[Target]]:
    """Return all versions of each API in each direction.

    A property is tried with all of them at once: to begin takes Hypothesis longer than 15 examples of one message.
    """
    found = defaultdict[str, list[Target]](list)
    for target in targets:
        found[f"{target.api.module}_{target.direction}"].append(target)
    return dict(found)


def note_each(targets: Iterable[Target]) -> Iterator[Target]:
    """Yield targets within a property. If it fails, the last one that Hypothesis names is the one that failed."""
    for target in targets:
        note(str(target))
        yield target
