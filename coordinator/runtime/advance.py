"""Renew sessions and report fired timers while the caller moves the coordinator's clock.

Between `Advance(...)` and `arrive` the node has its turns at each deadline on the way.
"""

from collections.abc import Callable

from coordinator.control.inputs import AdvanceInput, Kind
from coordinator.core.timers import EXPIRY, SESSION, Due, TimerKey
from coordinator.runtime.engine import Engine


class Advance:
    """A move of the clock, as the timers of a node see it. Call `close` in any case."""

    def __init__(
        self, node: Engine, target_ms: int, is_kept: Callable[[TimerKey], bool], on_timer: Callable[[Due], None]
    ) -> None:
        """`is_kept` says whether a session is renewed instead of ended; `on_timer` is told of each timer that fires."""
        self._node = node
        self._is_kept = is_kept
        self._noted = AdvanceInput(target_ms)
        if node.note_input is not None:
            node.note_input(Kind.ADVANCE, self._noted)
        for partition in node.partitions:
            shard = partition.shard
            shard.keeps_alive, shard.on_timer = self._note_kept, on_timer
            if (shard.timers.deadline(EXPIRY) or target_ms) < target_ms:
                shard.timers.set(EXPIRY, target_ms)  # one pass finds all that a thousand would have found

    def arrive(self, now_ms: int) -> None:
        """Renew the sessions of members that are kept alive: the clock has arrived."""
        if self._node.note_input is not None:
            self._node.note_input(Kind.ADVANCED, now_ms)
        for partition in self._node.partitions:
            shard = partition.shard
            for group_id, group in shard.groups.items():
                for member_id in group.members:
                    key = (SESSION, group_id, member_id)
                    if key in shard.timers and self._note_kept(key):
                        shard.renew_session(key, now_ms)

    def close(self) -> None:
        """Let sessions end again, and tell nobody of timers."""
        for partition in self._node.partitions:
            partition.shard.keeps_alive = partition.shard.on_timer = None

    def _note_kept(self, key: TimerKey) -> bool:
        is_kept = self._is_kept(key)
        if self._node.note_input is not None:
            self._noted.renewed.append(is_kept)
        return is_kept
