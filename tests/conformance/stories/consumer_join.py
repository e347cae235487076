"""How members get into a consumer group (KIP-848): ConsumerGroupHeartbeat with epoch 0, and what is refused."""

from tests.conformance.actors import Member, Modern, subscription
from tests.conformance.requests import UNKNOWN_ID, describe
from tests.conformance.scenes import consumer_pair, join_alone, join_consumer, sole_consumer, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story

NAMES = {"subscribed_topic_names": ["x"], "rebalance_timeout_ms": 1000, "topic_partitions": []}


@story("K-031 K-047 K-071 K-113 K-145 K-146 T-01")
def the_first_member_gets_every_partition(k: Stage) -> None:
    """It joins with epoch 0 and is told its epoch, the interval and all partitions of its topic."""
    a = join_consumer(k, "a", k.topic(partitions=6))
    describe(k, a.group)


@story("K-062 K-122 K-146 K-147 K-153 T-02 T-03")
def a_steady_member_is_told_nothing_new(k: Stage) -> None:
    """A bare heartbeat, and one that names what it owns, get no assignment; a full one gets all of it again."""
    topic, a = sole_consumer(k, 3)
    a.beat()
    a.owns()
    a.owns(subscribed_topic_names=[topic], rebalance_timeout_ms=30_000)
    a.owns(subscribed_topic_names=[topic])


@story("K-026 K-012")
def version_0_names_a_member_that_has_no_id(k: Stage) -> None:
    """The server makes one of 22 characters; an id that is given is used in both versions."""
    topic = k.topic()
    a = Modern(k, "a", version=0, member_id="")
    a.join(topic)
    a.beat()
    Modern(k, "b", k.name("g2"), version=0, member_id="my own").join(topic)
    Modern(k, "c", k.name("g3"), version=1, member_id="my own too").join(topic)


@story("K-012 K-013 K-014 K-015 K-008")
def blank_names_are_refused(k: Stage) -> None:
    """Member, group, instance and rack may not be blank; the member id of version 0 may be when it joins."""
    a = Modern(k, "a")
    for bad in (
        {"member_id": ""},
        {"member_id": " "},
        {"group_id": ""},
        {"group_id": "  "},
        {"instance_id": ""},
        {"instance_id": " "},
        {"rack_id": ""},
    ):
        a.join("x", **bad)
    b = Modern(k, "b", version=0, member_id="")
    b.beat(member_epoch=1)
    b.beat(member_epoch=-1)


@story("K-016 K-017 K-018 K-020")
def a_join_must_say_everything(k: Stage) -> None:
    """A rebalance timeout, an empty list of owned partitions, and topics or a regex; and no epoch is below -2."""
    a = join_consumer(k, "a", "x", rebalance_timeout_ms=-1)
    a.join("x", topic_partitions=None)
    a.join("x", topic_partitions=[{"topic_id": UNKNOWN_ID, "partitions": [0]}])
    a.join(subscribed_topic_names=None)
    a.beat(member_epoch=-3)


@story("K-019 K-024")
def only_a_static_member_leaves_for_a_while(k: Stage) -> None:
    """Epoch -2 needs an instance id."""
    a = join_consumer(k, "a", k.topic())
    a.leave(-2)
    a.beat()


@story("K-021 K-187")
def an_assignor_that_is_none(k: Stage) -> None:
    """Unknown and empty names are refused; both built-in ones are known."""
    topic = k.topic()
    a = Modern(k, "a")
    for name in ("sticky", "", "Uniform"):
        a.join(topic, server_assignor=name)
    for name in ("uniform", "range"):
        a.join(topic, server_assignor=name)


@story("K-022 K-031 K-078 K-087")
def a_member_may_subscribe_to_nothing(k: Stage) -> None:
    """An empty list of names, or an empty regex, is a subscription: the member is in, at the group's first epoch."""
    a = join_consumer(k, "a", group=k.name("g1"))
    describe(k, a.group)
    b = join_consumer(k, "b", group=k.name("g2"), subscribed_topic_names=None, subscribed_topic_regex="")
    describe(k, b.group)


@story("K-100 K-109 T-10")
def a_topic_that_comes_later_is_assigned_at_the_next_heartbeat(k: Stage) -> None:
    """Subscribed to what does not exist, the member has nothing; once the topic is there it gets it."""
    a = join_consumer(k, "a", k.name("later"))
    a.beat()
    k.topic("later", partitions=2)
    a.beat_until_assigned()


@story("K-028 K-046 K-038 K-039")
def who_is_not_there_cannot_beat(k: Stage) -> None:
    """A missing group is not found, a missing member is unknown, for beats and leaves alike."""
    a = Modern(k, "a", k.name("none"))
    a.beat(member_epoch=1)
    a.leave()
    Modern(k, "b").join(k.topic())
    stranger = Modern(k, "stranger")
    stranger.beat(member_epoch=2)
    stranger.leave()


@story("K-057 K-061 K-065 K-009")
def an_epoch_that_is_not_the_members_fences_it(k: Stage) -> None:
    """Greater, or older than the one before: FENCED_MEMBER_EPOCH, and nothing else in the answer; the right one goes on."""
    a = join_consumer(k, "a", k.topic())
    for epoch in (a.epoch + 1, a.epoch - 1, 99):
        a.beat(member_epoch=epoch)
    a.beat()


@story("K-058 K-059 K-060 T-05")
def an_answer_that_was_lost_may_be_asked_for_again(k: Stage) -> None:
    """The epoch before is accepted if the member says what it owns, and that is no more than it should."""
    topic, a = sole_consumer(k, 6)
    everything = a.owned
    before = a.epoch
    join_consumer(k, "b", topic)
    a.beat()
    a.owns()
    a.owns(member_epoch=before)
    a.beat(member_epoch=before)
    a.beat(member_epoch=before, topic_partitions=everything)
    a.beat(member_epoch=before - 1, topic_partitions=[])


@story("K-063 T-15")
def a_member_may_join_again_with_epoch_0(k: Stage) -> None:
    """It keeps its id and gets all its partitions again, at the group's epoch, which stays."""
    topic, a = sole_consumer(k, 3)
    a.beat()
    a.join(topic)
    describe(k, a.group)


@story("K-063 K-132 T-15")
def joining_again_settles_a_revocation(k: Stage) -> None:
    """A must give partitions up, and joins again with none: that is the acknowledgement."""
    topic, a, b = consumer_pair(k, 6)
    a.beat()
    a.join(topic)
    b.beat()


@story("K-029 K-031 K-227")
def an_empty_classic_group_becomes_a_consumer_group(k: Stage) -> None:
    """Its generation is forgotten and its offsets are kept."""
    topic = k.topic()
    old = join_alone(k, "old")
    old.commit(topic, 5)
    old.leave()
    a = join_consumer(k, "a", topic)
    k.line("watch").call("list_groups", 5, mine="groups.group_id")
    k.line("watch").call("offset_fetch", 9, groups=[{"group_id": a.group, "topics": None}])


@story("K-030 K-213")
def a_classic_group_has_no_member_epochs(k: Stage) -> None:
    """A heartbeat with an epoch, or a leave, does not find a consumer group there."""
    old = join_alone(k, "old", protocols=[{"name": "range", "metadata": subscription("x")}])
    a = Modern(k, "a")
    a.beat(member_epoch=1)
    a.leave()
    old.beat()


@story("K-034 K-036 T-14", server="full")
def a_full_consumer_group_takes_nobody(k: Stage) -> None:
    """Two of two are there: a third is refused, also with an epoch; the two go on."""
    topic = k.topic(partitions=2)
    a, b, c = join_consumer(k, "a", topic), join_consumer(k, "b", topic), join_consumer(k, "c", topic)
    c.beat(member_epoch=5)
    a.beat()
    b.leave()
    c.join(topic)


@story("K-035 T-14", server="full")
def a_full_group_and_its_own_static_member(k: Stage) -> None:
    """A static member left for a while and comes back with a new id into a full group."""
    topic, a, _b = consumer_pair(k, 2, instance="one")
    a.leave(-2)
    Modern(k, "a again", instance="one").join(topic)


@story("K-067 K-071 K-078 K-079")
def only_another_set_of_topics_moves_the_group(k: Stage) -> None:
    """The same names in another order or twice are the same; one more is another epoch."""
    one, two = k.topic("one"), k.topic("two")
    a = join_consumer(k, "a", one)
    a.beat(subscribed_topic_names=[one, one])
    a.beat(subscribed_topic_names=[one, two])
    a.beat(subscribed_topic_names=[two, one])
    a.beat(subscribed_topic_names=[two])


@story("K-066 K-069 K-078")
def rack_timeout_and_assignor_do_not_move_the_group(k: Stage) -> None:
    """They are stored, and the epoch stays."""
    a = join_consumer(k, "a", k.topic(), rack_id="r1")
    a.beat(rack_id="r2")
    a.beat(rebalance_timeout_ms=5_000)
    a.beat(server_assignor="range")
    describe(k, a.group)


@story("K-138 K-126")
def a_topic_that_a_member_gives_up_is_taken_at_once(k: Stage) -> None:
    """It unsubscribes from one of two topics and still owns it: first it is revoked, then the epoch goes on."""
    one, two = k.topic("one", 2), k.topic("two", 2)
    a = join_consumer(k, "a", one, two)
    a.beat(subscribed_topic_names=[one])
    a.owns()


@story("K-025")
def much_in_a_heartbeat_is_not_looked_at(k: Stage) -> None:
    """Unknown topic ids, negative partitions and duplicates in what it owns, and names that no topic can have."""
    a = join_consumer(k, "a", k.topic(), "no/topic", "", "x" * 300)
    strange = {"topic_id": UNKNOWN_ID, "partitions": [-1, 7, 7]}
    a.beat(topic_partitions=[strange, strange])
    a.beat(topic_partitions=[{"topic_id": None, "partitions": [0]}])


@story("K-001 K-008")
def a_consumer_group_needs_a_name_everywhere(k: Stage) -> None:
    """The empty id in the APIs of consumer groups."""
    Modern(k, "a", "").join("x")
    k.line("watch").call("consumer_group_describe", 0, group_ids=[""])


@story("K-229 K-117 C-117")
def an_empty_consumer_group_becomes_classic_again(k: Stage) -> None:
    """After the last member has left, a classic member makes it a classic group of generation 1."""
    a = join_consumer(k, "a", k.topic())
    a.leave()
    k.line("watch").call("list_groups", 5, mine="groups.group_id")
    stable(Member(k, "old"))
    k.line("watch").call("list_groups", 5, mine="groups.group_id")
    a.beat()


@story("K-180 K-179")
def an_empty_consumer_group_goes_on_with_its_epochs(k: Stage) -> None:
    """Epochs never start over while the group is there."""
    topic, a = sole_consumer(k)
    a.leave()
    describe(k, a.group)
    a.join(topic)
    describe(k, a.group)
