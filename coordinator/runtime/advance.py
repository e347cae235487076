"""Renew sessions and report fired timers while the caller moves the coordinator's clock.

Between `Advance(...)` and `arrive` the node has its turns at each deadline on the way.
"""

from collections.abc import Callable

from coordinator.control.inputs import AdvanceInput, Kind
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.core.timers import EXPIRY, SESSION, Due, TimerKey
from coordinator.runtime.world import World


class Advance:
    """A move of the clock, as the timers of a node see it (`AdvanceLike`). Call `close` in any case."""

    def __init__(
        self, world: World, target_ms: int, is_kept: Callable[[TimerKey], bool], note: Callable[[Due], None]
    ) -> None:
        """`is_kept` says whether a session is renewed instead of ended; `note` is told of each timer that fires."""
        self._world = world
        self.target_ms = target_ms
        self._is_kept = is_kept
        self.note_timer = note
        self._noted = AdvanceInput(target_ms)
        if world.note_input is not None:
            world.note_input(Kind.ADVANCE, self._noted)
        for partition in world.partitions:
            timers = partition.shard.timers
            if (timers.deadline(EXPIRY) or target_ms) < target_ms:
                timers.set(EXPIRY, target_ms)  # one pass finds all that a thousand would have found
        world.set_advance(self)

    def arrive(self, now_ms: int) -> Steps[None]:
        """Renew the sessions of members that are kept alive, in steps: the clock has arrived."""
        if self._world.note_input is not None:
            self._world.note_input(Kind.ADVANCED, now_ms)
        pace = Pace()
        for partition in self._world.partitions:
            shard = partition.shard
            for group in tuple(shard.groups.values()):
                for member_id in group.members:
                    if pace.is_due():
                        yield
                    key = (SESSION, group.group_id, member_id)
                    if key in shard.timers and self.keeps_alive(key):
                        shard.renew_session(key, now_ms)

    def close(self) -> None:
        """Let sessions end again, and tell nobody of timers."""
        self._world.set_advance(None)

    def keeps_alive(self, key: TimerKey) -> bool:
        """Return whether a session that would end is renewed instead, and note that in the journal."""
        is_kept = self._is_kept(key)
        if self._world.note_input is not None:
            self._noted.renewed.append(is_kept)
        return is_kept
