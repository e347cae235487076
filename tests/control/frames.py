"""Frames of requests and responses for the journal's tests."""

from typing import Any

from coordinator.control.journal import Entry, Journal, JournalClient
from protocol.apis import BY_NAME
from protocol.codec import encode_request, encode_response


def request_frame(api: str, version: int, body: Any, client_id: str | None = "c", correlation_id: int = 7) -> bytes:
    """Return a request as the journal keeps it: without its size."""
    return encode_request(BY_NAME[api].key, version, correlation_id, client_id, body)[4:]


def note(
    journal: Journal, api: str, version: int, body: Any, response: Any = None, *, at_ms: int = 1_000, client: str = "c"
) -> Entry:
    """Add a request, and its response if there is one, 5 ms later."""
    frame = request_frame(api, version, body, client)
    entry = journal.note_request(at_ms, JournalClient("/127.0.0.1", 50_000, 1), frame)
    if response is not None:
        journal.note_response(entry, encode_response(BY_NAME[api].key, version, 7, response), at_ms + 5)
    return entry
