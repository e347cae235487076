"""What scripts say to classic groups, in the words of their requests. What is not said has the default named here."""

from protocol.messages import consumer_protocol as embedded
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.kinds.consumer.commands import parts
from tests.core.world import Words, World, command

JOIN, SYNC, BEAT, LEAVE = 9, 5, 4, 5  # the versions, where `v=` does not say


@command("join")
def join(world: World, words: Words) -> list[str]:
    """`join client=a member=a-1 session=10s rebalance=60s protocols=range,roundrobin`; `join a-1` is the member in short.

    It subscribes to `topics=t,u` and says that it has `owned=t/0-2`, in version 1 unless `embedded=` says another.
    """
    protocols = tuple(
        JoinGroupRequestProtocol(name, metadata(words)) for name in words.list("protocols", "range") if name != "none"
    )
    request = JoinGroupRequest(
        group_id=words.text("group", "g"),
        session_timeout_ms=words.ms("session", "10s"),
        rebalance_timeout_ms=words.ms("rebalance", "60s"),
        member_id=words.member(),
        group_instance_id=words.maybe("instance"),
        protocol_type=words.text("type", "consumer"),
        protocols=protocols,
        reason=words.maybe("reason"),
    )
    return world.ask(words, JOIN, request)


def metadata(words: Words) -> bytes:
    """The subscription, or the very bytes of `metadata=`."""
    raw = words.maybe("metadata")
    subscription = embedded.ConsumerProtocolSubscription(
        topics=tuple(name for name in words.list("topics", "t") if name != "none"),
        owned_partitions=tuple(
            embedded.ConsumerProtocolSubscriptionTopicPartition(*entry)
            for entry in parts(words.text("owned", "nothing")).items()
        ),
        rack_id=words.maybe("rack"),
    )
    return embedded.write(subscription, words.number("embedded", 1)) if raw is None else raw.encode()


@command("sync")
def sync(world: World, words: Words) -> list[str]:
    """`sync client=a member=a-1 generation=1 assign=a-1:t0,b-2:t1`, or `share=a-1:t/0-2` for what members can read.

    With `v=5` also `type=` and `protocol=`; `sync a-1` is the member in short.
    """
    assigned = [word.partition(":") for word in words.list("assign")]
    assignments = [SyncGroupRequestAssignment(member_id, share.encode()) for member_id, _, share in assigned]
    if shared := words.maybe("share"):
        member_id, _, owned = shared.partition(":")
        entries = tuple(embedded.ConsumerProtocolAssignmentTopicPartition(*entry) for entry in parts(owned).items())
        data = embedded.ConsumerProtocolAssignment(entries, (words.maybe("userdata") or "").encode() or None)
        assignments.append(SyncGroupRequestAssignment(member_id, embedded.write(data, 1)))
    request = SyncGroupRequest(
        group_id=words.text("group", "g"),
        generation_id=words.number("generation", 1),
        member_id=words.member(),
        group_instance_id=words.maybe("instance"),
        protocol_type=None if words.text("type", "consumer") == "null" else words.text("type", "consumer"),
        protocol_name=None if words.text("protocol", "range") == "null" else words.text("protocol", "range"),
        assignments=tuple(assignments),
    )
    return world.ask(words, SYNC, request)


@command("beat")
def beat(world: World, words: Words) -> list[str]:
    """`beat client=a member=a-1 generation=1`."""
    request = HeartbeatRequest(
        group_id=words.text("group", "g"),
        generation_id=words.number("generation", 1),
        member_id=words.text("member"),
        group_instance_id=words.maybe("instance"),
    )
    return world.ask(words, BEAT, request)


@command("leave")
def leave(world: World, words: Words) -> list[str]:
    """`leave client=a members=a-1,@i,b-2@j reason=bye`; before version 3 `member=a-1`."""
    reason = words.maybe("reason")
    named = tuple(
        LeaveGroupRequestMemberIdentity(member_id, instance if at else None, reason)
        for member_id, at, instance in (word.partition("@") for word in words.list("members"))
    )
    request = LeaveGroupRequest(words.text("group", "g"), words.text("member"), named)
    return world.ask(words, LEAVE, request)


@command("given")
def given(world: World, words: Words) -> list[str]:
    """`given stable a b c@i`: a group of these clients (and static members) has come to be; `given completing a b`.

    What was said on the way is not told again. Other words go to each `join`. Everyone is assigned its client's name.
    """
    state, *clients = words.plain
    extra = " ".join(f"{key}={value}" for key, value in words.rest().items())
    for client in clients:
        name, at, instance = client.partition("@")
        static = f"instance={instance}" if at else ""
        world.run(f"join client={name} v=5 {static} {extra}" if at else f"join client={name} v=3 {extra}")
    while world.waiting:
        due_ms = world.shard.next_deadline_ms()
        assert due_ms is not None
        world.advance(due_ms)
    group = world.shard.groups["g"]
    members = list(group.members.values())
    if state == "stable":
        assign = ",".join(f"{member.member_id}:{member.client_id}" for member in members)
        for member in sorted(members, key=lambda member: member.member_id != group.leader):
            protocol = f"type={group.protocol_type} protocol={group.protocol}"
            world.run(f"sync member={member.member_id} generation={group.generation} assign={assign} {protocol}")
    after = world.shard.groups["g"]
    names = " ".join(member.member_id for member in members)
    return [
        f"{after.state.value} generation={after.generation} {after.protocol} leader={after.leader} members=({names})"
    ]
