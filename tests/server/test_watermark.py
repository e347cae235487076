"""Which requests the timers wait for: those that had arrived by then, as long as they can be decided."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.server.watermark import SHARE_S, Watermark


class Client:
    """A connection as the watermark sees it: it has requests, which it may be able to have decided."""

    def __init__(self, backlog: int, *, waits: bool) -> None:
        self.backlog = SimpleNamespace(size=backlog) if backlog else None
        self.left, self.waits = backlog, waits

    def may_decide(self) -> bool:
        return bool(self.left) and not self.waits

    def decide(self) -> None:
        self.left -= 1
        self.backlog = self.backlog if self.left else None


CLIENTS = st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=4)


@given(
    CLIENTS,
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, SHARE_S / 4, SHARE_S]), st.booleans()), max_size=20),
)
def test_a_client_is_waited_for_until_it_has_had_its_share_or_can_go_no_further(
    drawn: list[tuple[int, bool]], acts: list[tuple[int, float, bool]]
) -> None:
    """It has asked for nothing else that had arrived, the request before waits for something itself, or it has left."""
    clients: list[Any] = [Client(backlog, waits=waits) for backlog, waits in drawn]
    watermark, awaited = Watermark(1, clients), dict.fromkeys(clients, SHARE_S)
    for at, seconds, leaves in acts:
        if at >= len(clients):
            continue
        client = clients[at]
        if leaves:
            watermark.forget(client)
            awaited.pop(client, None)
        elif client.left:
            client.decide()
            watermark.add_time(client, seconds)
            if client in awaited:
                awaited[client] -= seconds
                if awaited[client] <= 0 or not client.may_decide():
                    del awaited[client]
        assert watermark.is_reached == (not awaited)
