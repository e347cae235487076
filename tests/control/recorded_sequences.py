"""Random requests and random verbs to a server with a journal, to be replayed."""

from random import Random
from typing import Any

from coordinator.control.faults import STEPS, Action, FaultSpec, Match
from coordinator.control.journal_file import write_journal
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import State
from tests.control.steered import SteeredNode
from tests.server.in_memory import DATA_DIR, Peer
from tests.simulation.fuzz import CONNECTIONS, Sequence
from tests.storage.crashing_disk import CrashingDisk

PAUSES_S = (*(0.1, 1, 3.5) * 5, 10, 61)
JOURNAL_BYTES = 64 * 1_048_576
VERBS = (
    "advance",
    "advance",
    "step",
    "kick",
    "expire",
    "fence",
    "rebalance",
    "forget",
    "hold",
    "release",
    "fault",
    "seed",
    "move",
    "move transaction",
    "restart broker",
)


class RecordedSequence(Sequence):
    """A sequence of random valid requests to a server that is steered at random, and keeps a journal of all."""

    def __init__(self, seed: int, *, is_synced: bool = False) -> None:
        """With an odd seed the server is three brokers, and clients go to any of them. If it `is_synced`, then on a
        disk whose syncs end at random."""
        super().__init__(seed)
        settings = {**self._settings, "virtual_brokers": 3 if seed % 2 else 1}
        self._disk = CrashingDisk()
        self._disk.make_directory(DATA_DIR)
        self._disk.is_slow = True
        self._disk_dice = Random(seed)
        files = self._disk if is_synced else None
        self.server = SteeredNode(journal_bytes=JOURNAL_BYTES, seed=seed, files=files, is_synced=is_synced, **settings)
        self._server = self.server
        brokers = len(self.server.listeners)
        self._peers = [self.server.connect(f"c{number}", broker=number % brokers) for number in range(CONNECTIONS)]

    def play(self, requests: int) -> None:
        """Send requests, and in between move real time, or do what an operator may do."""
        self._set_limits()
        for _ in range(requests):
            chance = self._dice.random()
            if chance < 0.05:
                self.server.advance(self._dice.choice(PAUSES_S))
            elif chance < 0.15:
                self._steer()
            self._request()
            if self._disk_dice.random() < 0.4:
                self._disk.end_syncs()
        self.server.operator.requests.remove_faults()
        self.server.turn()

    def journal(self) -> bytes:
        """Return the file of the journal."""
        return write_journal(self.server.operator.requests.journal)

    def _send(self, peer: Any, message: Any, version: int) -> None:
        """Send a request. A fault may swallow it, so that nothing is promised here."""
        before = len(peer.answers)
        peer.send((message, version))
        self.server.turn()
        while self.server.frontend.has_work:
            self.server.turn()
        if len(peer.answers) > before:
            self._draw.learn(message, peer.answers[before][1])

    def _steer(self) -> None:
        operator, dice = self.server.operator, self._dice
        groups = operator.groups.views()
        if not groups:
            return
        group = dice.choice(groups)
        members = [one.member_id for one in group.members] or [""]
        try:
            match dice.choice(VERBS):
                case "advance":
                    operator.clock.advance(dice.choice((500, 7_000, 50_000)), lambda *_: dice.random() < 0.7)
                case "step":
                    operator.clock.step(lambda *_: dice.random() < 0.7)
                case "kick":
                    operator.groups.kick(group.group, dice.choice(members), disconnects=dice.random() < 0.3)
                case "expire":
                    operator.groups.expire(group.group, dice.choice(members))
                case "fence":
                    operator.groups.fence(group.group, dice.choice(members))
                case "rebalance":
                    operator.groups.rebalance(group.group, "at random")
                case "forget":
                    operator.groups.forget(group.group)
                case "hold":
                    operator.requests.hold(group.group, dice.choice(sorted(STEPS)))
                case "release":
                    operator.requests.release(group.group)
                case "fault":
                    action = dice.choice(
                        (Action(drop="response"), Action(error="NOT_COORDINATOR"), Action(delay_ms=50))
                    )
                    operator.requests.add_fault(FaultSpec(action, Match(group=group.group)))
                case "move":
                    lost, keeps = dice.choice((0, 0, 1, 3)), dice.random() < 0.8
                    options = {"load_ms": dice.choice((0, 300)), "lose_last_commits": lost, "keep_members": keeps}
                    operator.brokers.move_group(group.group, dice.choice(self._node_ids), **options)
                case "move transaction":
                    name = dice.choice([*self.server.node.world.ledger.transactions.by_id, "nobody"])
                    operator.brokers.move_transaction(name, dice.choice(self._node_ids), load_ms=dice.choice((0, 300)))
                case "restart broker":
                    self._restart_broker(dice.choice(self._node_ids))
                case "seed":
                    operator.state.seed(State({f"seeded-{dice.randrange(3)}": 2}, {"seeded": {"t": {"0": 5}}}))
        except Refusal:
            pass  # nothing has changed

    @property
    def _node_ids(self) -> tuple[int, ...]:
        return self.server.brokers.node_ids

    def _connect(self, at: int) -> Peer:
        """Connect to a broker that runs. There is always one."""
        running = [one.id for one in self.server.operator.brokers.views() if one.is_running]
        return self.server.connect(f"c{at}", broker=running[at % len(running)])

    def _restart_broker(self, node_id: int) -> None:
        """Stop a broker and start it, perhaps later if others run. Its clients connect again by themselves."""
        brokers = self.server.operator.brokers
        if brokers.view(node_id).is_running:
            brokers.stop(node_id)
            if any(one.is_running for one in brokers.views()) and self._dice.random() < 0.5:
                return
        brokers.start(node_id, load_ms=self._dice.choice((0, 300)))
