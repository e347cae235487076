"""What the admin port answers: is it alive, is it ready, and what does it count."""

import json
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from coordinator.admin.http import Answer, Asked

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Readiness(Struct, frozen=True):
    """Whether all is loaded, and what is still to be."""

    ready: bool
    loading: int  # partitions of __consumer_offsets
    total: int


class App:
    """The routes. `readiness` and `metrics` are asked at each request."""

    def __init__(self, readiness: Callable[[], Readiness], metrics: Callable[[], bytes]) -> None:
        self._readiness = readiness
        self._metrics = metrics
        self._routes: dict[str, Callable[[], Answer]] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": lambda: Answer(self._metrics(), content_type=METRICS_TYPE),
        }

    async def __call__(self, asked: Asked) -> Answer:
        """Answer one request."""
        route = self._routes.get(asked.path)
        if route is None:
            there = " ".join(sorted(self._routes))
            return Answer(f"nothing is at {asked.path}; there is {there}\n".encode(), 404)
        if asked.method not in ("GET", "HEAD"):
            return Answer(b"only GET and HEAD\n", 405, headers=(("Allow", "GET, HEAD"),))
        return route()

    @staticmethod
    def _healthz() -> Answer:
        """That this is answered at all is the answer: the loop turns."""
        return Answer(b"ok\n")

    def _readyz(self) -> Answer:
        now = self._readiness()
        body = {"ready": now.ready, "partitions": {"loading": now.loading, "total": now.total}}
        return Answer(json.dumps(body).encode() + b"\n", 200 if now.ready else 503, "application/json")
