"""The `uniform` assignor: everybody gets equally many partitions, and as few as possible move.

Two ways lead there. Where everybody subscribes to the same topics, quotas say at once what each may keep; where
subscriptions differ, loads are evened out topic by topic. The group's subscriptions decide which, as in Kafka.
Neither looks at racks: Kafka's does not either, up to 4.4.
"""

from collections.abc import Mapping

from coordinator.core.assignors import uniform_heterogeneous, uniform_homogeneous
from coordinator.core.assignors.spec import Assignment, GroupSpec
from coordinator.core.decision import Steps


def assign(spec: GroupSpec) -> Steps[Mapping[str, Assignment]]:
    """Assign partitions so that all members own equally many, and few of them move, in steps."""
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return (yield from uniform_homogeneous.assign(spec))
    return (yield from uniform_heterogeneous.assign(spec))
