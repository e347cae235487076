"""The control API of a server in memory, without sockets: a call is answered while the server has its turns."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import trio

from coordinator.admin.control import control_operations
from coordinator.admin.http import Request, Response, Stream
from coordinator.admin.operations import add_operations
from coordinator.admin.router import Router
from coordinator.events import Ring
from tests.control.steered import SteeredNode


class Answer(NamedTuple):
    """The status of an answer, and its body: decoded if it is JSON."""

    status: int
    body: Any


class ControlPort:
    """What answers calls to `/v1` of a server."""

    def __init__(self, server: SteeredNode) -> None:
        self._server = server
        self._ring, self._told = Ring(), 0
        self._router = Router()
        add_operations(self._router, control_operations(server.operator, self._ring, 9092))

    def call(self, method: str, target: str, body: Any = None) -> Answer:
        """Make a call: `call("POST", "/reset", {"prefix": "a"})`."""
        path, _, query = target.partition("?")
        data = b"" if body is None else json.dumps(body).encode()
        return trio.run(self.answer, Request(method, f"/v1{path}", query, body=data))

    async def answer(self, request: Request) -> Answer:
        """Answer a call. Whoever waits for that may leave."""
        events = self._server.events
        for event in events[self._told :]:
            self._ring.add(event.group, msgspec.json.encode(event))
        self._told = len(events)
        with trio.fail_after(60):
            async with having_turns(self._server):
                answer = await self._router(request)
        status, media = 200, answer.content_type
        if isinstance(answer, Response):
            status, data = answer.status, answer.body
        else:
            data = await _read(answer)
        return Answer(status, json.loads(data) if media == "application/json" else data)


@asynccontextmanager
async def having_turns(server: SteeredNode) -> AsyncIterator[None]:
    """Let the server have turns meanwhile, as long as it may serve clients."""

    async def have_turns() -> None:
        while True:
            if not server.poller.is_held:
                server.turn()
                server.operator.wake()
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(have_turns)
        yield
        nursery.cancel_scope.cancel()


async def _read(stream: Stream) -> bytes:
    chunks = []
    while (chunk := await stream.next_chunk()) is not None:
        chunks.append(chunk)
    return b"".join(chunks)
