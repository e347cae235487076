"""Features, brokers and voters: what administrators may change of a cluster of one broker."""

from typing import Any

from tests.conformance.actors import Producer
from tests.conformance.batches import batch
from tests.conformance.stage import Stage
from tests.conformance.stories.produce import produce
from tests.conformance.story import story


def update(feature: str, level: int, kind: int = 1) -> dict[str, Any]:
    return {"feature": feature, "max_version_level": level, "upgrade_type": kind}


@story("V-007")
def features_that_would_be_updated(k: Stage) -> None:
    """The same level, a higher and a lower one, each kind of update; nothing is changed."""
    for version in (1, 2):
        for feature in ("group.version", "transaction.version", "metadata.version", "eligible.leader.replicas.version"):
            for level in (-1, 0, 1, 2, 30, 99):
                for kind in (1, 2, 3):
                    k.line("a").call(
                        "update_features", version, validate_only=True, feature_updates=[update(feature, level, kind)]
                    )


@story("V-007")
def features_that_there_are_not(k: Stage) -> None:
    """Unknown names, kinds of update that there are not, none, and the same twice."""
    for version in (1, 2):
        for updates in (
            [],
            [update("no.such.feature", 1)],
            [update("", 1)],
            [update("group.version", 1, 0)],
            [update("group.version", 1, 9)],
            [update("kraft.version", 1)],
            [update("kraft.version", 0)],
            [update("group.version", 1), update("no.such.feature", 1)],
            [update("group.version", 1), update("transaction.version", 2)],
        ):
            k.line("a").call("update_features", version, validate_only=True, feature_updates=updates)
    for level, down in ((1, False), (1, True), (0, True), (0, False)):
        k.line("a").call("update_features", 0, feature_updates=[
            {"feature": "group.version", "max_version_level": level, "allow_downgrade": down}] if level else [
            {"feature": "no.such.feature", "max_version_level": level, "allow_downgrade": down}])  # fmt: skip


@story("V-007")
def brokers_that_are_not_registered(k: Stage) -> None:
    """Nothing is there to be taken away."""
    for broker in (99, -1, 2**31 - 1):
        k.line("a").call("unregister_broker", 0, broker_id=broker)


@story("V-007")
def voters_of_a_quorum_that_is_fixed(k: Stage) -> None:
    """No voter is added nor removed, where the voters are those of the configuration."""
    listener = {"name": "CONTROLLER", "host": "localhost", "port": 9}
    some = "00000000-0000-0000-0000-000000000007"
    for version in (0, 1):
        for cluster in (None, "another"):
            for voter, directory, listeners in (
                (9, some, [listener]),
                (9, some, []),
                (0, some, [listener]),
                (-1, None, []),
            ):
                k.line("a").call(
                    "add_raft_voter", version, cluster_id=cluster, timeout_ms=1000, voter_id=voter,
                    voter_directory_id=directory, listeners=listeners,
                )  # fmt: skip
    for cluster in (None, "another"):
        for voter, directory in ((9, some), (0, some), (-1, None)):
            k.line("a").call("remove_raft_voter", 0, cluster_id=cluster, voter_id=voter, voter_directory_id=directory)


def marker(
    k: Stage, producer: int, epoch: int, *partitions: tuple[str, list[int]], commits: bool = False
) -> dict[str, Any]:
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in partitions]
    return {
        "producer_id": producer, "producer_epoch": epoch, "transaction_result": commits, "coordinator_epoch": 0,
        "topics": topics,
    }  # fmt: skip


@story("V-007")
def markers_for_what_is_not_there(k: Stage) -> None:
    """Partitions and topics that do not exist, producers that never wrote, and nothing at all."""
    name = k.topic()
    for version in (1, 2):
        for markers in (
            [],
            [marker(k, 10**12, 0)],
            [marker(k, 10**12, 0, (name, []))],
            [marker(k, 10**12, 0, (name, [9, 0]), (k.name("none"), [0]))],
            [marker(k, 10**12, 0, (name, [9])), marker(k, 10**12 + 1, 0, (name, [9]))],
        ):
            answer = k.line("a").quietly("write_txn_markers", version, markers=markers)
            found = [
                [one.producer_id, topic.name, part.partition_index, part.error_code]
                for one in answer.markers
                for topic in one.topics
                for part in topic.partitions
            ]
            k.events.append({"version": version, "written": sorted(k.normal.values(found))})  # Kafka has no order


@story("V-007")
def markers_of_transaction_versions_that_do_not_exist(k: Stage) -> None:
    """-1 is none; any other is taken."""
    name = k.topic()
    for number, transaction_version in enumerate((-1, -2, 3, 127)):
        for topic in (name, k.name("none")):
            asked = {**marker(k, 10**12 + number, 0, (topic, [0])), "transaction_version": transaction_version}
            k.line("a").call("write_txn_markers", 2, markers=[asked])


@story("V-007")
def a_transaction_is_aborted_by_an_administrator(k: Stage) -> None:
    """An open transaction is found in the partition, and a marker ends it there; an older epoch does not."""
    name = k.topic()
    p = Producer(k, "p", "x")
    p.begin_eventually()
    p.add_partitions(name)
    produce(
        p.line,
        name,
        batch(b"r", producer_id=p.id, epoch=p.epoch, sequence=0, attributes=0x10),
        version=9,
        timeout_ms=5000,
        transactional_id=k.name("x"),
    )
    asked = [{"name": name, "partition_indexes": [0]}]
    k.line("a").call("describe_producers", 0, topics=asked)
    k.line("a").call("write_txn_markers", 1, markers=[marker(k, p.id, p.epoch - 1, (name, [0]))])
    k.line("a").call("write_txn_markers", 1, markers=[marker(k, p.id, p.epoch, (name, [0]))])
    k.line("a").call("describe_producers", 0, topics=asked)
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    for isolation in (0, 1):
        k.line("a").call(
            "list_offsets", 9, replica_id=-1, isolation_level=isolation, topics=[{"name": name, "partitions": parts}]
        )
