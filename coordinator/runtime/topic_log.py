"""Write one line to the server's log for each topic that is created, deleted or gets partitions."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from coordinator.core.catalog.catalog import Change

LINES_MAX: Final = 20  # of one step; further topics are one line

log = logging.getLogger("muster.topic")


def log_changes(changes: Sequence[Change]) -> None:
    """Log topics that were created, deleted, or given more partitions."""
    for change in changes[:LINES_MAX]:
        for message, facts in describe(change):
            log.info(message, extra=facts)
    if len(changes) > LINES_MAX:
        log.info("further topics changed", extra={"topics": len(changes) - LINES_MAX})


def describe(change: Change) -> list[tuple[str, dict[str, Any]]]:
    """Return a message and facts for a change; two if a topic was deleted and created again."""
    before, after = change.before, change.after
    lines: list[tuple[str, dict[str, Any]]] = []
    if before is not None and change.is_end:
        lines.append(("topic deleted", {"topic": change.name, "partitions": before.partitions}))
    if after is not None and (before is None or change.is_end):
        lines.append(("topic created", {"topic": change.name, "partitions": after.partitions}))
    elif before is not None and after is not None and before.partitions != after.partitions:
        lines.append(("partitions added", {"topic": change.name, "partitions": after.partitions}))
    return lines
