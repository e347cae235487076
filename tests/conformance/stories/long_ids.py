"""Names as long as the protocol can carry them: client ids, group ids, member and instance ids, metadata.

A string of the old versions is at most 32,767 bytes, and so is each string of a record. An id that the coordinator makes
is a name with a dash and a UUID behind, 37 bytes longer than the name.
"""

from typing import Any

from tests.conformance import wire
from tests.conformance.actors import Member, Modern, assignment, subscription
from tests.conformance.requests import describe, fetch, part
from tests.conformance.scenes import join_consumer
from tests.conformance.stage import Line, Stage
from tests.conformance.story import story

LONGEST = 32_767
UUID_BYTES = 37  # with the dash before it


def long(size: int, start: str = "", letter: str = "x") -> str:
    """A name of so many bytes that starts so."""
    return start + letter * (size - len(start.encode()))


def ask(line: Line, group: str, version: int, **values: Any) -> None:
    """A JoinGroup, and what became of it: an answer, silence or a closed connection."""
    known: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("x")}],
    }
    line.send("join_group", version, **wire.fitting("join_group", version, {**known, **values})).closed(1500)


def look(k: Stage, *groups: str) -> None:
    """Whether the groups are there."""
    watch = k.line("watch")
    watch.call("list_groups", 5, mine="groups.group_id")
    for group in groups:
        watch.call("describe_groups", 6, groups=[group])


@story("C-011")
def a_client_id_that_leaves_no_room_for_a_uuid(k: Stage) -> None:
    """Old and new versions of JoinGroup by clients whose id has all the bytes that a string may have."""
    for version in (0, 3, 4, 6, 9):
        ask(k.line(f"v{version}", client_id=long(LONGEST)), k.name(f"g{version}"), version)
    look(k, *(k.name(f"g{version}") for version in (0, 3, 4, 9)))


@story("C-011")
def a_client_id_that_just_leaves_room_for_a_uuid(k: Stage) -> None:
    """The member id has 32,767 bytes, then one more."""
    names = [(version, more, f"v{version}, {more} more") for more in (0, 1) for version in (3, 5, 9)]
    for version, more, name in names:
        ask(k.line(name, client_id=long(LONGEST - UUID_BYTES + more)), k.name(name), version)
    look(k, *(k.name(name) for _, _, name in names))


@story("C-011")
def a_member_with_a_long_client_id_syncs_and_beats(k: Stage) -> None:
    """The id fits, so that everything is as ever; the client id itself is in the record, too."""
    line = k.line("a", client_id=long(LONGEST - UUID_BYTES))
    a = Member(k, "a")
    assert a.line is line
    a.join_and_sync(b"all")
    a.beat()
    a.leave()


@story("C-011 C-400")
def an_instance_id_that_leaves_no_room_for_a_uuid(k: Stage) -> None:
    """A static member joins with it, and with one that just leaves it."""
    for version in (5, 9):
        for size in (LONGEST, LONGEST - UUID_BYTES + 1, LONGEST - UUID_BYTES):
            name = f"v{version} {size}"
            ask(k.line(name), k.name(name), version, group_instance_id=long(size))
    look(k, k.name(f"v9 {LONGEST}"), k.name("v9 32730"))


@story("C-011 C-400")
def an_instance_id_that_is_too_long_is_looked_at_like_any_other(k: Stage) -> None:
    """Nobody knows it: Heartbeat, SyncGroup, LeaveGroup and OffsetCommit of a group that is not there."""
    a = Member(k, "a", k.name("none"), instance=long(LONGEST))
    a.beat(member_id="m", generation_id=1)
    a.sync(member_id="m", generation_id=1)
    a.leave()
    a.commit(k.topic(), member_id="m")


@story("C-011")
def the_longest_member_id(k: Stage) -> None:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup with 32,767 bytes of member id that nobody gave."""
    a = Member(k, "a")
    a.member_id = long(LONGEST)
    a.ask_join().answer()
    a.beat(generation_id=1)
    a.sync(generation_id=1)
    a.leave()


@story("G-045")
def the_longest_group_id(k: Stage) -> None:
    """A group whose id has 32,767 bytes: joined, synced, committed to, described, listed, deleted."""
    group, topic = long(LONGEST, k.prefix), k.topic()
    a = Member(k, "a", group)
    a.join_and_sync(b"all")
    a.commit(topic, 5)
    a.beat()
    look(k, group)
    k.line("watch").call("find_coordinator", 2, key=group, key_type=0)
    a.leave()
    fetch(a.line, group, topic)
    k.line("watch").call("delete_groups", 2, groups_names=[group])
    k.line("watch").call("list_groups", 5, mine="groups.group_id")


@story("C-030 C-115")
def the_longest_protocols(k: Stage) -> None:
    """Names of a protocol type and a protocol of 32,767 bytes are names like others; the group's id has as many."""
    group = long(LONGEST, k.prefix)
    protocols = [{"name": long(LONGEST, letter="p"), "metadata": b"m" * 2000}]
    a = Member(k, "a", group, protocol_type=long(LONGEST, letter="t"), protocols=protocols)
    a.join_and_sync(b"s" * 2000)
    a.beat()


@story("K-012 K-015")
def the_longest_names_of_a_consumer_member(k: Stage) -> None:
    """Member id, instance id, rack and a topic's name of 32,767 bytes each, and a group of such a name."""
    topic = k.topic()
    longest: dict[str, Any] = {
        "member": {"member_id": long(LONGEST)},
        "instance": {"instance_id": long(LONGEST)},
        "rack": {"rack_id": long(LONGEST)},
        "topic": {"subscribed_topic_names": [topic, long(LONGEST)]},
        "assignor": {"server_assignor": long(LONGEST)},
        "group": {"group_id": long(LONGEST, k.prefix)},
    }
    for name, values in longest.items():
        a = Modern(k, name, k.name(name))
        a.ask(
            **{
                "member_epoch": 0,
                "rebalance_timeout_ms": 30_000,
                "subscribed_topic_names": [topic],
                "topic_partitions": [],
                **values,
            }
        ).closed(within_ms=1500)
        describe(k, values.get("group_id", a.group))


@story("K-235 C-011")
def a_client_id_without_room_for_a_uuid_in_a_consumer_group(k: Stage) -> None:
    """A classic member with such a client id joins a consumer group, in versions 3 and 9; then with a long instance id."""
    topic = k.topic(partitions=2)
    n = join_consumer(k, "n", topic)
    mine = [{"name": "range", "metadata": subscription(topic)}]
    for version in (3, 9):
        ask(k.line(f"v{version}", client_id=long(LONGEST)), n.group, version, protocols=mine)
    ask(k.line("static"), n.group, 9, protocols=mine, group_instance_id=long(LONGEST))
    n.beat()
    describe(k, n.group)


@story("K-225 C-011")
def a_member_with_a_long_client_id_is_upgraded(k: Stage) -> None:
    """Its client id has 32,730 bytes and its member id 32,767; a consumer member joins the group."""
    topic = k.topic(partitions=2)
    k.line("c", client_id=long(LONGEST - UUID_BYTES))
    c = Member(k, "c", protocols=[{"name": "range", "metadata": subscription(topic)}])
    c.join_and_sync(assignment({topic: [0, 1]}))
    n = join_consumer(k, "n", topic)
    c.beat()
    describe(k, n.group)


@story("O-020 O-024")
def the_longest_names_of_a_commit(k: Stage) -> None:
    """Topics of 249, 250 and 32,767 characters that do not exist, beside one that does."""
    topic, line = k.topic(), k.line("a")
    names = (long(249, k.prefix), long(250, k.prefix), long(LONGEST, k.prefix), topic)
    for version in (2, 9):
        topics = [{"name": name, "partitions": [part()]} for name in names]
        line.call("offset_commit", version, group_id=k.name("g"), topics=topics)
    line.call("offset_commit", 9, group_id=long(LONGEST, k.prefix), topics=[{"name": topic, "partitions": [part()]}])
    for name in names:
        fetch(line, k.name("g"), name)


@story("O-020", server="wide")
def metadata_that_a_record_has_no_room_for(k: Stage) -> None:
    """The limit is 40,000 characters: 32,767 bytes, one more, and 33,000 bytes in 11,000 characters."""
    topic = k.topic()
    for number, metadata in enumerate((long(LONGEST), long(LONGEST + 1), "\u4e2d" * 11_000, long(40_001))):
        line, group = k.line(f"a{number}"), k.name(f"g{number}")
        topics = [{"name": topic, "partitions": [part(metadata=metadata), part(index=7)]}]
        line.send("offset_commit", 9, group_id=group, topics=topics).closed(within_ms=1500)
        fetch(k.line("watch"), group, topic)
    look(k)


@story("C-100 K-002", server="wide")
def the_longest_session(k: Stage) -> None:
    """Session and rebalance timeouts of 2,147,483,647 ms, which this server allows."""
    a = Member(k, "a", session_timeout_ms=2**31 - 1, rebalance_timeout_ms=2**31 - 1)
    a.join_and_sync(b"all")
    a.beat()
    b = Member(k, "b", session_timeout_ms=2**31 - 1, rebalance_timeout_ms=2**31 - 1)
    b.introduce()
    waiting = b.ask_join()
    k.pause(200)
    a.beat()
    a.rejoin((b, waiting))
    a.leave()
    b.beat()


@story("O-100")
def the_longest_transactional_id(k: Stage) -> None:
    """32,767 bytes."""
    name = long(LONGEST, k.prefix)
    for version in (0, 4):
        k.line("p").call("init_producer_id", version, transactional_id=name, transaction_timeout_ms=60_000)
    k.line("p").call("find_coordinator", 2, key=name, key_type=1)
    k.line("p").call("describe_transactions", 0, transactional_ids=[name])
