"""A request on its way from a client to the server."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Request(Struct):
    """What was sent, who hears the answer, and where the request stands in the order of decisions."""

    correlation_id: int
    api_key: int
    version: int
    message: Any
    heard: Callable[[Any], None]
    order: int = 0  # of the delivery, until it is decided; then of the decision
    is_decided: bool = False
    turn: int = 0  # the number of the turn that has decided it, or has ended its wait
    delivered_ms: int = 0  # by the server's clock
