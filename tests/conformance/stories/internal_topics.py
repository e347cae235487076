"""The coordinators' own topics as clients see them: what may be asked of them, and what is refused."""

from typing import Any

from tests.conformance.batches import TRANSACTIONAL, batch
from tests.conformance.requests import APPEND, DELETE, SET, TOPIC, alter_configs, commit, describe_configs, fetch, part
from tests.conformance.scenes import begin_producer
from tests.conformance.stage import Stage
from tests.conformance.stories.fetch import offsets
from tests.conformance.stories.produce import produce
from tests.conformance.stories.topics import create, metadata, new, visible
from tests.conformance.story import story

OFFSETS, TRANSACTIONS, SHARES, CLUSTER = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__cluster_metadata",
)


@story("V-007")
def the_offsets_topic_is_shown_as_internal(k: Stage) -> None:
    """By name and by id, in Metadata and DescribeTopicPartitions."""
    visible(k, OFFSETS)
    metadata(k, OFFSETS)
    k.line("watch").call("metadata", 12, topics=[{"name": None, "topic_id": k.topic_id(OFFSETS)}])
    k.line("watch").call("describe_topic_partitions", 0, topics=[{"name": OFFSETS}])


@story("V-007")
def internal_names_cannot_be_created(k: Stage) -> None:
    """Those that are there already, and the log of the controllers; alone and as a trial."""
    for name in (OFFSETS, TRANSACTIONS, CLUSTER):
        create(k, new(name))
        create(k, new(name), validate_only=True)


@story("V-007")
def internal_names_are_not_created_by_metadata(k: Stage) -> None:
    """A client that may create topics asks for the log of the controllers."""
    k.line("watch").call("metadata", 12, topics=[{"name": CLUSTER}], allow_auto_topic_creation=True)


@story("V-007")
def records_for_the_offsets_topic(k: Stage) -> None:
    """By name in each version, by id, from a transaction, with each acks, and beside a topic that takes them."""
    topic = k.topic()
    visible(k, OFFSETS)
    for version in (3, 8, 9, 12):
        produce(k.line("p"), OFFSETS, batch(b"x", key=b"k"), version=version)
    data = [{"topic_id": k.topic_id(OFFSETS), "partition_data": [{"index": 0, "records": batch(b"x", key=b"k")}]}]
    k.line("p").call("produce", 13, acks=-1, timeout_ms=1000, topic_data=data)
    produce(k.line("p"), OFFSETS, batch(b"x", key=b"k"), acks=1)
    produce(k.line("p"), OFFSETS, batch(b"x", key=b"k"), index=99)
    parts = [{"index": 0, "records": batch(b"x")}]
    both = [{"name": OFFSETS, "partition_data": parts}, {"name": topic, "partition_data": parts}]
    k.line("p").call("produce", 12, acks=-1, timeout_ms=1000, topic_data=both)


@story("V-007")
def records_of_an_idempotent_producer_for_the_offsets_topic(k: Stage) -> None:
    """It has a producer id, and no transaction."""
    line = k.line("p")
    me = line.call("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=0)
    records = batch(b"x", key=b"k", producer_id=me.producer_id, epoch=0, sequence=0)
    produce(line, OFFSETS, records)


@story("O-116")
def a_transaction_with_partitions_of_the_offsets_topic(k: Stage) -> None:
    """AddPartitionsToTxn for one of its partitions, then records for it with and without."""
    p = begin_producer(k)
    numbers: dict[str, Any] = {"producer_id": p.id, "epoch": p.epoch, "sequence": 0, "attributes": TRANSACTIONAL}
    records = batch(b"x", key=b"k", **numbers)
    produce(p.line, OFFSETS, records, version=11, transactional_id=p.transactional_id)
    one = {"v3_and_below_transactional_id": p.transactional_id, "v3_and_below_producer_id": p.id}
    topics = [{"name": OFFSETS, "partitions": [0]}]
    p.line.call("add_partitions_to_txn", 3, **one, v3_and_below_producer_epoch=p.epoch, v3_and_below_topics=topics)
    produce(p.line, OFFSETS, records, version=11, transactional_id=p.transactional_id)
    p.end(False)


@story("V-007")
def records_of_the_offsets_topic_cannot_be_deleted(k: Stage) -> None:
    """DeleteRecords of a partition that is there, wholly and up to an offset, and of one that is not."""
    for version, index, offset in ((0, 0, 0), (2, 0, 0), (2, 0, -1), (2, 99, 0)):
        topics = [{"name": OFFSETS, "partitions": [{"partition_index": index, "offset": offset}]}]
        k.line("admin").call("delete_records", version, topics=topics, timeout_ms=10_000)


@story("V-007")
def offsets_of_the_offsets_topic_are_offsets(k: Stage) -> None:
    """A consumer of the offsets topic commits where it is; its first offset can be asked for."""
    line = k.line("a")
    commit(line, k.name("g"), OFFSETS, part(3))
    fetch(line, k.name("g"), OFFSETS)
    topics = [{"name": OFFSETS, "partitions": [{"partition_index": 0}]}]
    line.call("offset_delete", 0, group_id=k.name("g"), topics=topics)
    offsets(k, OFFSETS, -2)


@story("V-007")
def the_configs_of_the_offsets_topic(k: Stage) -> None:
    """It is compacted, whatever the broker's defaults are."""
    for key in ("cleanup.policy", "compression.type", "segment.bytes", "retention.ms"):
        describe_configs(k, TOPIC, OFFSETS, key)


@story("V-007")
def configs_of_the_offsets_topic_that_would_lose_offsets(k: Stage) -> None:
    """Another policy, a short retention, small batches, young tombstones: each as a trial, and one that is no config."""
    for key, value in (
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "1000"),
        ("retention.bytes", "1"),
        ("segment.bytes", "1048576"),
        ("max.message.bytes", "100"),
        ("delete.retention.ms", "0"),
        ("message.timestamp.after.max.ms", "1"),
        ("no.such.key", "1"),
    ):
        alter_configs(k, TOPIC, OFFSETS, (key, SET, value), validate_only=True)
    alter_configs(k, TOPIC, OFFSETS, ("cleanup.policy", DELETE, None), validate_only=True)
    alter_configs(k, TOPIC, OFFSETS, ("cleanup.policy", APPEND, "delete"), validate_only=True)
    for configs in (
        [{"name": "cleanup.policy", "value": "delete"}],
        [{"name": "cleanup.policy", "value": "compact"}],
        [],
    ):
        resource = {"resource_type": TOPIC, "resource_name": OFFSETS, "configs": configs}
        k.line("admin").call("alter_configs", 2, resources=[resource], validate_only=True)


@story("V-007")
def an_internal_name_that_is_not_there_yet(k: Stage) -> None:
    """The state of share groups, before anybody has asked for it."""
    metadata(k, SHARES)
    k.line("admin").call("delete_topics", 6, topics=[{"name": SHARES}], timeout_ms=10_000)
    k.line("admin").call("delete_topics", 6, topics=[{"name": CLUSTER}], timeout_ms=10_000)
    for name in (SHARES, CLUSTER):
        grown = {"name": name, "count": 60, "assignments": None}
        k.line("admin").call("create_partitions", 3, topics=[grown], timeout_ms=10_000)
        produce(k.line("p"), name, batch(b"x", key=b"k"))
        topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}]
        k.line("admin").call("delete_records", 2, topics=topics, timeout_ms=10_000)


@story("V-007")
def the_topic_of_transactions_takes_nothing_from_clients(k: Stage) -> None:
    """Records, deleted records, and a topic of the same name."""
    produce(k.line("p"), TRANSACTIONS, batch(b"x", key=b"k"))
    parts = [{"partition_index": 0, "offset": 0}]
    topics = [{"name": TRANSACTIONS, "partitions": parts}]
    k.line("admin").call("delete_records", 2, topics=topics, timeout_ms=10_000)


@story("V-007", server="deletion")
def the_offsets_topic_grows_and_is_deleted(k: Stage) -> None:
    """Fewer, as many and more partitions, other configs; DeleteTopics by both, by id and by name."""
    visible(k, OFFSETS)
    admin = k.line("admin")
    for count, trial in ((1, False), (4, False), (5, True), (5, False)):
        topics = [{"name": OFFSETS, "count": count, "assignments": None}]
        admin.call("create_partitions", 3, topics=topics, timeout_ms=10_000, validate_only=trial)
    alter_configs(k, TOPIC, OFFSETS, ("cleanup.policy", SET, "delete"))
    k.pause(500)
    describe_configs(k, TOPIC, OFFSETS, "cleanup.policy")
    named, known = {"name": OFFSETS}, {"topic_id": k.topic_id(OFFSETS)}
    for wanted in ({**named, **known}, known, named):
        admin.call("delete_topics", 6, topics=[wanted], timeout_ms=10_000)
        k.pause(500)
    admin.call("delete_topics", 5, topic_names=[OFFSETS], timeout_ms=10_000)
