"""Tokens that clients take for what they change. Kafka: `TokenBucket`."""

from typing import Final

from coordinator.core.quotas.entities import Entity

BURST_S: Final = 11  # how many seconds' tokens are kept at most: quota.window.num times quota.window.size.seconds
BUCKETS_MAX: Final = 100_000
THROTTLE_MS_MAX: Final = 3_600_000  # however far a client is over its quota


class Buckets:
    """The tokens of each client that has a quota. One that is new has as many as it can keep."""

    def __init__(self) -> None:
        self._buckets: dict[Entity, tuple[float, int]] = {}  # tokens, and when they were counted

    def take(self, entity: Entity, rate: float, count: int, now_ms: int) -> int:
        """Take tokens, even those that are not there. Returns how many ms it takes until none is owed, an hour at
        most."""
        tokens = self._tokens(entity, rate, now_ms) - count
        if entity not in self._buckets and len(self._buckets) >= BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[entity] = tokens, now_ms
        return 0 if tokens >= 0 else max(round(min(-tokens / rate * 1000, THROTTLE_MS_MAX)), 1)

    def is_empty(self, entity: Entity, rate: float, now_ms: int) -> bool:
        """Return whether a client owes tokens."""
        return self._tokens(entity, rate, now_ms) < 0

    def _tokens(self, entity: Entity, rate: float, now_ms: int) -> float:
        tokens, counted_ms = self._buckets.get(entity, (BURST_S * rate, now_ms))
        return min(BURST_S * rate, tokens + (now_ms - counted_ms) / 1000 * rate)
