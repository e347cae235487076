"""Three members of a client while the coordinator of their group moves, and while three brokers restart."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.compat.consumers import Member, share, wait_until
from tests.compat.foreign.story import PARTITIONS, SETTINGS, STATIC_SESSION_MS, Story, seen, twice
from tests.compat.steered import steer
from tests.live import Muster

MOVES = 3
RECORDS = 200  # between two moves
LOAD_MS = 1_000
DOWN_MS = 500


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
                wait_until("they share", lambda: share(members, PARTITIONS) and all(one.assigned for one in members))
            generation = self.generation()
            for number in range(1, 1 + MOVES):
                with self.check(f"the coordinator moves and loads for {LOAD_MS} ms: each record once, all committed"):
                    home = steer(self.muster, "GET", "/coordinators/shop")["broker"]
                    steer(self.muster, "POST", "/coordinators/shop/move", to=(home + 1) % 3, load_ms=LOAD_MS)
                    self.consume(members, number * RECORDS)
            with self.check("three brokers restart, one after the other: each record once, all committed"):
                steer(self.muster, "POST", "/brokers/rolling-restart", down_ms=DOWN_MS)
                self.consume(members, (MOVES + 1) * RECORDS)
            with self.check("nobody has rebalanced"):
                assert self.generation() == generation
                assert share(members, PARTITIONS)

    def consume(self, members: list[Member], count: int) -> None:
        """Produce more records, and wait until all of them so far are consumed and committed."""
        self.produce("orders", "none", RECORDS)
        wait_until(f"{count} are consumed", lambda: len(seen(members)) >= count)
        shares = {str(partition): count // PARTITIONS for partition in range(PARTITIONS)}
        wait_until("all is committed", lambda: steer(self.muster, "GET", "/groups/shop")["offsets"]["orders"] == shares)
        assert not (again := twice(members)), f"read again: {again}"

    def generation(self) -> int:
        generation: int = steer(self.muster, "GET", "/groups/shop")["generation"]
        return generation
