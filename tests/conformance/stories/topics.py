"""Topics: made, grown, deleted, and shown."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.stage import Answer, Stage, ready
from tests.conformance.story import story


def new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """One topic of a CreateTopics request."""
    sizes = {"num_partitions": partitions, "replication_factor": replicas}
    return {"name": name, **sizes, "assignments": [], "configs": [], **more}


def create(k: Stage, *topics: dict[str, Any], version: int = 7, **values: Any) -> Answer:
    return k.line("admin").call("create_topics", version, topics=list(topics), timeout_ms=10_000, **values)


def metadata(k: Stage, *names: str, version: int = 13, **values: Any) -> Answer:
    """Metadata of these topics, without creating any."""
    create_none = {"allow_auto_topic_creation": False} if version >= 4 else {}
    return k.line("watch").call(
        "metadata", version, **{"topics": [{"name": name} for name in names], **create_none, **values}
    )


def visible(k: Stage, name: str) -> None:
    """Wait until the broker shows the topic, and learn its id."""
    k.await_topic(name, ready)


@story("V-007")
def a_topic_is_created_and_shown(k: Stage) -> None:
    """The answer and Metadata tell its id, partitions and leaders."""
    name = k.name("t")
    create(k, new(name, 3))
    visible(k, name)
    metadata(k, name)


@story("V-007")
def every_create_version_makes_a_topic(k: Stage) -> None:
    """Versions 2 to 7; from 5 on the answer tells partitions, replicas and configs, from 7 on the id."""
    for version in range(2, 8):
        answer = k.line("admin").quietly(
            "create_topics", version, topics=[new(k.name(f"t{version}"), 2)], timeout_ms=10_000
        )
        one = answer.topics[0]
        k.events.append(
            {
                "version": version,
                "error": one.error_code,
                "partitions": one.get("num_partitions"),
                "id": bool(one.get("topic_id")),
            }
        )


@story("V-007")
def names_that_no_topic_can_have(k: Stage) -> None:
    """Empty, dots alone, a slash, a space, too long: INVALID_TOPIC_EXCEPTION; 249 characters are fine."""
    for name in ("", ".", "..", "a/b", "a b", "ä", "x" * 250):
        create(k, new(name))
    create(k, new(k.prefix.ljust(249, "x")))


@story("V-007")
def a_topic_that_is_there_already(k: Stage) -> None:
    """TOPIC_ALREADY_EXISTS; and a name that differs only in a dot and an underscore is refused too."""
    name = k.topic("a_b")
    create(k, new(name))
    create(k, new(k.name("a.b")))


@story("V-007")
def names_that_differ_in_dots_are_made_at_once(k: Stage) -> None:
    """Of one request both are made. Each is in the way of a third one until it is deleted."""
    names = [k.name("a.b.c"), k.name("a_b.c")]

    def make(*names: str) -> None:
        topics = [new(name) for name in names]
        answer = k.line("admin").quietly("create_topics", 7, topics=topics, timeout_ms=10_000)
        k.events.append({"made": [one.error_code for one in answer.topics]})

    make(*names)
    for name in names:
        visible(k, name)
    for name in names:
        make(k.name("a.b_c"))
        k.delete_topic(name)
    make(k.name("a.b_c"))


@story("V-007")
def numbers_that_no_topic_can_have(k: Stage) -> None:
    """No partitions, no replicas, more replicas than brokers; -1 means the broker's default."""
    create(k, new(k.name("a"), 0))
    create(k, new(k.name("b"), -2))
    create(k, new(k.name("c"), 1, 0))
    create(k, new(k.name("d"), 1, 3), version=4)
    create(k, new(k.name("e"), -1, -1))


@story("V-007")
def the_same_topic_twice_in_a_request(k: Stage) -> None:
    """Neither is made."""
    create(k, new(k.name("t")), new(k.name("t"), 2), new(k.name("other")))
    metadata(k, k.name("t"))


@story("V-007")
def a_topic_with_given_replicas(k: Stage) -> None:
    """Assignments name the brokers; numbers must be left to them, and partitions must follow each other."""
    one = [{"partition_index": 0, "broker_ids": [0]}, {"partition_index": 1, "broker_ids": [0]}]
    create(k, new(k.name("a"), -1, -1, assignments=one))
    create(k, new(k.name("b"), 2, 1, assignments=one))
    create(k, new(k.name("c"), -1, -1, assignments=[{"partition_index": 1, "broker_ids": [0]}]))
    create(k, new(k.name("d"), -1, -1, assignments=[{"partition_index": 0, "broker_ids": [99]}]))
    create(k, new(k.name("e"), -1, -1, assignments=[{"partition_index": 0, "broker_ids": []}]))


@story("V-007")
def a_trial_creates_nothing(k: Stage) -> None:
    """With validate only the answer is as if, and the topic is not there."""
    create(k, new(k.name("t"), 2), validate_only=True)
    create(k, new(k.name("bad/name")), validate_only=True)
    k.pause(200)
    metadata(k, k.name("t"))


@story("V-007")
def a_topic_with_configs(k: Stage) -> None:
    """Good ones are kept and shown; an unknown key or a bad value refuses the topic."""
    configs = [{"name": "retention.ms", "value": "1000"}, {"name": "cleanup.policy", "value": "compact"}]
    answer = k.line("admin").quietly("create_topics", 7, topics=[new(k.name("t"), configs=configs)], timeout_ms=10_000)
    shown = {
        one.name: [one.value, one.config_source]
        for one in answer.topics[0].configs
        if one.name in ("retention.ms", "cleanup.policy")
    }
    k.events.append({"shown": shown})
    create(k, new(k.name("a"), configs=[{"name": "no.such.key", "value": "1"}]))
    create(k, new(k.name("b"), configs=[{"name": "retention.ms", "value": "long"}]))
    create(k, new(k.name("c"), configs=[{"name": "retention.ms", "value": None}]))


CONFIGS: Sequence[Mapping[str, str]] = (
    {"retention.bytes": "-5"},
    {"retention.ms": "-2"},
    {"retention.bytes": "0"},
    {"cleanup.policy": ""},
    {"cleanup.policy": "delete,delete"},
    {"cleanup.policy": "delete, compact"},
    {"cleanup.policy": "compact,"},
    {"cleanup.policy": "Compact"},
    {"compression.type": " gzip "},
    {"compression.type": "GZIP"},
    {"compression.gzip.level": "0"},
    {"compression.gzip.level": "10"},
    {"compression.lz4.level": "0"},
    {"compression.zstd.level": "-200000"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"},
    {"min.cleanable.dirty.ratio": "nan"},
    {"min.cleanable.dirty.ratio": "0.5f"},
    {"min.cleanable.dirty.ratio": "1_0"},
    {"min.cleanable.dirty.ratio": "1.1"},
    {"leader.replication.throttled.replicas": "0:1,1:2"},
    {"leader.replication.throttled.replicas": "*"},
    {"leader.replication.throttled.replicas": "none"},
    {"follower.replication.throttled.replicas": "0"},
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "false"},
    {"remote.log.copy.disable": "true"},
    {"local.retention.ms": "10", "retention.ms": "5"},
    {"local.retention.ms": "-3"},
    {"local.retention.bytes": "100", "retention.bytes": "50"},
    {"preallocate": "yes"},
    {"preallocate": "TRUE"},
    {"segment.bytes": "1048575"},
    {"segment.bytes": " 1048576 "},
    {"segment.bytes": "+1048576"},
    {"segment.bytes": "1e7"},
    {"segment.ms": "0"},
    {"segment.jitter.ms": "-1"},
    {"segment.index.bytes": "3"},
    {"index.interval.bytes": "-1"},
    {"flush.messages": "0"},
    {"flush.ms": "-1"},
    {"file.delete.delay.ms": "-1"},
    {"max.message.bytes": "-1"},
    {"message.timestamp.type": "createtime"},
    {"message.timestamp.before.max.ms": "-1"},
    {"message.timestamp.difference.max.ms": "1"},
    {"message.downconversion.enable": "true"},
    {"message.format.version": "3.0"},
    {"min.insync.replicas": "0"},
    {"min.insync.replicas": "2"},
    {"unclean.leader.election.enable": "maybe"},
)


@story("V-007")
def settings_that_a_topic_may_have_or_not(k: Stage) -> None:
    """Each is tried in a topic that is not created."""
    for settings in CONFIGS:
        configs = [{"name": name, "value": value} for name, value in settings.items()]
        line = k.line("admin")
        (result,) = line.quietly(
            "create_topics", 7, topics=[new(k.name("t"), configs=configs)], timeout_ms=10_000, validate_only=True
        ).topics
        k.events.append({"configs": settings, "error": result.error_code})


@story("V-007")
def a_topic_is_deleted_by_name_and_by_id(k: Stage) -> None:
    """Both ways; a second time it is not there."""
    first, second = k.topic("first"), k.topic("second")
    admin = k.line("admin")
    admin.call("delete_topics", 6, topics=[{"name": first}, {"topic_id": k.topic_id(second)}], timeout_ms=10_000)
    for name in (first, second):
        k.await_topic(name, lambda topic: topic.error_code == "UNKNOWN_TOPIC_OR_PARTITION")
    admin.call("delete_topics", 6, topics=[{"name": first}, {"topic_id": k.topic_id(second)}], timeout_ms=10_000)
    metadata(k, first)


@story("V-007")
def every_delete_version_deletes(k: Stage) -> None:
    """Versions 1 to 5 take names, 6 takes both forms."""
    for version in range(1, 6):
        name = k.topic(f"t{version}")
        k.line("admin").call("delete_topics", version, topic_names=[name], timeout_ms=10_000)
        k.line("admin").call("delete_topics", version, topic_names=[k.name("none")], timeout_ms=10_000)


@story("V-007")
def deletes_that_make_no_sense(k: Stage) -> None:
    """The same twice, a name and an id at once, neither, an unknown id."""
    name, other = k.topic("t"), k.topic("other")
    admin = k.line("admin")
    admin.call("delete_topics", 6, topics=[{"name": name}, {"name": name}], timeout_ms=10_000)
    admin.call("delete_topics", 6, topics=[{"name": other, "topic_id": k.topic_id(other)}], timeout_ms=10_000)
    admin.call("delete_topics", 6, topics=[{"topic_id": UNKNOWN_ID}], timeout_ms=10_000)
    metadata(k, name, other)


@story("K-202")
def a_topic_grows(k: Stage) -> None:
    """More partitions are added, fewer or the same are refused, and so is a topic that is not there."""
    name = k.topic(partitions=2)
    admin = k.line("admin")

    def grow(topic: str, count: int, **values: Any) -> None:
        topics = [{"name": topic, "count": count, "assignments": None}]
        admin.call("create_partitions", 3, topics=topics, timeout_ms=10_000, **values)

    grow(name, 3, validate_only=True)
    grow(name, 4)
    k.await_topic(name, lambda topic: len(topic.partitions) == 4)
    for count in (4, 3, 0, -1):
        grow(name, count)
    grow(k.name("none"), 2)
    metadata(k, name)


@story("V-007")
def growth_with_given_replicas(k: Stage) -> None:
    """As many assignments as new partitions, on brokers that are there."""
    name = k.topic()
    admin = k.line("admin")
    tried: list[list[list[int]]] = [[[0], [0]], [[99]], [[]], [[0]]]
    for brokers in tried:
        topics = [{"name": name, "count": 2, "assignments": [{"broker_ids": one} for one in brokers]}]
        admin.call("create_partitions", 3, topics=topics, timeout_ms=10_000)
    admin.call("create_partitions", 3, topics=[{"name": name, "count": 3, "assignments": None}] * 2, timeout_ms=10_000)


@story("V-007")
def every_metadata_version_shows_a_topic(k: Stage) -> None:
    """Versions 0 to 13: the id comes with 10, operations with 8 to 10, null names with 12."""
    name = k.topic(partitions=2)
    for version in range(14):
        metadata(k, name, version=version)


@story("V-007")
def metadata_of_what_is_not_there(k: Stage) -> None:
    """An unknown name, a bad name, an unknown id; nothing is created."""
    metadata(k, k.name("none"))
    metadata(k, "a/b", "")
    unknown = [{"name": None, "topic_id": UNKNOWN_ID}]
    k.line("watch").call("metadata", 12, topics=unknown, allow_auto_topic_creation=False)


@story("V-007")
def metadata_by_topic_id(k: Stage) -> None:
    """From version 12 on the id alone is enough; with a name besides it is not what it should be."""
    name = k.topic()
    watch = k.line("watch")
    for version in (12, 13):
        watch.call("metadata", version, topics=[{"name": None, "topic_id": k.topic_id(name)}])


@story("V-007")
def metadata_of_no_topics_and_of_all(k: Stage) -> None:
    """An empty list asks for none (in version 0 for all), null for all."""
    name = k.topic()
    watch = k.line("watch")
    for version in (1, 4, 9, 13):
        watch.call("metadata", version, topics=[])
    for version, topics in ((0, []), (1, None), (12, None)):
        found = watch.quietly("metadata", version, topics=topics).topics
        k.events.append(
            {"version": version, "mine": [one.name.removeprefix(k.prefix) for one in found if one.name == name]}
        )


@story("V-007")
def metadata_creates_a_topic_if_it_may(k: Stage) -> None:
    """The first answer says that it is not there yet, a later one shows it; versions below 4 always may."""
    watch = k.line("watch")
    may: dict[str, Any] = {"allow_auto_topic_creation": True}
    for version, values in ((12, may), (1, {})):
        name = k.name(f"t{version}")
        watch.call("metadata", version, topics=[{"name": name}], **values)
        visible(k, name)
        metadata(k, name)


@story("V-007", server="full")
def metadata_creates_nothing_where_that_is_off(k: Stage) -> None:
    """The client may, the broker does not."""
    for _ in range(2):
        k.line("watch").call("metadata", 12, topics=[{"name": k.name("t")}], allow_auto_topic_creation=True)
        k.pause(200)


@story("V-007")
def names_that_differ_in_dots_are_not_created_by_metadata(k: Stage) -> None:
    """Auto-creation refuses bad names as CreateTopics does."""
    k.line("watch").call(
        "metadata", 12, topics=[{"name": "no topic/name"}, {"name": ""}], allow_auto_topic_creation=True
    )


@story("V-007")
def operations_on_a_topic_are_told_when_asked_for(k: Stage) -> None:
    """Without an authorizer all of them, also of a name that is not there, and none of an id that is not there."""
    name = k.topic()
    metadata(k, name, version=12, include_topic_authorized_operations=True)
    metadata(k, name, version=8, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    metadata(k, k.name("none"), "a/b", version=12, include_topic_authorized_operations=True)
    unknown = [{"name": None, "topic_id": UNKNOWN_ID}]
    k.line("watch").call(
        "metadata",
        12,
        topics=unknown,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )


@story("V-007")
def topics_are_described_in_pages(k: Stage) -> None:
    """DescribeTopicPartitions gives so many partitions and says where to go on."""
    one, two = k.topic("one", 3), k.topic("two", 2)
    watch = k.line("watch")
    both = [{"name": one}, {"name": two}]
    watch.call("describe_topic_partitions", 0, topics=both)
    watch.call("describe_topic_partitions", 0, topics=both, response_partition_limit=2)
    watch.call("describe_topic_partitions", 0, topics=both, cursor={"topic_name": one, "partition_index": 2})
    watch.call("describe_topic_partitions", 0, topics=[{"name": k.name("none")}])


@story("V-007")
def the_cluster_is_described(k: Stage) -> None:
    """Brokers, controller and id, in each version; operations when asked for."""
    for version in range(3):
        k.line("watch").call("describe_cluster", version)
    k.line("watch").call("describe_cluster", 1, include_cluster_authorized_operations=True)
    k.line("watch").call("describe_cluster", 1, endpoint_type=7)


@story("V-005")
def a_topic_made_anew_has_another_id(k: Stage) -> None:
    """Same name, new id: the old id is unknown."""
    name = k.topic()
    old = k.topic_id(name)
    k.delete_topic(name)
    create(k, new(name))
    visible(k, name)
    k.events.append({"same id": k.topic_id(name) == old})
    k.line("watch").call("metadata", 12, topics=[{"name": None, "topic_id": old}], allow_auto_topic_creation=False)


@story("V-007")
def topics_that_are_named_twice_in_a_page(k: Stage) -> None:
    """Told once, but for the error of a cursor that is of none of them."""
    name = k.topic(partitions=2)
    twice = [{"name": name}, {"name": name}]
    for cursor in (None, {"topic_name": name, "partition_index": -1}, {"topic_name": "no", "partition_index": 0}):
        k.line("watch").call("describe_topic_partitions", 0, topics=twice, cursor=cursor)


@story("V-007")
def metadata_by_id_before_names_may_be_null(k: Stage) -> None:
    """Refused as a whole: of all topics nothing else is told, nor of the brokers, and none is created."""
    name, other = k.topic(), k.name("other")
    for version in (10, 11):
        for topics in ([{"name": None}, {"name": other}], [{"name": other}, {"name": name, "topic_id": UNKNOWN_ID}]):
            k.line("watch").call("metadata", version, topics=topics, allow_auto_topic_creation=True)
    metadata(k, name, other)
