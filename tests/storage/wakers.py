"""Whether somebody was woken."""

from __future__ import annotations

import select

from coordinator.server.waker import Waker


def is_woken(waker: Waker) -> bool:
    """Whether the waker wakes somebody within a minute. `select.select` takes no descriptor beyond 1,023."""
    poll = select.poll()
    poll.register(waker.fileno(), select.POLLIN)
    return bool(poll.poll(60_000))
