"""Server-side assignors: pure functions from members and topics to who owns what."""

from collections.abc import Mapping

from coordinator.core.assignors import range as range_assignor
from coordinator.core.assignors import uniform
from coordinator.core.assignors.spec import Assignor

BUILT_IN: Mapping[str, Assignor] = {"uniform": uniform.assign, "range": range_assignor.assign}
"""Kafka's two, by the names that members ask for; in the order of `group.consumer.assignors`' default."""

ENTRY_POINTS = "muster.assignors"
"""The entry point group under which other packages register theirs; `coordinator/runtime/assignors.py` loads them."""
