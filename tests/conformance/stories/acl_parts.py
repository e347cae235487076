"""Requests about several things, of which the user may touch only some: what is denied fails alone, or is not shown."""

import json
from typing import Any, Final

from tests.conformance.actors import Member, Modern, Producer, subscription
from tests.conformance.batches import batch
from tests.conformance.rights import CLUSTER, GROUP, SINGLE, TOPIC, TRANSACTIONAL_ID, Right, give, take
from tests.conformance.scenes import join_consumer
from tests.conformance.stage import Answer, Stage
from tests.conformance.stories.topics import new
from tests.conformance.story import story

PART: Final = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
NAMES: Final = ("a", "b", "c")  # of topics; the user may touch `b` alone


def three(k: Stage, *operations: str) -> list[str]:
    """Three topics, and rights on the second. The fourth name is of no topic, the fifth of none that could be."""
    for name in NAMES:
        k.topic(name)
    give(k, *(Right(TOPIC, "b", operation) for operation in operations))
    return [*map(k.name, NAMES), k.name("none"), "a name?"]


def no_member(k: Stage) -> dict[str, Any]:
    """What a commit for the group `g` names without a membership."""
    return {"group_id": k.name("g"), "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def unordered(k: Stage, listed: str, api: str, version: int, **values: Any) -> None:
    """Ask as the user, and write down the answer with one of its lists sorted: Kafka has it in the order of a set."""
    answer = k.normal.values(dict(k.user().quietly(api, version, **values)), api)
    answer.pop("throttle_time_ms", None)
    answer[listed] = sorted(answer[listed], key=lambda one: json.dumps(one, sort_keys=True))
    k.events.append({"api": api, "version": version, "says": answer})


def ask_producer_id(k: Stage) -> None:
    """Ask as the user for a producer id, and write down whether there was one."""
    answer = k.user().quietly("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=0)
    k.events.append({"error": answer.error_code, "has an id": answer.producer_id >= 0})


@story("A-101", server="acls")
def groups_of_which_some_may_be_deleted(k: Stage) -> None:
    """Each group has its answer: denied, not found, or the same twice."""
    give(k, Right(GROUP, "b", "DELETE"))
    groups = [k.name("a"), k.name("b"), k.name("c"), k.name("b")]
    k.user().call("delete_groups", 2, groups_names=groups)


@story("A-001", server="acls")
def groups_of_which_some_may_be_described(k: Stage) -> None:
    """Each group has its answer, and what the user may do with it."""
    give(k, Right(GROUP, "b", "READ"))
    groups = [k.name("a"), k.name("b"), k.name("c"), k.name("b")]
    for asks in (True, False):
        k.user().call("describe_groups", 6, groups=groups, include_authorized_operations=asks)
        k.user().call("consumer_group_describe", 1, group_ids=groups, include_authorized_operations=asks)
    k.user().call("describe_groups", 0, groups=groups)


@story("F-005 F-006", server="acls")
def coordinators_of_which_some_may_be_found(k: Stage) -> None:
    """Each key has its answer."""
    give(k, Right(GROUP, "b", "DESCRIBE"), Right(TRANSACTIONAL_ID, "b", "WRITE"))
    for key_type in (0, 1, 2, 3):
        for version in (6, 4):
            keys = [k.name("a"), k.name("b"), k.name("c")]
            k.user().call("find_coordinator", version, key_type=key_type, coordinator_keys=keys)
    k.user().call("find_coordinator", 2, key_type=7, key=k.name("a"))


@story("O-002 O-110", server="acls")
def commits_to_topics_of_which_some_may_be_read(k: Stage) -> None:
    """A topic that the user may not read fails, whether it exists or not."""
    names = three(k, "READ")
    give(k, Right(GROUP, "g", "READ"))
    for chosen in (names, names[::-1], names[:1], []):
        topics = [{"name": name, "partitions": [PART, {**PART, "partition_index": 9}]} for name in chosen]
        k.user().call("offset_commit", 9, **no_member(k), topics=topics)
    topics = [{"topic_id": k.topic_id(name), "partitions": [PART]} for name in names[:3]]
    k.user().call("offset_commit", 10, **no_member(k), topics=topics)


@story("O-202 O-204 K-302", server="acls")
def offsets_of_topics_of_which_some_may_be_seen(k: Stage) -> None:
    """A topic that is named fails; where all are asked for it is left out."""
    names = three(k, "DESCRIBE")
    give(k, Right(GROUP, "g", "DESCRIBE"))
    committed = [{"name": name, "partitions": [PART]} for name in names[:3]]
    k.line("stage").quietly("offset_commit", 9, **no_member(k), topics=committed)
    named = [{"name": name, "partition_indexes": [0, 9]} for name in names]
    for topics in (named, named[::-1], None, []):
        one = {"group_id": k.name("g"), "member_id": None, "member_epoch": -1, "topics": topics}
        k.user().call("offset_fetch", 9, groups=[one, {**one, "group_id": k.name("h")}])
    for topics in (named, None):
        k.user().call("offset_fetch", 6, group_id=k.name("g"), topics=topics)
    k.user().call("offset_fetch", 6, group_id=k.name("h"), topics=None)
    by_id = [{"topic_id": k.topic_id(name), "partition_indexes": [0]} for name in names[:3]]
    for topics in (by_id, None):
        one = {"group_id": k.name("g"), "member_id": None, "member_epoch": -1, "topics": topics}
        k.user().call("offset_fetch", 10, groups=[one])


@story("O-300", server="acls")
def offsets_of_which_some_may_be_deleted(k: Stage) -> None:
    """Each topic has its answer."""
    names = three(k, "READ")
    give(k, Right(GROUP, "g", "DELETE"))
    committed = [{"name": name, "partitions": [PART]} for name in names[:3]]
    k.line("stage").quietly("offset_commit", 9, **no_member(k), topics=committed)
    topics = [{"name": name, "partitions": [{"partition_index": 0}, {"partition_index": 9}]} for name in names]
    k.user().call("offset_delete", 0, group_id=k.name("g"), topics=topics)
    k.user().call("offset_delete", 0, group_id=k.name("g"), topics=topics[:1])


@story("O-111", server="acls")
def transactional_commits_to_topics_of_which_some_may_be_read(k: Stage) -> None:
    """Each topic has its answer."""
    names = three(k, "READ")
    give(k, Right(GROUP, "g", "READ"), Right(TRANSACTIONAL_ID, "x", "WRITE"))
    base = {"group_id": k.name("g"), "generation_id": -1, "member_id": "", "group_instance_id": None}
    me = {"transactional_id": k.name("x"), "producer_id": 10**12, "producer_epoch": 0}
    for chosen in (names, names[:1]):
        topics = [{"name": name, "partitions": [PART]} for name in chosen]
        k.user().call("txn_offset_commit", 4, **base, **me, topics=topics)


@story("V-007", server="acls")
def partitions_of_a_transaction_of_which_some_may_be_written(k: Stage) -> None:
    """One that may not be written holds up the others."""
    names = three(k, "WRITE")
    give(k, Right(TRANSACTIONAL_ID, "x", "WRITE"))
    me = {
        "v3_and_below_transactional_id": k.name("x"),
        "v3_and_below_producer_id": 10**12,
        "v3_and_below_producer_epoch": 0,
    }
    for chosen in (names, names[1:2], names[1:4:2], ["__consumer_offsets"]):
        topics = [{"name": name, "partitions": [0, 9]} for name in chosen]
        unordered(k, "results_by_topic_v3_and_below", "add_partitions_to_txn", 3, **me, v3_and_below_topics=topics)


@story("V-007", server="acls")
def records_for_topics_of_which_some_may_be_written(k: Stage) -> None:
    """Each topic has its answer, and what may be written is."""
    names = three(k, "WRITE")

    def topics(key: str, values: list[str]) -> list[dict[str, Any]]:
        return [{key: one, "partition_data": [{"index": 0, "records": batch(b"r")}]} for one in values]

    base = {"transactional_id": None, "acks": -1, "timeout_ms": 5000}
    k.user().call("produce", 12, **base, topic_data=topics("name", names))
    k.user().call("produce", 12, **base, topic_data=topics("name", names[:1]))
    k.user().call("produce", 12, **{**base, "acks": 7}, topic_data=topics("name", names[:2]))
    k.user().call("produce", 13, **base, topic_data=topics("topic_id", [k.topic_id(name) for name in names[:3]]))
    k.user().call("produce", 12, **base, topic_data=topics("name", ["__consumer_offsets"]))
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    ends = [{"name": name, "partitions": parts} for name in names[:3]]
    k.line("stage").call("list_offsets", 9, replica_id=-1, topics=ends)


def asked(k: Stage, names: list[str], by_id: bool) -> list[dict[str, Any]]:
    parts = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}]
    return [{**({"topic_id": k.topic_id(name)} if by_id else {"topic": name}), "partitions": parts} for name in names]


@story("V-007", server="acls")
def records_of_topics_of_which_some_may_be_read(k: Stage) -> None:
    """By name and by id: each has its answer, those that do not exist too."""
    names = three(k, "READ")
    base = {"max_wait_ms": 0, "min_bytes": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    k.user().call("fetch", 12, **base, topics=asked(k, names, False), forgotten_topics_data=[])
    k.user().call("fetch", 16, **base, topics=asked(k, names[:3], True), forgotten_topics_data=[])


@story("V-007", server="acls")
def a_fetch_that_waits_for_what_it_may_not_read(k: Stage) -> None:
    """It is answered at once: what is denied does not become readable by waiting."""
    names = three(k, "READ")
    base = {"max_wait_ms": 2000, "min_bytes": 1, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    k.user().call("fetch", 12, **base, topics=asked(k, names[:3], False), forgotten_topics_data=[])
    k.user().call(
        "fetch", 12, **{**base, "max_wait_ms": 1000}, topics=asked(k, names[1:2], False), forgotten_topics_data=[]
    )


class Session:
    """A session of fetches, on a connection of its own."""

    def __init__(self, k: Stage, version: int, topics: list[str]) -> None:
        self.k, self.version, self.id, self.epoch = k, version, 0, 0
        self.line = k.line(f"alice {version}", user=k.name("alice"))
        self.fetch(asked(k, topics, by_id=version > 12))

    def fetch(self, topics: list[dict[str, Any]] | None = None) -> None:
        """Fetch, and write down what is told."""
        base = {"max_wait_ms": 0, "min_bytes": 0, "rack_id": "", "forgotten_topics_data": []}
        answer = self.line.quietly(
            "fetch", self.version, **base, session_id=self.id, session_epoch=self.epoch, topics=topics or []
        )
        self.id, self.epoch = answer.session_id, self.epoch + 1
        told = {"error_code": answer.error_code, "responses": answer.responses}
        self.k.events.append({"version": self.version, "fetch": self.k.normal.values(told, "fetch")})


@story("V-007", server="acls")
def a_session_of_fetches_follows_the_rights(k: Stage) -> None:
    """What may not be read is told again and again; a right that is given or taken counts from the next fetch on."""
    names = three(k, "READ")
    for version in (12, 16):
        session = Session(k, version, names[:2])
        session.fetch()
        take(k, Right(TOPIC, "b", "READ"))
        session.fetch()
        session.fetch()
        give(k, Right(TOPIC, "b", "READ"), Right(TOPIC, "a", "READ"))
        session.fetch()
        session.fetch()
        take(k, Right(TOPIC, "a", "READ"))


@story("V-007", server="acls")
def offsets_of_records_of_which_some_may_be_seen(k: Stage) -> None:
    """ListOffsets and OffsetForLeaderEpoch: each topic has its answer."""
    names = three(k, "DESCRIBE")
    parts = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in (0, 9)]
    epochs = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in (0, 9)]
    k.user().call("list_offsets", 9, replica_id=-1, topics=[{"name": name, "partitions": parts} for name in names])
    old = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in names]
    k.user().call("list_offsets", 1, replica_id=-1, topics=old)
    topics = [{"topic": name, "partitions": epochs} for name in names]
    k.user().call("offset_for_leader_epoch", 4, replica_id=-2, topics=topics)


@story("V-007", server="acls")
def records_of_which_some_may_be_deleted(k: Stage) -> None:
    """DeleteRecords and DescribeProducers: each topic has its answer."""
    names = three(k, "DELETE", "READ")
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in names]
    unordered(k, "topics", "delete_records", 2, timeout_ms=5000, topics=topics)
    k.user().call("describe_producers", 0, topics=[{"name": name, "partition_indexes": [0, 9]} for name in names])


@story("V-007", server="acls")
def topics_of_which_some_are_seen(k: Stage) -> None:
    """Named ones fail, whether they exist or not; where all are asked for, what is denied is left out."""
    names = three(k, "DESCRIBE")
    give(k, Right(TOPIC, "none", "DESCRIBE"))
    topics = [{"topic_id": None, "name": name} for name in names]
    base = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    unordered(k, "topics", "metadata", 12, topics=topics, **base)
    unordered(k, "topics", "metadata", 12, topics=topics, allow_auto_topic_creation=False)
    unordered(k, "topics", "metadata", 1, topics=[{"name": name} for name in names])
    unordered(k, "topics", "metadata", 1, topics=[{"name": "__consumer_offsets"}])
    ids = [{"topic_id": k.topic_id(name), "name": None} for name in names[:3]]
    unordered(k, "topics", "metadata", 12, topics=ids, **base)
    for version in (12, 5):
        every = k.user().quietly("metadata", version, topics=None, allow_auto_topic_creation=False).topics
        k.events.append({"all": sorted(k.normal.values(one.name) for one in every)})
    listed = [{"name": name} for name in names]
    for wanted, cursor in ((listed, None), ([], None), (listed, {"topic_name": names[1], "partition_index": 0})):
        values: dict[str, Any] = {"topics": wanted, "cursor": cursor, "response_partition_limit": 100}
        unordered(k, "topics", "describe_topic_partitions", 0, **values)


@story("V-007", server="acls")
def a_topic_that_is_made_by_asking(k: Stage) -> None:
    """The user needs to see it, and to create it or any topic."""

    def ask(name: str) -> None:
        answer: Answer = k.user().quietly(
            "metadata", 12, topics=[{"topic_id": None, "name": k.name(name)}], allow_auto_topic_creation=True
        )
        made = k.line("stage").quietly(
            "metadata", 12, topics=[{"topic_id": None, "name": k.name(name)}], allow_auto_topic_creation=False
        )
        # Kafka's first answer is that the topic is not there: it asks its controller first.
        denied = answer.topics[0].error_code == "TOPIC_AUTHORIZATION_FAILED"
        k.events.append({"topic": name, "is denied": denied, "stays away": denied and made.topics[0].error_code})

    ask("nothing")
    give(
        k,
        Right(TOPIC, "seen", "DESCRIBE"),
        Right(TOPIC, "created", "CREATE"),
        Right(TOPIC, "both", "DESCRIBE"),
        Right(TOPIC, "both", "CREATE"),
    )
    for name in ("seen", "created", "both"):
        ask(name)
    give(k, Right(CLUSTER, SINGLE, "CREATE"), Right(TOPIC, "anywhere", "DESCRIBE"))
    ask("anywhere")
    ask("unseen")


@story("V-007", server="acls")
def topics_of_which_some_may_be_created(k: Stage) -> None:
    """What is created shows its configs only to who may see them."""
    give(k, Right(TOPIC, "n", "CREATE"), Right(TOPIC, "m", "CREATE"), Right(TOPIC, "m", "DESCRIBE_CONFIGS"))
    for validates in (True, False):
        names = [*map(k.name, "lmn"), "a name?", "__cluster_metadata", *map(k.name, "pp")]
        topics = [new(name) for name in names]
        for version in (7, 4):
            answer = k.user().quietly("create_topics", version, timeout_ms=5000, validate_only=validates, topics=topics)
            k.events.append({
                "topics": sorted(
                    (k.normal.values({
                        key: bool(value) if key == "configs" else value for key, value in one.items() if key != "topic_id"
                    }) for one in answer.topics),
                    key=lambda one: str(one["name"]),
                )
            })  # fmt: skip


@story("V-007", server="acls")
def topics_of_which_some_may_be_deleted(k: Stage) -> None:
    """By name and by id: what may not be seen tells neither its name nor its id."""
    names = three(k, "DELETE")
    give(k, Right(TOPIC, "c", "DESCRIBE"))
    by_name = [{"name": name, "topic_id": None} for name in (names[0], names[2], *names[3:])]
    by_id = [{"name": None, "topic_id": k.topic_id(name)} for name in (names[0], names[2])]
    k.user().call("delete_topics", 6, timeout_ms=5000, topics=by_name)
    k.user().call("delete_topics", 6, timeout_ms=5000, topics=by_id)
    k.user().call("delete_topics", 6, timeout_ms=5000, topics=[{"name": None, "topic_id": k.topic_id(names[1])}])
    k.user().call("delete_topics", 4, timeout_ms=5000, topic_names=[names[0], names[2]])


@story("V-007", server="acls")
def topics_of_which_some_may_grow(k: Stage) -> None:
    """CreatePartitions: each topic has its answer."""
    names = three(k, "ALTER")
    topics = [{"name": name, "count": 3, "assignments": None} for name in (*names, names[0])]
    unordered(k, "results", "create_partitions", 3, timeout_ms=5000, validate_only=True, topics=topics)


@story("K-335", server="acls")
def configs_of_which_some_may_be_seen_and_changed(k: Stage) -> None:
    """A resource that is denied fails alone, with the error of its type; types that there are not fail in their way."""
    names = three(k, "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    give(k, Right(GROUP, "h", "DESCRIBE_CONFIGS"), Right(GROUP, "h", "ALTER_CONFIGS"))
    kinds = [
        (2, names[0]),
        (2, names[1]),
        (2, names[3]),
        (4, "0"),
        (4, ""),
        (8, "0"),
        (16, "m"),
        (32, k.name("g")),
        (32, k.name("h")),
        (4, "77"),
    ]
    seen = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]} for kind, name in kinds
    ]
    k.user().call("describe_configs", 4, resources=seen)
    changed = [{"resource_type": kind, "resource_name": name, "configs": []} for kind, name in kinds]
    k.user().call("incremental_alter_configs", 1, validate_only=True, resources=changed)
    k.user().call("alter_configs", 2, validate_only=True, resources=changed)
    k.user().call("list_config_resources", 1, resource_types=[])
    k.user().call("list_config_resources", 0)
    for kind in (0, 3, 99):
        resource = {"resource_type": kind, "resource_name": "x"}
        for api, version in (("incremental_alter_configs", 1), ("alter_configs", 2)):
            k.user().call(api, version, validate_only=True, resources=[{**resource, "configs": []}])
        k.user().call("describe_configs", 4, resources=[{**resource, "configuration_keys": None}])


def groups(k: Stage, answer: Answer) -> None:
    mine = [one for one in answer.groups if one.group_id.startswith(k.prefix)]
    k.events.append({"error": answer.error_code, "groups": sorted(k.normal.values(one.group_id) for one in mine)})


@story("V-007", server="acls")
def groups_of_which_some_are_listed(k: Stage) -> None:
    """Only those that the user may describe; all for who may describe the cluster."""
    k.topic()
    for group in ("a", "b", "c"):
        Modern(k, f"in {group}", k.name(group)).join(k.name("t"))
    groups(k, k.user().quietly("list_groups", 5, states_filter=[], types_filter=[]))
    give(k, Right(GROUP, "b", "READ"))
    groups(k, k.user().quietly("list_groups", 5, states_filter=[], types_filter=[]))
    groups(k, k.user().quietly("list_groups", 0))
    give(k, Right(CLUSTER, SINGLE, "DESCRIBE"))
    groups(k, k.user().quietly("list_groups", 5, states_filter=[], types_filter=[]))


@story("V-007", server="acls")
def transactions_of_which_some_are_seen(k: Stage) -> None:
    """Listed are those that the user may describe, with the topics that it may describe."""
    k.line("stage").quietly(
        "init_producer_id", 4, transactional_id=None, transaction_timeout_ms=0
    )  # takes 0, if that is free
    k.topic("a")
    k.topic("b")
    for name in ("x", "y"):
        p = Producer(k, f"in {name}", name)
        p.begin_eventually()
        topics = [{"name": k.name(topic), "partitions": [0]} for topic in ("a", "b")]
        p.add_partitions("", v3_and_below_topics=topics)
    give(k, Right(TRANSACTIONAL_ID, "x", "DESCRIBE"), Right(TOPIC, "b", "DESCRIBE"))
    k.user().call("describe_transactions", 0, transactional_ids=[k.name("x"), k.name("y"), k.name("z")])
    k.user().call(
        "list_transactions", 1, state_filters=[], producer_id_filters=[], mine="transaction_states.transactional_id"
    )


@story("K-311 K-319", server="acls")
def consumer_groups_with_topics_that_may_not_be_seen(k: Stage) -> None:
    """The group is denied with its topics' error; its members and what they own are left out."""
    k.topic("a")
    k.topic("b")
    Modern(k, "m").join(k.name("a"), k.name("b"))
    Modern(k, "n", k.name("h")).join(k.name("b"))
    give(k, Right(GROUP, "", "DESCRIBE", "PREFIXED"), Right(TOPIC, "b", "DESCRIBE"))
    asked = {"group_ids": [k.name("g"), k.name("h")], "include_authorized_operations": True}
    k.user().call("consumer_group_describe", 1, **asked)
    give(k, Right(TOPIC, "a", "READ"))
    k.user().call("consumer_group_describe", 1, **asked)


@story("K-003 K-004", server="acls")
def members_that_name_topics_that_they_may_not_see(k: Stage) -> None:
    """One such topic refuses the heartbeat, whether it exists or not; later ones name none."""
    k.topic("a")
    k.topic("b")
    give(k, Right(GROUP, "g", "READ"), Right(TOPIC, "b", "DESCRIBE"))
    k.user("alice")
    a = Modern(k, "alice")
    for topics in (("a",), ("b", "a"), ("none",), ("b",)):
        a.join(*map(k.name, topics))
    a.beat()
    take(k, Right(TOPIC, "b", "DESCRIBE"))
    a.beat()
    a.beat(subscribed_topic_names=[k.name("b")])
    take(k, Right(GROUP, "g", "READ"))
    a.beat()


@story("K-085", server="acls")
def patterns_that_match_topics_that_may_not_be_seen(k: Stage) -> None:
    """A pattern is resolved to the topics that its member may see."""
    for name in ("a", "b", "c"):
        k.topic(name)
    give(k, Right(GROUP, "g", "READ"), Right(TOPIC, "b", "DESCRIBE"), Right(TOPIC, "c", "READ"))
    k.user("alice")
    a = join_consumer(k, "alice", subscribed_topic_names=None, subscribed_topic_regex=k.name(".*"))
    a.beat_until_assigned(topics=2, within_ms=14_000)


@story("V-007", server="acls")
def a_producer_without_transactions(k: Stage) -> None:
    """It needs IDEMPOTENT_WRITE, or to write any one topic; a denial of all topics takes that back."""

    ask_producer_id(k)
    writes = Right(TOPIC, "t", "WRITE")
    for rights in (
        (Right(CLUSTER, SINGLE, "IDEMPOTENT_WRITE"),),
        (writes,),
        (Right(TOPIC, "t", "READ"),),
        (Right(TOPIC, "t", "ALL"),),
        (Right(TOPIC, "*", "WRITE"),),
        (Right(TOPIC, "t", "WRITE", "PREFIXED"),),
        (writes, writes._replace(allows=False)),
        (writes, writes._replace(allows=False, operation="ALL")),
        (writes, writes._replace(allows=False, operation="READ")),
        (writes, Right(TOPIC, "*", "WRITE", allows=False)),
        (writes, Right(TOPIC, "*", "ALL", allows=False)),
        (writes, Right(TOPIC, "", "WRITE", "PREFIXED", allows=False)),
        (Right(TOPIC, "tt", "WRITE", "PREFIXED"), Right(TOPIC, "t", "WRITE", "PREFIXED", allows=False)),
        (Right(TOPIC, "t", "WRITE", "PREFIXED"), Right(TOPIC, "tt", "WRITE", "PREFIXED", allows=False)),
        (Right(TOPIC, "t", "WRITE", "PREFIXED"), Right(TOPIC, "t", "WRITE", allows=False)),
        (Right(TOPIC, "*", "WRITE"), Right(TOPIC, "t", "WRITE", allows=False)),
        (Right(TOPIC, "t", "WRITE", host="127.0.0.9"),),
        (writes, Right(TOPIC, "*", "WRITE", allows=False, host="127.0.0.9")),
        (Right(TRANSACTIONAL_ID, "t", "WRITE"),),
    ):
        give(k, *rights)
        ask_producer_id(k)
        take(k, *rights)


@story("V-007", server="acls")
def rights_of_everyone_and_of_others(k: Stage) -> None:
    """What everyone may or may not counts for each user; what another user may does not."""

    def ask() -> None:
        k.user().call("heartbeat", 4, group_id=k.name("g"), member_id="m", generation_id=1)

    reads = Right(GROUP, "g", "READ")
    give(k, reads, user="bob")
    ask()
    give(k, reads, user="*")
    ask()
    give(k, reads._replace(allows=False), user="bob")
    ask()
    give(k, reads._replace(allows=False))
    ask()
    take(k, reads._replace(allows=False))
    give(k, reads._replace(allows=False), user="*")
    ask()


@story("V-007", server="acls")
def the_operations_that_a_user_may_do_with_the_cluster(k: Stage) -> None:
    """By DescribeCluster and by old Metadata: none without DESCRIBE."""

    def ask() -> None:
        one = k.user().quietly("describe_cluster", 2, include_cluster_authorized_operations=True, endpoint_type=1)
        old = k.user().quietly(
            "metadata",
            10,
            topics=[],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        k.events.append({
            "describe_cluster": [one.error_code, one.cluster_authorized_operations],
            "metadata": old.cluster_authorized_operations, "brokers": [len(one.brokers), len(old.brokers)],
        })  # fmt: skip

    ask()
    for operation in ("CREATE", "ALTER", "DESCRIBE", "ALL"):
        right = Right(CLUSTER, SINGLE, operation)
        give(k, right)
        ask()
        take(k, right)
    k.user().call("describe_cluster", 2, include_cluster_authorized_operations=False, endpoint_type=2)


@story("V-007", server="open")
def without_an_acl_everyone_may_everything(k: Stage) -> None:
    """A first ACL for a resource, even for somebody else, ends that for this resource."""

    def ask() -> None:
        k.user().call("heartbeat", 4, group_id=k.name("g"), member_id="m", generation_id=1)
        k.user().call("offset_commit", 9, **no_member(k), topics=[{"name": k.name("t"), "partitions": [PART]}])

    k.topic()
    ask()
    for right, user in (
        (Right(GROUP, "g", "DELETE"), "bob"),
        (Right(GROUP, "", "READ", "PREFIXED"), "bob"),
        (Right(GROUP, "g", "READ"), "alice"),
        (Right(TOPIC, "t", "READ", host="127.0.0.9"), "alice"),
        (Right(TOPIC, "t", "ALL", allows=False), "bob"),
        (Right(TOPIC, "other", "ALL", allows=False), "alice"),
    ):
        give(k, right, user=user)
        ask()
        take(k, right, user=user)


@story("V-007", server="open")
def without_an_acl_a_producer_needs_no_right(k: Stage) -> None:
    """A producer without transactions, with and without ACLs of topics."""

    ask_producer_id(k)
    for right in (
        Right(TOPIC, "t", "WRITE", allows=False),
        Right(TOPIC, "t", "READ"),
        Right(CLUSTER, SINGLE, "ALTER"),
    ):
        give(k, right)
        ask_producer_id(k)
        take(k, right)


@story("V-007", server="acls")
def a_member_whose_right_is_taken(k: Stage) -> None:
    """It stays a member, and each of its requests is refused until it has the right again."""
    k.topic()
    reads = Right(GROUP, "g", "READ")
    give(k, reads)
    k.user("alice")
    a = Member(k, "alice", protocols=[{"name": "range", "metadata": subscription(k.name("t"))}])
    a.join_and_sync(b"share")
    take(k, reads)
    a.beat()
    a.commit(k.name("t"))
    a.leave()
    give(k, reads)
    a.beat()
    a.commit(k.name("t"))
    a.leave()
