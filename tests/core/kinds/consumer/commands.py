"""What scripts say to consumer groups, and how records and answers of consumer groups read.

Partitions are written `t/0-2,u/1`; `nothing` is an empty list and leaving a word out is null, "unchanged".
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core import records as r
from coordinator.core.env import Env
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.consumer_group_describe import describe as described
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.owners import holders
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from coordinator.core.topics import Topics
from protocol.errors import ProtocolError
from protocol.messages import consumer_protocol as embedded
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponseDescribedGroup
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupResponse
from tests.core import rendering
from tests.core.world import START_MS, Words, World, command, topic_id


def parts(text: str) -> dict[str, tuple[int, ...]]:
    """`t/0-2,t/5,u/1` as topics with their partitions."""
    found: dict[str, tuple[int, ...]] = {}
    for word in text.split(",") if text != "nothing" else ():
        name, _, numbers = word.partition("/")
        first, _, last = numbers.partition("-")
        found[name] = (*found.get(name, ()), *range(int(first), int(last or first) + 1))
    return found


@command("hb")
def heartbeat(world: World, words: Words) -> list[str]:
    """`hb a 2 owned=t/0-2`: member a at epoch 2. At epoch 0 it says `names=t timeout=10s owned=nothing` unless told."""
    member_id, epoch_text = words.plain
    epoch = int(epoch_text)
    regex = words.maybe("regex")
    joins = epoch == 0
    names = words.maybe("names") if "names" in words._keyed or not joins or regex is not None else "t"
    owned = words.maybe("owned") if "owned" in words._keyed or not joins else "nothing"
    timeout = words.maybe("timeout") if "timeout" in words._keyed or not joins else "10s"
    request = ConsumerGroupHeartbeatRequest(
        group_id=_blank(words.text("group", "g")),
        member_id="" if member_id == "-" else _blank(member_id),
        member_epoch=epoch,
        instance_id=_maybe_blank(words.maybe("instance")),
        rack_id=_maybe_blank(words.maybe("rack")),
        rebalance_timeout_ms=-1 if timeout is None else Words([f"t={timeout}"]).ms("t", "0"),
        subscribed_topic_names=None if names is None else tuple(n for n in names.split(",") if n not in ("", "none")),
        subscribed_topic_regex="" if regex == "none" else regex,
        server_assignor="" if (assignor := words.maybe("assignor")) == "none" else assignor,
        topic_partitions=None if owned is None else told_partitions(parts(owned)),
    )
    words._keyed.setdefault("as", member_id)
    return world.ask(words, 1, request)


def _blank(text: str) -> str:
    return " " if text == "_" else text


def _maybe_blank(text: str | None) -> str | None:
    return None if text is None else _blank(text)


def told_partitions(owned: Mapping[str, Collection[int]]) -> tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
    return tuple(
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id(name), tuple(numbers)) for name, numbers in owned.items()
    )


@command("strange")
def strange(world: World, words: Words) -> list[str]:
    """`strange a`: a later version of Kafka has left member a in a state that is not known here."""
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup), f"{group!r} is no consumer group"
    record = record_builders.current("g", group.members[words.plain[0]])
    assert isinstance(record.value, r.ConsumerGroupCurrentMemberAssignmentValue), "record 8"
    record = r.Record(record.key, replace(record.value, state=77))
    world.put(record)
    return [rendering.record(record, -1, START_MS)]


@command("describe-consumer")
def describe(world: World, words: Words) -> list[str]:
    """`describe-consumer group=h`."""
    return rendering.response(world.describe("consumer", words.text("group", "g"), 1)).split("\n")


@command("fetch-as")
def fetch(world: World, words: Words) -> list[str]:
    """`fetch-as a 3`: whether that member may read offsets at that epoch; `fetch-as null -1` names nobody."""
    member_id, epoch = words.plain
    wanted = OffsetFetchRequestGroup("g", None if member_id == "null" else member_id, int(epoch), None)
    return [rendering.error(world.shard.fetch_offsets(wanted, 9, require_stable=False).error_code)]


@command("own")
def own(world: World, words: Words) -> None:
    """`own group_consumer_heartbeat_interval_ms=7000`: settings of group g itself."""
    changes: dict[str, Any] = {name: int(value) for name, value in words.rest().items()}
    world.shard.set_limits("g", replace(world.limits, **changes))


@command("old-topics-record")
def old_topics_record(world: World, words: Words) -> None:
    """Kafka 4.0 has left its record of the group's topics in the log."""
    value = r.ConsumerGroupPartitionMetadataValue()
    record = r.Record(r.ConsumerGroupPartitionMetadataKey("g"), value)
    world.put(record)


@command("compact")
def compact(world: World, words: Words) -> None:
    """Only the latest record of each key stays in the log, tombstones too."""
    world.compact()


@command("invariants")
def invariants(world: World, words: Words) -> None:
    """What must be true of group g at any time is checked."""
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup), f"{group!r} is no consumer group"
    check(group, world.limits)


def check(group: ConsumerGroup, limits: Limits) -> None:
    """K-144 and what follows from the members: the indices and counters agree with a walk over them."""
    held: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        assert member.epoch <= group.epoch, f"{member.member_id} is ahead of its group"
        for owned in (member.assigned, member.pending):
            for topic, numbers in owned.items():
                assert numbers, f"{member.member_id} owns a topic without partitions"
                for number in numbers:
                    assert held.setdefault((topic, number), member.member_id) == member.member_id, "two owners"
    index = holders(group.owners)
    assert index == {key: group.members[member_id].epoch for key, member_id in held.items()}, "the owners' index"
    assert group.owners.keys() == {topic for topic, _ in held}, "what nobody holds is remembered"
    assert group.assignment_epoch <= group.epoch, "a target from the future"
    targets = [(topic, p) for target in group.targets.values() for topic, ps in target.items() for p in ps]
    assert len(targets) == len(set(targets)), "a partition in two targets"
    assert group.settled == sum(member.is_at(group.assignment_epoch) for member in group.members.values())
    rebuilt = ConsumerGroup("g")
    for member in group.members.values():
        rebuilt = rebuilt.with_member(member)
    for name in ("names", "patterns", "votes", "classics", "protocols"):
        assert getattr(group, name) == getattr(rebuilt, name), name
    instances = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
    assert dict(group.instances.items()) == instances, "the index of instances"
    assert described(group, "g", Env(NOBODYS, limits, Topics())).group_state == group.state


NOBODYS = Call(0, START_MS, 1, None, "", str)


# -- how things read ---------------------------------------------------------------------------------------------------


def owned_text(owned: Mapping[bytes, Collection[int]]) -> str:
    """`t/0-2,u/1`, or `nothing`."""
    words = []
    for topic in sorted(owned):
        for first, last in _runs(sorted(owned[topic])):
            words.append(f"{_name(topic)}/{first}" + (f"-{last}" if last > first else ""))
    return ",".join(words) or "nothing"


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _name(topic: bytes) -> str:
    return topic.decode().rstrip(".")


def _entries(entries: Any) -> str:
    return owned_text({entry.topic_id: entry.partitions for entry in entries})


def _since(entries: Any) -> str:
    """Partitions with the epochs in which they were assigned: `t/0-1@2,t/5@3`."""
    by_epoch: dict[tuple[bytes, int], list[int]] = {}
    for entry in entries:
        for partition, epoch in zip(entry.partitions, entry.assignment_epochs, strict=True):
            by_epoch.setdefault((entry.topic_id, epoch), []).append(partition)
    words = [f"{owned_text({topic: numbers})}@{epoch}" for (topic, epoch), numbers in by_epoch.items()]
    return " ".join(words) or "nothing"


def _heartbeat(answer: ConsumerGroupHeartbeatResponse) -> str:
    if answer.error_code:
        assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0), "K-009"
        assert answer.assignment is None and (answer.error_message is None) == (answer.error_code == -1), "K-009"
        return rendering.error(answer.error_code)
    every = f" every {answer.heartbeat_interval_ms}ms" if answer.heartbeat_interval_ms != 5000 else ""
    owns = "" if answer.assignment is None else f" owns {_entries(answer.assignment.topic_partitions)}"
    return f"{answer.member_id} epoch={answer.member_epoch}{every}{owns}"


def _current(value: r.ConsumerGroupCurrentMemberAssignmentValue) -> str:
    state = MemberState.read(value.state).name.removesuffix("_PARTITIONS")
    pending = value.partitions_pending_revocation
    return (
        f"epoch={value.member_epoch} previous={value.previous_member_epoch} {state} {_since(value.assigned_partitions)}"
        + (f" pending {_since(pending)}" if pending else "")
    )


def _member(value: r.ConsumerGroupMemberMetadataValue) -> str:
    words = [f"names={','.join(value.subscribed_topic_names) or 'none'}"]
    words += [f"regex={value.subscribed_topic_regex}"] if value.subscribed_topic_regex else []
    words += [f"instance={value.instance_id}"] if value.instance_id is not None else []
    words += [f"rack={value.rack_id}"] if value.rack_id is not None else []
    words += [f"assignor={value.server_assignor}"] if value.server_assignor is not None else []
    words += [f"timeout={value.rebalance_timeout_ms}ms client={value.client_id}{value.client_host}"]
    if value.classic_member_metadata is not None:
        names = ",".join(protocol.name for protocol in value.classic_member_metadata.supported_protocols)
        words.append(f"classic({names} session={value.classic_member_metadata.session_timeout_ms}ms)")
    return " ".join(words)


def _described(group: ConsumerGroupDescribeResponseDescribedGroup) -> str:
    if group.error_code:
        return rendering.error(group.error_code)
    lines = [f"{group.group_state} epoch={group.group_epoch}/{group.assignment_epoch} assignor={group.assignor_name}"]
    for member in group.members:
        kind = {0: "classic", 1: "consumer"}[member.member_type]
        instance = "" if member.instance_id is None else f"@{member.instance_id}"
        lines.append(
            f"  {member.member_id}{instance} {kind} epoch={member.member_epoch} rack={member.rack_id} "
            f"names={','.join(member.subscribed_topic_names)} regex={member.subscribed_topic_regex!r} "
            f"owns {_entries(member.assignment.topic_partitions)} "
            f"target {_entries(member.target_assignment.topic_partitions)}"
        )
    return "\n".join(lines)


_opaque_sync = rendering.RESPONSES[SyncGroupResponse]


def _sync(answer: SyncGroupResponse) -> str:
    """A coordinator's own assignment is read; what the scripts of classic groups assign is opaque."""
    try:
        assignment = embedded.read_assignment(answer.assignment)
    except ProtocolError:
        return _opaque_sync(answer)
    entries = {topic_id(entry.topic): entry.partitions for entry in assignment.assigned_partitions}
    return f"assigned {owned_text(entries)} {answer.protocol_type}/{answer.protocol_name}"


rendering.RESPONSES |= {
    ConsumerGroupHeartbeatResponse: _heartbeat,
    ConsumerGroupDescribeResponseDescribedGroup: _described,
    SyncGroupResponse: _sync,
}
rendering.VALUES |= {
    r.ConsumerGroupMetadataValue: lambda value: f"epoch={value.epoch}" + ("" if value.metadata_hash else " no topics"),
    r.ConsumerGroupMemberMetadataValue: _member,
    r.ConsumerGroupTargetAssignmentMetadataValue: lambda value: (
        f"epoch={value.assignment_epoch} "
        + (f"at {rendering.clock(value.assignment_timestamp - START_MS)}" if value.assignment_timestamp else "at 0")
    ),
    r.ConsumerGroupTargetAssignmentMemberValue: lambda value: _entries(value.topic_partitions),
    r.ConsumerGroupCurrentMemberAssignmentValue: _current,
    r.ConsumerGroupRegularExpressionValue: lambda value: (
        f"{','.join(value.topics) or 'none'} version={value.version} at {rendering.clock(value.timestamp - START_MS)}"
    ),
}
