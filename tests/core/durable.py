"""What of a shard has to survive a restart, as a value: a shard rebuilt from its records must have the same."""

from typing import Any

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.consumer.owners import holders
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.shard import Shard
from coordinator.core.table import Table
from tests.core.kinds.streams.invariants import owned_by

SOFT = {
    *("topics_seen", "resolving", "long_target", "forced_epoch"),  # of groups with epochs
    *("departed", "configured", "is_delayed", "endpoint_epoch", "creation_errors", "shutdown_by"),  # of streams groups
}


def facts(shard: Shard) -> dict[str, Any]:
    """Groups as of their last written generation are what the records say; offsets are all of them."""
    offsets = {
        group_id: {topic: dict(partitions) for topic, partitions in shard.offsets.of_group(group_id).items()}
        for group_id in shard.offsets.groups()
    }
    pending = {
        group_id: {key: set(producers) for key, producers in shard.offsets.pending_offsets_of(group_id).items()}
        for group_id in shard.offsets.groups()
    }
    return {
        "groups": {group_id: _group(group) for group_id, group in shard.groups.items()},
        "offsets": offsets,
        "pending": pending,
        "count": shard.offsets.count,
    }


def _group(group: Any) -> Any:
    """A classic group is what was written only while it is settled; while it moves, only that it exists."""
    if not isinstance(group, ClassicGroup):
        fields = {name: _plain(getattr(group, name)) for name in group.__struct_fields__ if name not in SOFT}
        if "owners" in fields:
            fields["owners"] = (owned_by if isinstance(group, StreamsGroup) else holders)(group.owners)
        if "initializing" in fields:  # of a share group: when its states were asked for is in no record
            fields["initializing"] = {one: (asked.name, asked.partitions) for one, asked in group.initializing.items()}
        return fields
    if group.state not in (State.STABLE, State.EMPTY):
        return "moving"
    return {
        "state": group.state,
        "empty_since_ms": group.state_since_ms if group.state is State.EMPTY else None,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "topics": group.topics,
        "instances": dict(group.instances.items()),
        "members": {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol),
                member.assignment,
            )
            for member in group.members.values()
        },
    }


def _plain(value: Any) -> Any:
    return dict(value.items()) if isinstance(value, Table) else value


def assert_equal(rebuilt: dict[str, Any], old: dict[str, Any]) -> None:
    """The rebuilt shard has all that the old one had. Of a group that moved, that it exists is enough."""
    for what in ("offsets", "pending", "count"):
        assert rebuilt[what] == old[what], f"{what}: {rebuilt[what]} after the restart, {old[what]} before"
    names = (sorted(rebuilt["groups"]), sorted(old["groups"]))
    assert names[0] == names[1], f"groups: {names[0]} after the restart, {names[1]} before"
    for group_id, group in old["groups"].items():
        if group != "moving":
            assert rebuilt["groups"][group_id] == group, f"{group_id}: {rebuilt['groups'][group_id]} was {group}"
