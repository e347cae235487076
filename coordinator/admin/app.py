"""What the admin port answers: is it alive, is it ready, what does it count, and what happened to the groups lately."""

import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from coordinator.admin.http import Answer, Asked
from coordinator.core.events import Event
from coordinator.events import Ring

PAGE_EVENTS_MAX: Final = 1_000
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Readiness(Struct, frozen=True):
    """Whether all is loaded, and what is still to be."""

    ready: bool
    loading: int  # partitions of __consumer_offsets
    total: int
    closed: Mapping[str, str] = {}  # partitions of topics whose logs are closed until the next start: the reasons


class Numbered(Struct, frozen=True):
    """An event, and which one it is since the server was started: the first is 1."""

    number: int
    event: Event


class Page(Struct, frozen=True):
    """Some events, oldest first. Where the last one is not the latest, there may be more: ask for those after it."""

    latest: int  # the number of the latest event of any group, 0 if there was none
    events: list[Numbered]


class App:
    """The routes. `readiness`, `metrics` and the ring of events are asked at each request."""

    def __init__(self, readiness: Callable[[], Readiness], metrics: Callable[[], bytes], events: Ring) -> None:
        self._readiness = readiness
        self._metrics = metrics
        self._ring = events
        self._routes: dict[str, Callable[[Asked], Answer]] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": lambda _: Answer(self._metrics(), content_type=METRICS_TYPE),
            "/events": self._events,
        }

    async def __call__(self, asked: Asked) -> Answer:
        """Answer one request."""
        route = self._routes.get(asked.path)
        if route is None:
            there = " ".join(sorted(self._routes))
            return Answer(f"nothing is at {asked.path}; there is {there}\n".encode(), 404)
        if asked.method not in ("GET", "HEAD"):
            return Answer(b"only GET and HEAD\n", 405, headers=(("Allow", "GET, HEAD"),))
        return route(asked)

    @staticmethod
    def _healthz(_: Asked) -> Answer:
        """That this is answered at all is the answer: the loop turns."""
        return Answer(b"ok\n")

    def _readyz(self, _: Asked) -> Answer:
        now = self._readiness()
        body: dict[str, Any] = {"ready": now.ready, "partitions": {"loading": now.loading, "total": now.total}}
        if now.closed:  # everything else is served, so this is no reason to send clients elsewhere
            body["closed"] = dict(now.closed)
        return Answer(json.dumps(body).encode() + b"\n", 200 if now.ready else 503, "application/json")

    def _events(self, asked: Asked) -> Answer:
        """The latest events: of one group with `group`, those later than a number with `after`."""
        try:
            group, after = _which(asked.query)
        except ValueError as error:
            return Answer(f"{error}; it may be /events?group=GROUP&after=NUMBER\n".encode(), 400)
        found = islice(self._ring.after(after, group), PAGE_EVENTS_MAX)
        page = Page(self._ring.told, [Numbered(number, event) for number, event in found])
        return Answer(msgspec.json.encode(page) + b"\n", content_type="application/json")


def _which(query: str) -> tuple[str | None, int]:
    """The group, None for all, and the number of the event that was seen last. Raises ValueError."""
    said = parse_qs(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=8)
    for name, values in said.items():
        if name not in ("group", "after") or len(values) > 1:
            raise ValueError(f"{name!r} is no parameter, or is there twice")
    (group,), (after,) = said.get("group", [None]), said.get("after", ["0"])
    if not (after.isascii() and after.isdigit() and len(after) < 20):
        raise ValueError(f"after: {after!r} is no number of an event")
    return group, int(after)
