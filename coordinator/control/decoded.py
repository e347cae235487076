"""Entries of the journal as they are compared: each is decoded when something asks for what is in it, and once.

Most requests of a journal differ from others in their correlation id alone, as heartbeats do: such frames are decoded
once for all. The API is read off the frame, so that who wants another API decodes nothing.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

from coordinator.control.journal import Entry, describe_request, describe_response
from coordinator.control.names import SpecError
from coordinator.control.subject import Subject, TopicNames
from protocol.apis import APIS

WORK_MAX: Final = 5_000_000
"""Comparisons of one verification, each of a field or less: some seconds of a thread."""
DECODE_WORK: Final = 20
_ALIKE_MAX: Final = 1_000  # frames that are remembered, for others that are like them


class Work:
    """How much a verification may do yet."""

    def __init__(self, units: int = WORK_MAX) -> None:
        self._left = units

    def charge(self, units: int = 1) -> None:
        """Do so much. Raises SpecError if it is more than is left."""
        self._left -= units
        if self._left < 0:
            raise SpecError("this verification takes too long: expect less at once, name an api in each, or give after")


class DecodedEntry:
    """An entry of the journal. What is in its frames is decoded when it is first asked for."""

    def __init__(self, entry: Entry, alike: "Decoder") -> None:
        self._alike = alike
        self.entry = entry
        self.number, self.at_ms, self.answer = entry.number, entry.at_ms, entry.answer
        self.api = APIS[entry.api_key].name

    @cached_property
    def _request(self) -> tuple[Subject, dict[str, Any]]:
        frame = self.entry.frame
        return self._alike.find_request(frame[:4] + frame[8:], self.entry)

    @cached_property
    def _response(self) -> tuple[Any, list[str]]:
        return self._alike.find_response(self.entry)

    @property
    def subject(self) -> Subject:
        """The names in the request."""
        return self._request[0]

    def body(self, name: str) -> Any:
        """Return the body of the request or of the response, as plain values."""
        return self._request[1] if name == "request" else self._response[0]

    @property
    def errors(self) -> list[str]:
        """The names of the error codes in the response."""
        return self._response[1]


class Decoder:
    """Decodes entries, and keeps them as long as somebody has it. One thread at a time may use it."""

    def __init__(self) -> None:
        self._name_of: TopicNames = lambda _: None  # of who uses it now
        self._entries: dict[int, DecodedEntry] = {}  # by number
        self._requests: dict[bytes, tuple[Subject, dict[str, Any]]] = {}
        self._responses: dict[tuple[bytes, bytes], tuple[Any, list[str]]] = {}
        self.work = Work()  # of who uses it now

    def take(self, entries: Iterable[Entry], work: Work, name_of: TopicNames = lambda _: None) -> list[DecodedEntry]:
        """Return entries to be compared, at the cost of `work` from now on. `name_of` knows the topics that they name
        by ids."""
        self.work, self._name_of = work, name_of
        known, found = self._entries, []
        for entry in entries:
            one = known.get(entry.number)
            if one is None or one.entry is not entry or one.answer != entry.answer:
                one = known[entry.number] = DecodedEntry(entry, self)
            found.append(one)
        return found

    def find_request(self, frame: bytes, entry: Entry) -> tuple[Subject, dict[str, Any]]:
        """Return what is in a request, whose frame without its correlation id is given."""
        found = self._requests.get(frame)
        if found is None:
            self.work.charge(DECODE_WORK)
            found = describe_request(entry, self._name_of)
            _remember(self._requests, frame, found)
        return found

    def find_response(self, entry: Entry) -> tuple[Any, list[str]]:
        """Return what is in the response to a request, and its errors."""
        if entry.response is None:
            return None, []
        frame = entry.frame[:4], entry.response[8:]  # without its size and correlation id
        found = self._responses.get(frame)
        if found is None:
            self.work.charge(DECODE_WORK)
            found = describe_response(entry)
            _remember(self._responses, frame, found)
        return found


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= _ALIKE_MAX:
        known.clear()
    known[key] = value
