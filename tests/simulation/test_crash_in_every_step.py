"""The server dies at each call of the disk in a group's life, and the group goes on as if nothing had been.

A request leads to one append and, with `--fsync`, one sync. A crash at the first comes before the request has changed
anything, one at the second before its response has left; both leave the members to send it again.
"""

from random import Random
from typing import Final

import pytest

from coordinator.core.kinds.consumer import reconcile
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from tests.simulation.broken import Broken
from tests.simulation.clock import EventQueue
from tests.simulation.members import REQUEST_MS, ClassicMember, ConsumerMember, Member
from tests.simulation.network import Link, Network
from tests.simulation.promises import Promises
from tests.simulation.server import Server, Slowness

GROUP: Final = "g0"
TOPICS: Final = ("t", "u")
STEP_MS: Final = 7_000  # a member beats within 4 s and commits within 9
SETTLE_MS: Final = 150_000
EVERY: Final = 5  # call of the disk a default run dies at; odd, so that appends and syncs take turns
DAY_MS: Final = 86_400_000


class Life:
    """A group of both protocols in which partitions move for every reason: members come, change and go; a topic grows."""

    def __init__(self, *, is_synced: bool) -> None:
        self.clock, dice = EventQueue(), Random(1)
        self.promises = Promises(7 * DAY_MS, "bidirectional")
        self.server = Server(
            self.clock,
            dice,
            self.promises,
            is_synced=is_synced,
            slowness=Slowness(Random(2), (0, 1, 5, 40)) if is_synced else None,
            topics=dict.fromkeys(TOPICS, 3),
            settings={"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 0},
        )
        self.network = Network(self.clock, self.server, dice)
        self.members: list[Member] = [
            ConsumerMember("a", GROUP, TOPICS, None, self.network),
            ConsumerMember("b", GROUP, TOPICS, None, self.network),
            ConsumerMember("static", GROUP, TOPICS[:1], "i", self.network),
            ClassicMember("classic", GROUP, TOPICS, None, self.network),
        ]
        self.network.members = list(self.members)

    def play(self, killed_at: int | None = None) -> tuple[int, int]:
        """Live through it, and check what then holds. Return the first and last call of the disk while it lived."""
        self.server.start()
        self.clock.run(self.clock.now_ms + STEP_MS)
        first, self.server.disk.killed_at = self.server.disk.calls + 1, killed_at
        a, b, static, classic = self.members
        for act in (a.start, b.start, static.start, self._grow, classic.start, static.crash, static.start, b.stop):
            act()
            self.clock.run(self.clock.now_ms + STEP_MS)
        last, self.server.disk.killed_at = self.server.disk.calls, None
        self.clock.run(self.clock.now_ms + SETTLE_MS)
        owned = {member.name: member.owned for member in self.members if member.is_alive}
        assert set(owned) == {"a", "static", "classic"}
        self.promises.calm(self.server, GROUP, owned, set(TOPICS), set())
        self.promises.audit(self.server)
        return first, last

    def _grow(self) -> None:
        grown = CreatePartitionsRequest((CreatePartitionsRequestTopic("t", 6),), timeout_ms=REQUEST_MS)
        Link(self.network, "admin").ask(grown, 3, REQUEST_MS, lambda answer: None)


@pytest.mark.rule("K-143 K-180 K-365 K-398")
@pytest.mark.parametrize("is_synced", [False, True], ids=["written", "synced"])
@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.long)])
def test_a_crash_in_any_step_costs_nothing(every: int, *, is_synced: bool) -> None:
    """At every step no partition has two owners and no epoch goes back; then the group settles."""
    first, last = Life(is_synced=is_synced).play()
    assert last - first > 60, "so many calls of the disk"
    for call in range(first, last + 1, every):
        life = Life(is_synced=is_synced)
        life.play(killed_at=call)
        assert life.server.starts == 2, f"the server died at call {call}"


@pytest.mark.parametrize(("name", "always"), [("is_free", True), ("owns_any", False)])
def test_the_check_can_fail(name: str, monkeypatch: pytest.MonkeyPatch, *, always: bool) -> None:
    """Without the look at who holds a partition, or at what a member still owns, two members own one."""
    monkeypatch.setattr(reconcile, name, lambda *_: always)
    with pytest.raises(Broken, match="no two members own a partition"):
        Life(is_synced=False).play()
