"""What has to be done some time: logs compacted, old records deleted, unused transactional ids forgotten.

All of it in short steps, so that whoever drives it can serve clients between two of them.
"""

import logging
from collections.abc import Iterator
from typing import Final

from coordinator.core.transactions.expiry import forgotten
from coordinator.runtime.node import Node
from storage import cleaner
from storage.log import Log

log = logging.getLogger("muster.janitor")

FORGET_MS: Final = 3_600_000  # between two looks for transactional ids that nobody uses


class Janitor:
    """Looks after a node's logs."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._retain_at_ms = 0
        self._forget_at_ms = 0

    def round(self, now_ms: int) -> Iterator[None]:
        """Do what is due by now, a step of a few milliseconds at each `next`. Raises StorageFailed."""
        if now_ms >= self._retain_at_ms:
            self._retain_at_ms = now_ms + self._node.config["log.retention.check.interval.ms"]
            yield from self._node.dataplane.tend(now_ms)
        if now_ms >= self._forget_at_ms:
            self._forget_at_ms = now_ms + FORGET_MS
            self._node.record(forgotten(self._node.ledger.transactions, now_ms), now_ms)
            self._node.flush()
            yield
        for one in self._node.compacted_logs():
            if cleaner.is_due(one):
                yield from _compacted(one, now_ms)


def _compacted(one: Log, now_ms: int) -> Iterator[None]:
    done = yield from cleaner.compact(one, now_ms)
    if done is not None:
        log.info("compacted", extra={"log": one.directory, "before": done.bytes_before, "after": done.bytes_after})
