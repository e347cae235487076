"""Streams groups beside classic and consumer groups: who becomes what, what is refused, how they are listed."""

from tests.conformance.actors import Member, Modern, Streams, subscription
from tests.conformance.requests import commit, describe, describe_streams, fetch, part, remove
from tests.conformance.scenes import join_alone, join_consumer, sole_streams
from tests.conformance.stage import Stage
from tests.conformance.story import story
from tests.conformance.topologies import reads


@story("S-024", server="streams")
def an_empty_classic_group_becomes_a_streams_group(k: Stage) -> None:
    """It keeps its offsets, and its epochs begin anew."""
    topic = k.topic()
    c = join_alone(k, "c")
    c.commit(topic, 5)
    Streams(k, "a").join(reads(topic))
    c.leave()
    a = Streams(k, "a")
    a.join(reads(topic))
    fetch(a.line, a.group, topic)
    describe_streams(k, a.group)


@story("S-024", server="streams")
def a_group_of_offsets_becomes_a_streams_group(k: Stage) -> None:
    """Nobody was ever in it."""
    topic = k.topic()
    a = Streams(k, "a")
    commit(k.line("x"), a.group, topic, part(7))
    a.join(reads(topic))
    fetch(a.line, a.group, topic)


@story("S-024 S-002", server="streams")
def an_empty_streams_group_becomes_a_classic_one(k: Stage) -> None:
    """Its offsets stay; back again, epochs begin anew and the topology may be another."""
    known, a = sole_streams(k)
    topic = k.name("t")
    a.beat(rack_id="r")
    commit(a.line, a.group, topic, member_id=a.member_id, generation_id_or_member_epoch=a.epoch)
    c = Member(k, "c")
    c.join()
    a.leave()
    c.join_and_sync(b"all")
    fetch(a.line, a.group, topic)
    describe_streams(k, a.group)
    a.join(known)
    c.leave()
    a.join(reads(k.topic("other")))


@story("S-024", server="streams")
def to_ask_for_a_member_id_is_enough(k: Stage) -> None:
    """A JoinGroup that is only told its member id makes an empty streams group a classic one."""
    _known, a = sole_streams(k)
    a.leave()
    c = Member(k, "c")
    c.introduce()
    describe_streams(k, a.group)
    c.line.call("describe_groups", 6, groups=[a.group])


@story("S-024", server="streams")
def consumer_and_streams_groups_never_change(k: Stage) -> None:
    """Neither while they have members nor when they are empty."""
    known, a = sole_streams(k)
    topic = k.name("t")
    b = Modern(k, "b")
    b.join(topic)
    a.leave()
    b.join(topic)
    c = join_consumer(k, "c", topic, group=k.name("g2"))
    d = Streams(k, "d", k.name("g2"))
    d.join(known)
    c.leave()
    d.join(known)
    d.beat(member_epoch=1)
    d.leave()


@story("S-024", server="streams")
def classic_requests_to_a_streams_group(k: Stage) -> None:
    """JoinGroup is inconsistent with its protocol; the others know no such group or member."""
    _known, a = sole_streams(k)
    c = Member(k, "c")
    c.join()
    c.join(protocol_type="streams", protocols=[{"name": "stream", "metadata": b"x"}])
    c.member_id, c.generation = a.member_id, a.epoch
    c.beat()
    c.sync()
    c.leave()
    remove(k, a.group, {"member_id": a.member_id})
    remove(k, a.group, {"member_id": "", "group_instance_id": "one"})
    a.beat()


@story("S-024", server="streams")
def classic_requests_to_an_empty_streams_group(k: Stage) -> None:
    """It knows no member, and stays what it is."""
    _known, a = sole_streams(k)
    a.leave()
    c = Member(k, "c")
    c.member_id, c.generation = "m", 1
    c.beat()
    c.sync()
    c.leave()
    describe_streams(k, a.group)


@story("S-024", server="streams")
def consumer_requests_to_a_streams_group(k: Stage) -> None:
    """Heartbeats that join, stay and leave; a description."""
    _known, a = sole_streams(k)
    b = Modern(k, "b")
    b.join(k.name("t"))
    b.beat(member_epoch=2)
    b.leave()
    describe(k, a.group)


@story("S-024 S-035", server="streams")
def how_other_apis_describe_a_streams_group(k: Stage) -> None:
    """DescribeGroups has it as dead; StreamsGroupDescribe does not know the others."""
    _known, a = sole_streams(k)
    for version in (0, 5, 6):
        a.line.call("describe_groups", version, groups=[a.group])
    join_alone(k, "c", group=k.name("classic"))
    join_consumer(k, "d", k.name("t"), group=k.name("consumer"))
    describe_streams(k, k.name("classic"), k.name("consumer"), a.group)


@story("S-023", server="streams")
def streams_groups_are_listed(k: Stage) -> None:
    """In every version, by type and by state; the filter of states knows NotReady by another name alone."""
    _known, a = sole_streams(k)
    Streams(k, "b", k.name("unready")).join(reads(k.name("missing")))
    Streams(k, "c", k.name("empty")).join(reads(k.name("t")))
    k.line("c").call("streams_group_heartbeat", 0, group_id=k.name("empty"), member_id="member-c", member_epoch=-1)
    join_alone(k, "d", group=k.name("classic"))
    mine = "groups.group_id"
    for version in range(6):
        a.line.call("list_groups", version, mine=mine)
    for types in (["streams"], ["Streams"], ["STREAMS", "classic"], ["consumer"]):
        a.line.call("list_groups", 5, mine=mine, types_filter=types)
    for states in (["NotReady"], ["not_ready"], ["NOT_READY"], ["notready"], ["Empty"], ["stable"], ["Assigning"]):
        a.line.call("list_groups", 5, mine=mine, states_filter=states)
    a.line.call("list_groups", 5, mine=mine, states_filter=["stable"], types_filter=["streams"])


@story("S-024 S-002", server="streams")
def a_streams_group_that_is_deleted_with_its_offsets(k: Stage) -> None:
    """A group that comes to be under its name has none of them."""
    _known, a = sole_streams(k)
    topic = k.name("t")
    commit(a.line, a.group, topic, member_id=a.member_id, generation_id_or_member_epoch=a.epoch)
    a.leave()
    k.line("admin").call("delete_groups", 2, groups_names=[a.group])
    fetch(a.line, a.group, topic)
    k.line("admin").call("delete_groups", 2, groups_names=[a.group])


@story("S-024", server="streams")
def a_classic_streams_application_migrates(k: Stage) -> None:
    """Its group of protocol type stream becomes a streams group when the last member has left."""
    topic = k.topic()
    c = Member(k, "c", protocol_type="consumer", protocols=[{"name": "stream", "metadata": subscription(topic)}])
    c.join_and_sync(b"all")
    c.commit(topic, 3)
    a = Streams(k, "a")
    a.join(reads(topic))
    c.leave()
    a.join(reads(topic))
    fetch(a.line, a.group, topic)


@story("S-026 S-019 S-018 S-035", server="streams-restart")
def a_streams_group_after_a_restart(k: Stage) -> None:
    """Epochs and tasks are there; the endpoint epoch and the shutdown are gone, and sizes are found again."""
    _known = reads(k.topic(partitions=2))
    a = Streams(k, "a")
    a.join(_known, user_endpoint={"host": "a", "port": 1})
    a.beat(shutdown_application=True)
    describe_streams(k, a.group)
    k.restart(a.group)
    describe_streams(k, a.group)
    a.beat()
    a.beat()
    describe_streams(k, a.group)


@story("S-026 S-016", server="streams-restart")
def a_hand_over_of_tasks_across_a_restart(k: Stage) -> None:
    """What A had to give up it has to give up still."""
    known = reads(k.topic(partitions=4))
    a, b = Streams(k, "a"), Streams(k, "b")
    a.join(known)
    b.join(known)
    a.beat()
    k.restart(a.group)
    a.beat()
    a.owns()
    b.beat()
    describe_streams(k, a.group)


@story("S-026 S-002", server="streams-restart")
def an_empty_streams_group_after_a_restart(k: Stage) -> None:
    """It is there, with its epoch and its topology."""
    known = reads(k.topic(partitions=2))
    a = Streams(k, "a")
    a.join(known)
    a.leave()
    k.restart(a.group)
    describe_streams(k, a.group)
    a.join({**known, "epoch": 5})
    a.join(known)


@story("S-027", server="streams-off")
def a_broker_without_streams_groups(k: Stage) -> None:
    """Both requests are UNSUPPORTED_VERSION, and ApiVersions lists them still."""
    a = Streams(k, "a")
    a.join(reads(k.topic()))
    a.beat(member_epoch=1)
    describe_streams(k, a.group, k.name("other"))
    versions = k.line("x").quietly("api_versions", 3, client_software_name="x", client_software_version="1")
    k.events.append({"keys": [one.api_key for one in versions.api_keys if one.api_key in (88, 89)]})


@story("S-024", server="streams")
def a_stranger_rejoins_an_empty_streams_group(k: Stage) -> None:
    """A JoinGroup with an id that nobody has is refused, and the group is what it was."""
    known, a = sole_streams(k)
    a.beat(rack_id="r")
    a.leave()
    c = Member(k, "c")
    c.member_id = "stranger"
    c.join()
    describe_streams(k, a.group)
    a.join(known)
