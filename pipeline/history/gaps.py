"""Outages as seen from outside: from a group's last commit before a rebalance to its first one after."""

from pipeline.history.records import Activity, Rebalance


class CommitGaps:
    """Fills in `commit_gap_ms` of rebalances once the group commits again."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Rebalance, int]] = []  # with the last commit before
        self._last_ts: int | None = None

    def wait(self, rebalance: Rebalance) -> None:
        """Note a rebalance; the first commit after it is not known yet."""
        if self._last_ts is not None:
            self._waiting.append((rebalance, self._last_ts))

    def close(self, step: Activity | None) -> None:
        """End a step with these commits of the group (None: none)."""
        if step is None:
            return
        for rebalance, before in self._waiting:
            rebalance.commit_gap_ms = step.first_ts - before
        self._waiting = []
        self._last_ts = step.last_ts
