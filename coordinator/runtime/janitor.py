"""Do the upkeep in small steps: compact logs, delete old records, forget unused transactional ids.

All of it in short steps, so that whoever drives it can serve clients between two of them.
"""

import logging
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from coordinator.control.inputs import Kind
from coordinator.runtime.node import Node
from protocol.errors import ProtocolError
from storage import cleaner
from storage.files import StorageError
from storage.log import Log

log = logging.getLogger("muster.janitor")

RETRY_MS: Final = 300_000  # before a log whose compaction has failed is tried again
REST_ROUNDS: Final = 10
"""Before a log that was compacted is compacted again: some ten seconds. Each time costs syncs and files, however small
the result is, and a log that grows by megabytes a second would be compacted all the time."""
FINISH_MS: Final = 5_000  # between two looks for transactions whose end was decided and could not be written
FORGET_MS: Final = 3_600_000  # between two looks for transactional ids that nobody uses


DONE_MAX: Final = 1_000
PAUSE_SECONDS: Final = 0.001  # between two looks whether another round is over
PRUNE_INTERVAL: Final = "share.coordinator.state.topic.prune.interval.ms"
AWAY_MS: Final = 86_400_000  # a server that was away for longer, or whose clock has jumped, says so


def _newest_ms(node: Node) -> int:
    """Return the time of the newest record in the coordinator's own logs, -1 where there is none."""
    logs = [node.world.ledger.log, *(partition.log for partition in node.world.partitions if partition.has_log)]
    return max([segment.max_timestamp for one in logs for segment in one.segments], default=-1)


class Janitor:
    """Looks after a node's logs."""

    def __init__(self, node: Node, now_ms: int, rest_rounds: int = REST_ROUNDS) -> None:
        self._node = node
        # Not at once: a clock that is wrong at boot may be put right before records are deleted by it.
        self._retain_at_ms = self._forget_at_ms = now_ms + node.world.config["log.retention.check.interval.ms"]
        self._finish_at_ms = now_ms + FINISH_MS
        self._prune_at_ms = now_ms + node.world.config[PRUNE_INTERVAL]
        self._compact_at_ms: dict[str, int] = {}  # not before, by the directory of a log whose compaction has failed
        self._rest_rounds = rest_rounds
        self.is_busy = False  # whether a round is being done
        self.done: deque[tuple[str, str]] = deque(maxlen=DONE_MAX)  # the latest that was done, and to what
        self._rounds = 0  # so far; not a time, because the clock may be stopped
        self._rests_until: dict[str, int] = {}  # the round from which on a log may be compacted again, by its directory
        newest_ms = _newest_ms(node)
        if newest_ms >= 0 and (away_ms := now_ms - newest_ms) > AWAY_MS:
            said = "the newest record is %d hours old by this clock; if the clock is wrong, stop before records expire"
            log.warning(said, away_ms // 3_600_000)

    def round(self, now_ms: int) -> Generator[cleaner.Wait | None, None, None]:
        """Do what is due by now, a step of a few milliseconds at each `next`.

        A step may hand out a `Wait`, to be called on another thread before the next one. Raises StorageError when
        nothing can be appended to one of the coordinator's own logs any more. While another round is being done, as by
        a move of the clock, there is nothing to do.
        """
        if self.is_busy:
            return
        self.is_busy = True
        try:
            yield from self._round(now_ms)
        finally:
            self.is_busy = False

    def deadlines(self) -> Iterator[tuple[str, int]]:
        """Yield the names of what is done at a time of the clock, and that time."""
        yield "retention", self._retain_at_ms
        yield "transactional_ids", self._forget_at_ms
        yield "share_states", self._prune_at_ms

    def begin_move(self) -> None:
        """Forget what was done before a move of the clock."""
        self.done.clear()

    def catch_up(self, now_ms: int) -> Generator[cleaner.Wait | None, None, list[tuple[str, str]]]:
        """Do what is due by now, for a clock that an operator has moved. Returns what was done since `begin_move`, and
        to what.

        It waits for a round that is being done: that one began by the time before. What to do about a disk that fails
        is left to the next one.
        """
        while self.is_busy:
            yield partial(time.sleep, PAUSE_SECONDS)
        with suppress(StorageError):
            yield from self.round(now_ms)
        return list(self.done)

    def _round(self, now_ms: int) -> Generator[cleaner.Wait | None, None, None]:
        self._rounds += 1
        if now_ms >= self._retain_at_ms:
            self.done.append(("retention", ""))
            self._retain_at_ms = now_ms + self._node.world.config["log.retention.check.interval.ms"]
            self._note(Kind.RETAIN, now_ms)
            for _ in self._node.world.dataplane.tend(now_ms):
                yield None
                self._note(Kind.RETAIN_STEP, None)
        if now_ms >= self._finish_at_ms:
            self._finish_at_ms = now_ms + FINISH_MS
            if self._node.engine.recorder.has_prepared_transactions:  # else nobody is kept waiting for the disk
                self._note(Kind.FINISH, now_ms)
                self._node.engine.recorder.finish_transactions(now_ms)
                yield None
        if now_ms >= self._forget_at_ms:
            self._forget_at_ms = now_ms + FORGET_MS
            self.done.append(("transactional_ids", ""))
            self._note(Kind.EXPIRE_IDS, now_ms)
            self._node.forget_transactional_ids(now_ms)
            yield None
        if now_ms >= self._prune_at_ms:
            self._prune_at_ms = now_ms + self._node.world.config[PRUNE_INTERVAL]
            self.done.append(("share_states", ""))
            self._note(Kind.PRUNE, now_ms)
            self._node.prune_share_states(now_ms)
            yield None
        self._forget_rested(now_ms)
        own = self._node.world.ledger.log, *(p.log for p in self._node.world.partitions if p.has_log)
        for one in self._node.compacted_logs():
            if cleaner.is_due(one) and self._may_compact(one, now_ms):
                yield from self._compact(one, now_ms)
                if one.failure is not None and one in own:
                    raise one.failure

    def _note(self, kind: Kind, value: int | None) -> None:
        """Note what is about to be done, for a replay. Compactions are not noted: their steps follow the real clock."""
        if self._node.world.note_input is not None:
            self._node.world.note_input(kind, value)

    def _may_compact(self, one: Log, now_ms: int) -> bool:
        """Return whether the log has rested since it was compacted, or since that has failed."""
        has_rested = self._rounds >= self._rests_until.get(one.directory, 0)
        return has_rested and now_ms >= self._compact_at_ms.get(one.directory, 0)

    def _forget_rested(self, now_ms: int) -> None:
        """Forget which logs have rested: a deleted one would be kept in mind as long as the server runs."""
        for until, now in ((self._rests_until, self._rounds), (self._compact_at_ms, now_ms)):
            for directory in [directory for directory, end in until.items() if end <= now]:
                del until[directory]

    def _compact(self, one: Log, now_ms: int) -> Generator[cleaner.Wait | None, None, None]:
        """Compact a log. It serves as well uncompacted, so that a failure is logged, and tried again later."""
        try:
            done = yield from cleaner.compact(one, now_ms)
        except (StorageError, ProtocolError) as failure:
            self._compact_at_ms[one.directory] = now_ms + RETRY_MS
            log.warning("a compaction has failed: %s", failure, extra={"log": one.directory})
            return
        self._compact_at_ms.pop(one.directory, None)
        self._rests_until[one.directory] = self._rounds + self._rest_rounds
        self.done.append(("compaction", one.directory.rpartition("/")[2]))
        if done is not None:
            log.info("compacted", extra={"log": one.directory, "before": done.bytes_before, "after": done.bytes_after})
