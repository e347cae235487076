"""What groups ask for beside replies and timers, and who does it: one table, by the type of the effect."""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.result import BeginShareStates, ComputeTarget, CreateTopics, EndShareStates, RemoveOffsets
from coordinator.runtime.engine import Engine, Perform
from coordinator.runtime.partition import Partition
from coordinator.runtime.share_groups import perform


def _create_topics(engine: Engine, partition: Partition, wanted: CreateTopics, response: Any) -> Any:
    from coordinator.runtime.group_topics import create_topics_of_group  # which few servers are asked for

    engine.do_in_steps(create_topics_of_group(engine, wanted))
    return response


def _compute_target(engine: Engine, partition: Partition, wanted: ComputeTarget, response: Any) -> Any:
    from coordinator.runtime.group_targets import compute_target_of_group  # which small groups do without

    engine.do_in_steps(compute_target_of_group(engine, wanted))
    return response


def _remove_offsets(engine: Engine, partition: Partition, wanted: RemoveOffsets, response: Any) -> Any:
    shard = partition.shard
    shard.offsets.hide_group(wanted.group_id)
    engine.do_in_steps(engine.take_steps(partition, shard.remove_offsets(wanted.group_id, wanted.at_ms)))
    return response


EFFECTS: Final[Mapping[type, Perform]] = {
    CreateTopics: _create_topics,
    ComputeTarget: _compute_target,
    BeginShareStates: perform,
    EndShareStates: perform,
    RemoveOffsets: _remove_offsets,
}
"""Each is a function `(engine, partition, effect, response)` that returns the response, with what came of it."""
