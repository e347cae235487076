"""Three members of a client while the coordinator of their group moves, and while three brokers restart."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.compat.consumers import Member, share, wait_for_share, wait_until
from tests.compat.foreign.story import PARTITIONS, SETTINGS, STATIC_SESSION_MS, Story, seen, twice
from tests.live import Muster

MOVES = 3
RECORDS = 200  # of each batch, two of them after each move
LOAD_MS = 1_000


class Failover(Story):
    """One client in one protocol, with a server of three brokers."""

    def run(self) -> None:
        options = ["--brokers=3", f"--topic=orders:{PARTITIONS}", *[f"--set={one}" for one in SETTINGS]]
        with (
            tempfile.TemporaryDirectory() as folder,
            Muster(Path(folder), *options) as self.muster,
            ExitStack() as stack,
        ):
            members = [
                stack.enter_context(self.member("shop", "orders", session_ms=STATIC_SESSION_MS)) for _ in range(3)
            ]
            with self.check("three members share four partitions of three brokers"):
                wait_for_share(members, PARTITIONS)
            generation = self.generation()
            for number in range(MOVES):
                with self.check(f"the coordinator moves and loads for {LOAD_MS} ms: all is consumed, and committed"):
                    home = self.muster.steer("GET", "/coordinators/shop")["broker"]
                    self.muster.steer("POST", "/coordinators/shop/move", to=(home + 1) % 3, load_ms=LOAD_MS)
                    self.consume(members, 2 * number)
            with self.check("three brokers restart, one after the other: all is consumed, and committed"):
                self.muster.steer("POST", "/brokers/rolling-restart", down_ms=self.client.restart_ms)
                self.consume(members, 2 * MOVES)
            if self.client.stays_when_moved:
                with self.check("nobody has rebalanced"):
                    assert self.generation() == generation, [one.errors for one in members]
                    assert share(members, PARTITIONS)

    def consume(self, members: list[Member], batches: int) -> None:
        """Produce records while the coordinator is away, and others afterwards: not every client tries a commit again
        before it has something new to commit."""
        for count in ((batches + 1) * RECORDS, (batches + 2) * RECORDS):
            self.produce("orders", "none", RECORDS)
            wait_until(f"{count} are consumed", lambda count=count: len(seen(members)) >= count)
            self.muster.steer("POST", "/wait", group="shop", state="Stable", timeout_ms=50_000)  # it is loaded
        if self.client.stays_when_moved:  # others rejoin, read again what was not committed, or commit it later
            shares = {str(partition): count // PARTITIONS for partition in range(PARTITIONS)}
            self.muster.steer("POST", "/wait", group="shop", offsets={"orders": shares}, timeout_ms=50_000)
            assert not (again := twice(members)), f"read again: {again}"

    def generation(self) -> int:
        generation: int = self.muster.steer("GET", "/groups/shop")["generation"]
        return generation
