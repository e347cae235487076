"""How members get into a streams group (KIP-1071) and out of it: what is refused, epochs, sessions."""

from tests.conformance.actors import Streams
from tests.conformance.requests import describe_streams
from tests.conformance.scenes import sole_streams, stateful_streams, streams_pair
from tests.conformance.stage import Stage
from tests.conformance.story import story
from tests.conformance.topologies import internal, part, reads, topology

NO_TASKS = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


@story("S-001 S-030 S-035", server="streams")
def the_first_member_gets_every_task(k: Stage) -> None:
    """A topic of three partitions makes three tasks; the group's first epoch of a member is 2."""
    _known, a = sole_streams(k, 3)
    describe_streams(k, a.group)
    a.beat()


@story("S-030", server="streams")
def blank_names_are_refused_for_streams(k: Stage) -> None:
    """Member, group, instance and rack may not be blank."""
    a = Streams(k, "a")
    for bad in (
        {"member_id": ""},
        {"member_id": " "},
        {"group_id": ""},
        {"group_id": "  "},
        {"rack_id": ""},
        {"instance_id": ""},
        {"member_id": "", "member_epoch": 1},
        {"member_id": "", "member_epoch": -1},
    ):
        a.join(reads("x"), **bad)


@story("S-004 S-030", server="streams")
def a_streams_join_must_say_everything(k: Stage) -> None:
    """A timeout, a topology and three empty lists: null lists are refused, and so are lists that hold something."""
    a = Streams(k, "a")
    a.join(reads(k.topic()), rebalance_timeout_ms=-1)
    a.beat(**{**a.joining(reads(k.name("t"))), "topology": None})
    for kind in NO_TASKS:
        a.join(reads(k.name("t")), **{kind: None})
        a.join(reads(k.name("t")), **{kind: [{"subtopology_id": "0", "partitions": [0]}]})
        a.join(reads(k.name("t")), **{kind: [{"subtopology_id": "0", "partitions": []}]})
    a.join(reads(k.name("t")), active_tasks=None, standby_tasks=None, warmup_tasks=None)


@story("S-030", server="streams")
def a_topology_is_for_joins_alone(k: Stage) -> None:
    """A member that is there may not send one, nor one that leaves."""
    known, a = sole_streams(k)
    a.ask(topology=known).answer()
    a.ask(topology=known, member_epoch=-1).answer()
    a.beat()


@story("S-030", server="streams")
def all_lists_of_tasks_or_none(k: Stage) -> None:
    """One list alone is refused, whichever it is, of a member and of a stranger."""
    _known, a = sole_streams(k)
    for kind in NO_TASKS:
        a.beat(**{kind: []})
    a.beat(member_id="nobody", active_tasks=[])
    a.beat(standby_tasks=[], warmup_tasks=[])
    a.beat(**NO_TASKS)


@story("S-030 S-003", server="streams")
def epochs_below_zero_of_streams(k: Stage) -> None:
    """-1 leaves; -2 is for static members, whom there are none of; what is lower is refused."""
    _known, a = sole_streams(k)
    for epoch in (-2, -3, -100):
        a.ask(member_epoch=epoch).answer()
    a.ask(member_epoch=-2, instance_id="one").answer()
    a.ask(member_epoch=-1, instance_id="one").answer()
    a.beat()


@story("S-003", server="streams")
def what_streams_groups_do_not_have_yet(k: Stage) -> None:
    """Static members, patterns of sources, offsets of tasks (even none) and warm-up tasks are refused."""
    a = Streams(k, "a")
    known = reads(k.topic())
    a.join(known, instance_id="one")
    a.join(topology(part("0", patterns=[".*"])))
    for kind in ("task_offsets", "task_end_offsets"):
        a.join(known, **{kind: []})
        a.join(known, **{kind: [{"subtopology_id": "0", "partition": 0, "offset": 1}]})
    a.join(known, warmup_tasks=[{"subtopology_id": "0", "partitions": [0]}])
    a.join(known)
    a.beat(instance_id="one")
    a.beat(active_tasks=[], standby_tasks=[], warmup_tasks=[{"subtopology_id": "0", "partitions": [0]}])


@story("S-003 S-030", server="streams")
def what_there_is_not_yet_is_refused_first(k: Stage) -> None:
    """Before the empty group id and the missing member id are seen."""
    a = Streams(k, "a")
    a.join(reads("x"), instance_id="one", group_id="")
    a.join(reads("x"), task_offsets=[], member_id="")
    a.ask(member_epoch=-5, instance_id="one").answer()


@story("S-005", server="streams")
def names_of_topics_are_looked_at_before_all(k: Stage) -> None:
    """A bad name or an internal topic anywhere in the topology: an invalid topology, though the group id is empty."""
    a = Streams(k, "a")
    for bad in ("", "..", "a b", "__consumer_offsets", "__transaction_state", "x" * 250):
        a.join(reads(bad), group_id="")
        a.join(topology(part("0", ["x"], sinks=[bad])))
        a.join(topology(part("0", ["x"], repartitions=[internal(bad)])))
        a.join(topology(part("0", ["x"], changelogs=[internal(bad)])))


@story("S-005 S-030", server="streams")
def a_changelog_has_no_size_of_its_own(k: Stage) -> None:
    """Its number of partitions is for the coordinator to decide: another number is an invalid topology."""
    a = Streams(k, "a")
    a.join(topology(part("0", ["x"], changelogs=[internal(k.name("log"), 2)])))
    a.join(topology(part("0", ["x"], changelogs=[internal(k.name("log"), -1)])))
    a.join(topology(part("0", ["x"], changelogs=[internal(k.name("log"), 2)])), rebalance_timeout_ms=-1)


@story("S-004 S-035", server="streams")
def a_process_id_and_tags_may_be_missing(k: Stage) -> None:
    """Null is accepted at a join, and described as nothing."""
    _known, a = sole_streams(k, process_id=None, client_tags=None)
    describe_streams(k, a.group)


@story("S-035", server="streams")
def what_a_member_says_of_itself_is_described(k: Stage) -> None:
    """Rack, endpoint, tags, process and topology epoch."""
    _known, a = sole_streams(
        k,
        rack_id="rack",
        user_endpoint={"host": "here", "port": 65535},
        client_tags=[{"key": "zone", "value": "z"}, {"key": "cluster", "value": "c"}],
        process_id="p",
    )
    describe_streams(k, a.group)


@story("S-031 S-016", server="streams")
def a_steady_streams_member_is_told_nothing_new(k: Stage) -> None:
    """Neither by a bare heartbeat nor by one that names what it owns; one that rejoins is told everything."""
    known, a = sole_streams(k, 3)
    a.beat()
    a.owns()
    a.join(known)
    a.beat()


@story("S-031", server="streams")
def streams_groups_and_members_that_are_not_there(k: Stage) -> None:
    """A group is only made by a join; members are unknown until they join."""
    a = Streams(k, "a")
    a.beat(member_epoch=1)
    a.leave()
    a.join(reads(k.topic()))
    a.beat(member_id="nobody")
    a.beat(member_id="nobody", member_epoch=-1)
    a.beat(member_id="nobody", member_epoch=99)


@story("S-031 S-010", server="streams")
def a_wrong_epoch_fences_a_streams_member(k: Stage) -> None:
    """Greater ones and old ones; the member may rejoin with epoch 0."""
    known, a, _b = streams_pair(k, 4)
    first = a.epoch
    a.owns()
    a.owns()
    a.ask(member_epoch=a.epoch + 1).answer()
    a.ask(member_epoch=first - 1).answer()
    a.ask(member_epoch=first).answer()
    a.join(known)
    a.beat()


@story("S-010", server="streams")
def the_epoch_before_is_accepted_with_what_it_owned(k: Stage) -> None:
    """Only with lists, and only if they hold no more than is assigned."""
    _known, a, b = streams_pair(k, 4)
    old = b.epoch
    a.owns()
    a.owns()
    b.owns()
    k.events.append({"epochs": [old, b.epoch]})
    mine = a.owned
    a.ask(member_epoch=a.epoch - 1).answer()
    a.ask(member_epoch=a.epoch - 1, **NO_TASKS).answer()
    a.ask(member_epoch=a.epoch - 1, **mine).answer()
    everything = [{"subtopology_id": "0", "partitions": [0, 1, 2, 3]}]
    a.ask(member_epoch=a.epoch - 1, **{**mine, "active_tasks": everything}).answer()
    a.ask(member_epoch=a.epoch - 1, **{**mine, "standby_tasks": everything}).answer()


@story("S-002 S-031 S-035", server="streams")
def epochs_go_on_while_a_streams_group_is_empty(k: Stage) -> None:
    """The member leaves, the group is empty, and the next one gets a later epoch."""
    known, a = sole_streams(k, 2)
    a.leave()
    describe_streams(k, a.group)
    a.beat()
    Streams(k, "b").join(known)
    describe_streams(k, a.group)


@story("S-002", server="streams")
def a_deleted_streams_group_begins_anew(k: Stage) -> None:
    """DeleteGroups refuses it while it has a member; afterwards a join gets epoch 2, with another topology too."""
    known, a = sole_streams(k, 2)
    admin = k.line("admin")
    admin.call("delete_groups", 2, groups_names=[a.group])
    a.leave()
    admin.call("delete_groups", 2, groups_names=[a.group])
    describe_streams(k, a.group)
    a.join(known)
    a.leave()
    admin.call("delete_groups", 2, groups_names=[a.group])
    a.join(reads(k.topic("other")))


@story("S-020 S-031", server="streams-full")
def a_full_streams_group(k: Stage) -> None:
    """Two members are enough here: a third is refused, until one has left."""
    known, a, b = streams_pair(k, 2)
    c = Streams(k, "c")
    c.join(known)
    b.leave()
    c.join(known)
    a.owns()


@story("S-020", server="streams-full")
def a_full_streams_group_and_its_own_member(k: Stage) -> None:
    """A member that rejoins is refused as well."""
    known, a, _b = streams_pair(k, 2)
    a.join(known)
    a.beat()


@story("S-014", server="streams")
def what_a_member_changes_raises_the_epoch(k: Stage) -> None:
    """Rack, process, tags, endpoint, timeout: each a new epoch; the same again is none."""
    _known, a = sole_streams(k, 2)
    for change in (
        {"rack_id": "rack"},
        {"process_id": "another"},
        {"client_tags": [{"key": "zone", "value": "z"}]},
        {"client_tags": []},
        {"user_endpoint": {"host": "here", "port": 1}},
        {"rebalance_timeout_ms": 40_000},
    ):
        a.beat(**change)
        a.beat(**change)
    describe_streams(k, a.group)


@story("S-014", server="streams")
def the_same_again_at_a_rejoin_raises_nothing(k: Stage) -> None:
    """A member that rejoins with the same words keeps its epoch; another client id is a change."""
    known, a = sole_streams(k, 2)
    a.join(known)
    describe_streams(k, a.group)
    other = Streams(k, "b")
    other.member_id, other.process = a.member_id, a.process
    other.join(known)


@story("S-015 S-037", server="streams")
def a_streams_heartbeat_interval_of_its_own(k: Stage) -> None:
    """It comes with the next answer and moves nothing; nor does a session timeout."""
    _known, a = sole_streams(k, 2)
    k.group_config(a.group, streams_heartbeat_interval_ms=100)
    a.line.eventually(a.API, 0, lambda found: bool(found.heartbeat_interval_ms == 100), **a.identity())
    k.group_config(a.group, streams_session_timeout_ms=50_000)
    a.beat()
    describe_streams(k, a.group)


@story("S-032", server="streams")
def a_silent_streams_member_is_removed(k: Stage) -> None:
    """After its session the group is empty; the member is unknown, and may join anew."""
    k.group_config(k.name("g"), streams_session_timeout_ms=1000, streams_heartbeat_interval_ms=100)
    known, a = sole_streams(k, 2)
    k.pause(600)
    a.beat()
    k.pause(600)
    a.beat()
    k.pause(1400)
    describe_streams(k, a.group)
    a.beat()
    a.join(known)


@story("S-032 S-020", server="streams")
def heartbeats_that_fail_keep_no_session(k: Stage) -> None:
    """Wrong epochs and wrong lists do not prolong it."""
    k.group_config(k.name("g"), streams_session_timeout_ms=1000, streams_heartbeat_interval_ms=100)
    _known, a = sole_streams(k, 2)
    k.pause(700)
    a.ask(member_epoch=99).answer()
    a.ask(active_tasks=[]).answer()
    k.pause(700)
    a.beat()


@story("S-032 S-016", server="streams")
def who_does_not_give_up_in_time_is_removed(k: Stage) -> None:
    """A has to give tasks to B within its own rebalance timeout; it goes on beating, and is gone then."""
    known = reads(k.topic(partitions=2))
    a, b = Streams(k, "a"), Streams(k, "b")
    a.join(known, rebalance_timeout_ms=600)
    b.join(known)
    a.beat()
    k.pause(300)
    a.beat()
    k.pause(600)
    a.beat()
    b.beat()
    describe_streams(k, a.group)


@story("S-025", server="streams")
def topologies_that_make_no_sense(k: Stage) -> None:
    """A negative epoch, a subtopology that is there twice, an index out of range."""
    topic = k.topic()
    a = Streams(k, "a")
    a.join(topology(part("0", [topic]), epoch=-1))
    a.join(topology(part("0", [topic]), part("0", [topic])))
    for lists in (([1], []), ([], [0]), ([-1], [])):
        group = {"source_topics": lists[0], "source_topic_regex": [], "repartition_source_topics": lists[1]}
        a.join(topology(part("0", [topic], copartitions=[group])))
    describe_streams(k, a.group)


@story("S-025 S-035", server="streams")
def topologies_without_topics(k: Stage) -> None:
    """No subtopology at all, and a subtopology that reads nothing."""
    a, b = Streams(k, "a"), Streams(k, "b", k.name("g2"))
    a.join(topology())
    a.beat()
    describe_streams(k, a.group)
    b.join(topology(part("0")))
    describe_streams(k, b.group)


@story("S-009 S-010", server="streams")
def tasks_that_cannot_exist(k: Stage) -> None:
    """Unknown subtopologies and partitions are refused of a member at its epoch; epochs are looked at before."""
    _known, a = sole_streams(k, 2)
    for number, partitions in (("9", [0]), ("0", [2]), ("0", [-1]), ("9", []), ("0", [0, 0])):
        listed = [{"subtopology_id": number, "partitions": partitions}]
        a.beat(**{**NO_TASKS, "active_tasks": listed})
        a.beat(**{**NO_TASKS, "standby_tasks": listed})
    a.ask(member_epoch=9, **{**NO_TASKS, "active_tasks": [{"subtopology_id": "9", "partitions": [0]}]}).answer()
    a.ask(member_id="x", **{**NO_TASKS, "active_tasks": [{"subtopology_id": "9", "partitions": [0]}]}).answer()
    a.beat()


@story("S-009 S-013", server="streams")
def tasks_of_a_group_that_is_not_ready(k: Stage) -> None:
    """While a source is missing nobody looks at what a member says it owns."""
    a = Streams(k, "a")
    a.join(reads(k.name("missing")))
    a.beat(**{**NO_TASKS, "active_tasks": [{"subtopology_id": "9", "partitions": [7]}]})
    describe_streams(k, a.group)


@story("S-035", server="streams")
def descriptions_of_streams_groups(k: Stage) -> None:
    """Several at once, one that is not there, an empty id, the same twice, with what the client may do."""
    _known, a = sole_streams(k, 2)
    describe_streams(k, a.group, k.name("none"), "", a.group)
    describe_streams(k, a.group, k.name("none"), include_authorized_operations=True)
    describe_streams(k)


@story("S-035 S-017", server="streams")
def tasks_of_several_members_are_described(k: Stage) -> None:
    """With standbys, current and target, sorted by subtopology and partition."""
    _known, (a, _b) = stateful_streams(k, "ab", 3, standbys=1)
    describe_streams(k, a.group)
