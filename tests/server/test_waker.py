"""A waker can be told from its waking to its rest."""

import select

from coordinator.server.waker import Waker


def test_it_is_readable_from_its_waking_to_its_rest() -> None:
    waker = Waker()
    poll = select.poll()
    poll.register(waker.fileno(), select.POLLIN)
    waker.rest()
    assert not poll.poll(0)
    for _ in range(100_000):  # more than a pipe holds
        waker.wake()
    assert poll.poll(0)
    waker.rest()
    assert not poll.poll(0)
    waker.wake()
    assert poll.poll(0)
