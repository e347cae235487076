"""The verbs of an operator or a test on a running server. HTTP, the page and the command line call these.

Each verb is an input of the one step, in a turn of its own, and answers with data. A verb that cannot be done raises
`Refusal` with a sentence, and has changed nothing. `verbs/` has them, by what they are done to.
"""

from collections.abc import Callable

import trio

from coordinator.runtime.clock import CoordinatorClock
from coordinator.runtime.node import Node
from coordinator.server.frontend import Frontend
from coordinator.server.poller import Poller
from coordinator.server.verbs.brokers import BrokerVerbs
from coordinator.server.verbs.clock import ClockVerbs
from coordinator.server.verbs.groups import GroupVerbs
from coordinator.server.verbs.one_at_a_time import OneAtATime
from coordinator.server.verbs.overview import OverviewVerbs
from coordinator.server.verbs.records import RecordVerbs
from coordinator.server.verbs.requests import RequestVerbs
from coordinator.server.verbs.scenarios import ScenarioVerbs
from coordinator.server.verbs.state import StateVerbs, World
from coordinator.server.virtual_brokers import VirtualBrokers


class Operator:
    """All verbs, and the end of each turn for those who wait for one."""

    def __init__(
        self,
        node: Callable[[], Node],
        frontend: Frontend,
        poller: Poller,
        clock: CoordinatorClock,
        world: World,
        brokers: VirtualBrokers,
    ) -> None:
        """`node` returns the node of the moment: a reset makes another."""
        one_at_a_time = OneAtATime()
        self.requests = RequestVerbs(node, frontend, poller)
        self.groups = GroupVerbs(node, frontend, poller, self.requests)
        self.records = RecordVerbs(node, frontend, poller)
        self.clock = ClockVerbs(node, poller, clock, one_at_a_time)
        self.overview = OverviewVerbs(node)
        self.scenarios = ScenarioVerbs(self.groups, self.requests)
        self.state = StateVerbs(
            node, frontend, poller, clock, world,
            one_at_a_time=one_at_a_time, groups=self.groups, requests=self.requests, scenarios=self.scenarios,
        )  # fmt: skip
        self.brokers = BrokerVerbs(node, frontend, poller, world, brokers)
        self._turned = trio.Event()
        self._waiting = 0

    def held_bytes(self) -> dict[str, int]:
        """Return the memory that the journal and the snapshots take."""
        return {"journal": self.requests.journal_bytes, "snapshots": sum(self.state.snapshots().values())}

    async def next_turn(self) -> None:
        """Return when a turn has ended: something may have changed."""
        self._waiting += 1
        try:
            await self._turned.wait()
        finally:
            self._waiting -= 1

    def wake(self) -> None:
        """Wake what waits for the end of a turn."""
        self.scenarios.play()
        if self._waiting and not self.clock.is_moving:
            self._turned.set()
            self._turned = trio.Event()
