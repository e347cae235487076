"""The admin port of a server process: all that it serves, in one handler. Not a subcommand.

`serve` imports this module with the first connection of the port. h11, the control API and what describes it take 20 ms
of CPU and 2 MiB, and a server that nobody asks anything needs none of it.
"""

import socket
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

import trio

from coordinator.admin import http
from coordinator.admin.access import require_token
from coordinator.admin.app import Readiness, routes
from coordinator.admin.control import control_operations
from coordinator.admin.files import add_page
from coordinator.admin.operations import add_operations
from coordinator.events import Ring
from coordinator.metrics import Snapshot, Stats, exposition
from coordinator.server.operator import Operator
from coordinator.server.sasl.issuer import Issuer
from protocol.apis import APIS

T = TypeVar("T")

READ_ONLY: Final = "this server is not to be changed: it runs with admin.control=read, where true lets it be steered"
SWITCHED_OFF: Final = (
    "the control API is switched off: admin.control=read shows groups and timelines, true lets all be steered"
)


def make_handler(
    *,
    readiness: Callable[[], Readiness],
    stats: Stats,
    count: Callable[[], Generator[None, None, Snapshot]],
    ring: Ring,
    operator: Operator | None,
    is_read_only: bool,
    server_port: int,
    issuer: Issuer | None,
    token: str | None,
) -> http.Handler:
    """Make the handler of all routes. Without an `operator` there is no control API, without a `token` no access check.

    `readiness` and `count` are called anew for each request that asks for them.
    """

    async def metrics(accept: str) -> tuple[bytes, str]:
        now = await _take_turns(count())
        return await _take_turns(exposition(stats, now, lambda api_key: APIS[api_key].name, accept))

    router = routes(readiness, metrics, ring)
    if operator is not None:
        add_operations(router, control_operations(operator, ring, server_port), READ_ONLY if is_read_only else "")
        add_page(router, is_read_only=is_read_only)
    else:
        router.refuse_below("/v1", SWITCHED_OFF)
    if issuer is not None:
        from coordinator.admin.oauth import add_issuer

        add_issuer(router, issuer)
    return router if token is None else require_token(router, token)


async def _take_turns(steps: Generator[None, None, T]) -> T:
    """Do all steps, and let others have their turn between two of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await trio.lowlevel.checkpoint()


async def serve(sock: socket.socket, handler: http.Handler, hosts: Sequence[str]) -> None:
    """Serve HTTP on a bound socket until cancelled."""
    await http.serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), handler, http.Hosts(tuple(hosts)))
