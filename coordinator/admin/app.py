"""Answer the admin port's read requests: liveness, readiness, metrics, and the events of groups."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from coordinator.admin.http import Request, Response
from coordinator.admin.router import Router
from coordinator.events import Ring

PAGE_EVENTS_MAX: Final = 1_000
PAGE_BYTES_MAX: Final = 1_048_576  # of events in a page, or one event


class Readiness(Struct, frozen=True):
    """The state of the loading: whether all is loaded, and how much is left."""

    ready: bool
    loading: int  # partitions of __consumer_offsets
    total: int
    closed: Mapping[str, str] = {}  # partitions of topics whose logs are closed until the next start: the reasons


class NumberedEvent(Struct, frozen=True):
    """An event and its number. The first since the start has number 1; those of earlier runs have numbers up to 0."""

    number: int
    event: msgspec.Raw


class Page(Struct, frozen=True):
    """Some events, oldest first. Where the last one is not the latest, there may be more: ask for those after it."""

    latest: int  # the number of the latest event of any group, 0 if there was none
    events: list[NumberedEvent]


def routes(
    readiness: Callable[[], Readiness], metrics: Callable[[str], Awaitable[tuple[bytes, str]]], events: Ring
) -> Router:
    """Make the router of the admin port. The arguments are read anew for each request.

    `metrics` gets the `Accept` header, and returns a text and its media type."""
    router = Router()
    router.add("GET", "/healthz", lambda request: Response(b"ok\n"))  # any response means that the server is alive
    router.add("GET", "/readyz", lambda request: _readyz(readiness()))
    router.add("GET", "/metrics", lambda request: _metrics(metrics(request.headers.get("accept", ""))))
    router.add("GET", "/events", lambda request: _events(events, request))
    return router


async def _metrics(metrics: Awaitable[tuple[bytes, str]]) -> Response:
    text, media_type = await metrics
    return Response(text, content_type=media_type)


def _readyz(now: Readiness) -> Response:
    body: dict[str, Any] = {"ready": now.ready, "partitions": {"loading": now.loading, "total": now.total}}
    if now.closed:  # everything else is served, so this is no reason to send clients elsewhere
        body["closed"] = dict(now.closed)
    return Response(json.dumps(body).encode() + b"\n", 200 if now.ready else 503, "application/json")


def _events(ring: Ring, request: Request) -> Response:
    """Return a page of events, oldest first. `group` selects one group, `after` the events later than a number."""
    try:
        group, after = _filter(request.query)
    except ValueError as error:
        return Response(f"{error}; expected /events?group=GROUP&after=NUMBER\n".encode(), 400)
    page, size = Page(ring.latest, []), 0
    for number, event in ring.after(after, group):
        size += len(event)
        if page.events and (size > PAGE_BYTES_MAX or len(page.events) == PAGE_EVENTS_MAX):
            break
        page.events.append(NumberedEvent(number, msgspec.Raw(event)))
    return Response(msgspec.json.encode(page) + b"\n", content_type="application/json")


def _filter(query: str) -> tuple[str | None, int | None]:
    """Return the group, None for all, and the number of the latest event that was seen. Raises ValueError.

    The number may be negative, of an event before the last start. None is the beginning.
    """
    parameters = parse_qs(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=8)
    for name, values in parameters.items():
        if name not in ("group", "after"):
            raise ValueError(f"unknown parameter {name!r}")
        if len(values) > 1:
            raise ValueError(f"{name} is given twice")
    (group,), (after,) = parameters.get("group", [None]), parameters.get("after", [None])
    digits = None if after is None else after.removeprefix("-")
    if after is None or digits is None:
        return group, None
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise ValueError(f"invalid after: {after!r}")
    return group, int(after)
