"""The waker, where the system has an eventfd and where it has none."""

import os
import select

import pytest

from coordinator.server.waker import Waker


@pytest.mark.parametrize("has_eventfd", [True, False])
def test_it_is_readable_from_its_waking_to_its_rest(has_eventfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_eventfd:
        monkeypatch.delattr(os, "eventfd", raising=False)
    waker = Waker()
    poll = select.poll()
    poll.register(waker.fileno(), select.POLLIN)
    waker.rest()
    assert not poll.poll(0)
    for _ in range(3):
        waker.wake()
    assert poll.poll(0)
    waker.rest()
    assert not poll.poll(0)
    for _ in range(20_000):  # more than a pipe holds
        waker.wake()
    assert poll.poll(0)
