"""Compute the target assignment of a large group in steps, and give it to the group."""

from coordinator.core.decision import Steps
from coordinator.core.result import ComputeTarget, TakeTarget
from coordinator.runtime.engine import Engine


def compute_target_of_group(engine: Engine, wanted: ComputeTarget) -> Steps[None]:
    """Do the steps of the assignor, the first one after the request that wants the target is answered.

    Where they fail, the group is told so too, so that its next heartbeat has them done again.
    """
    yield
    computed = None
    try:
        computed = yield from wanted.steps
    finally:
        partition = engine.world.partitions.owner(wanted.group_id)
        if partition.is_loaded:
            outcome = TakeTarget(wanted.group_id, wanted.target, computed)
            engine.take(partition, partition.shard.handle(outcome, wanted.call), wanted.group_id)
