"""Large responses, encoded in steps: other requests are decided in between.

The response that was begun first is finished first, so that there are the bytes of one unfinished response at most. The
others take memory as well: while there are `ENCODINGS_MAX` of them, requests whose responses may be large wait.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from coordinator.dataplane.fetch import FEW
from coordinator.server.connection import ParkedRequest, Piece
from coordinator.server.urgency import URGENT_BYTES
from protocol.apis import keys_with
from protocol.messages.fetch import FetchResponse
from protocol.traits import Trait
from storage.file_range import FileRange

SHORT: Final = keys_with(Trait.INLINE)
SHORT_KEYS: Final = frozenset(api_key.to_bytes(2, "big") for api_key in SHORT)  # the first bytes of their frames
READS: Final = keys_with(Trait.READS)
ENCODINGS_MAX: Final = 4
CODES_A_STEP: Final = 10_000  # structs that are searched for error codes: one or two milliseconds


class Encoding:
    """A response on its way to bytes; its request counts as parked meanwhile. Error codes are counted first."""

    __slots__ = ("_codes", "_later", "is_counted", "is_done", "pieces", "request", "size")

    def __init__(
        self,
        request: ParkedRequest,
        pieces: list[bytes],
        later: Iterator[bytes],
        codes: Iterator[int],
        *,
        is_counted: bool,
    ) -> None:
        """`pieces` are the first of the frame, `later` gives the others. `is_counted`: the request's latency is."""
        self.request = request
        self.pieces = pieces
        self.size = sum(map(len, pieces))
        self.is_counted = is_counted
        self.is_done = False
        self._later = later
        self._codes = codes

    def step(self) -> list[int]:
        """Do some more of it. Returns error codes of the response that were found. Raises ProtocolError."""
        some = list(itertools.islice(self._codes, CODES_A_STEP))
        if some:
            return [code for code in some if code]
        piece = next(self._later, None)
        if piece is None:
            self.is_done = True
        else:
            self.pieces.append(piece)
            self.size += len(piece)
        return []


def frame_of(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of a frame, its size before them."""
    return [sum(map(len, pieces)).to_bytes(4, "big"), *pieces]


def has_ranges(response: Any) -> bool:
    """Return whether a response has records that are not in memory: ranges of files."""
    return type(response) is FetchResponse and any(
        isinstance(partition.records, FileRange) for topic in response.responses for partition in topic.partitions
    )


def read_ranges(response: Any) -> Any:
    """Return the response with the bytes of its ranges of files. Raises OSError."""
    if not has_ranges(response):
        return response
    return replace(response, responses=tuple([
        replace(topic, partitions=tuple([
            replace(one, records=one.records.read()) if isinstance(one.records, FileRange) else one
            for one in topic.partitions
        ]))
        for topic in response.responses
    ]))  # fmt: skip


def is_short(frame: bytes) -> bool:
    """Return whether the response to a request will be short. That to a long one is as long."""
    return len(frame) <= URGENT_BYTES and frame[:2] in SHORT_KEYS


def is_fetch_short(response: FetchResponse) -> bool:
    """Return whether the response to a Fetch that was parked is encoded at once, as it is to one that was not.

    A Fetch of more partitions is decided in steps, and its response may be large.
    """
    return sum([len(topic.partitions) for topic in response.responses]) <= FEW
