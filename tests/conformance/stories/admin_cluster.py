"""What administrators ask of the cluster: directories, replicas, the quorum, quotas and what needs security."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.requests import topic_data
from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story

ACL = {"operation": 3, "permission_type": 3}
RULE = {"resource_type": 2, "resource_name": "a", "resource_pattern_type": 3, "principal": "User:a", "host": "*", **ACL}
FILTER = {"resource_type_filter": 2, "resource_name_filter": "a", "pattern_type_filter": 3, **ACL}


def shown_sizes(answer: Answer) -> list[Any]:
    """Topic, partition and size of all that is in the directories, sorted."""
    return sorted(
        [topic.name.rpartition("--")[2], one.partition_index, one.partition_size, one.offset_lag, one.is_future_key]
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
    )


@story("V-007")
def the_bytes_of_partitions_in_each_version(k: Stage) -> None:
    """What was produced is counted; a partition and a topic that do not exist are left out."""
    name = k.topic(partitions=2)
    k.line("a").quietly("produce", 9, acks=-1, timeout_ms=5000, topic_data=topic_data(name, batch(b"a", b"b"), 1))
    asked = [{"topic": name, "partitions": [0, 1, 7]}, {"topic": k.name("none"), "partitions": [0]}]
    for version in range(1, 6):
        answer = k.line("a").quietly("describe_log_dirs", version, topics=asked)
        one = answer.results[0]
        k.events.append(
            {
                "version": version,
                "error": [answer.get("error_code"), one.error_code],
                "sizes": shown_sizes(answer),
                "volume": [key for key in ("total_bytes", "usable_bytes") if key in one],
                "cordoned": one.get("is_cordoned"),
                "absolute": one.log_dir.startswith("/"),
            }
        )


@story("V-007")
def the_bytes_of_partitions_that_are_named_twice(k: Stage) -> None:
    """Each is there once; no topics ask for none, null for all."""
    one, two = k.topic("one", 2), k.topic("two")
    for topics in (
        [{"topic": one, "partitions": [0, 0]}, {"topic": one, "partitions": [1]}, {"topic": two, "partitions": [0]}],
        [{"topic": one, "partitions": []}],
        [],
    ):
        k.events.append({"sizes": shown_sizes(k.line("a").quietly("describe_log_dirs", 5, topics=topics))})
    everything = k.line("a").quietly("describe_log_dirs", 5, topics=None)
    mine = [topic for topic in everything.results[0].topics if topic.name in (one, two)]
    k.events.append({"all": sorted([topic.name.rpartition("--")[2], len(topic.partitions)] for topic in mine)})


@story("V-007")
def a_partition_for_another_directory(k: Stage) -> None:
    """The directory that it is in is fine, any other is not found."""
    name = k.topic()
    here = k.line("a").quietly("describe_log_dirs", 5, topics=[]).results[0].log_dir
    topics = [{"name": name, "partitions": [0, 9]}, {"name": k.name("none"), "partitions": [0]}]
    for version in (1, 2):
        answer = k.line("a").quietly("alter_replica_log_dirs", version, dirs=[{"path": here, "topics": topics}])
        shown = sorted(
            [topic.topic_name.rpartition("--")[2], one.partition_index, one.error_code]
            for topic in answer.results
            for one in topic.partitions
        )
        k.events.append({"here": shown})
        for path in ("/not/there", "relative"):
            k.line("a").call("alter_replica_log_dirs", version, dirs=[{"path": path, "topics": topics}])
    k.line("a").call("alter_replica_log_dirs", 2, dirs=[])


@story("V-007")
def partitions_for_another_directory_that_are_named_twice(k: Stage) -> None:
    """Each is told once, by the last directory. A topic whose name is too long for the copy is refused first."""
    name, long = k.topic(partitions=2), k.name("x" * 200)
    here = k.line("a").quietly("describe_log_dirs", 5, topics=[]).results[0].log_dir
    there = "/not/there"
    longest = (long + "x" * 215)[: 215 - len("-0")]

    def ask(*dirs: tuple[str, list[tuple[str, list[int]]]]) -> None:
        asked = [{"path": path, "topics": [{"name": topic, "partitions": parts} for topic, parts in topics]}
                 for path, topics in dirs]  # fmt: skip
        answer = k.line("a").quietly("alter_replica_log_dirs", 2, dirs=asked)
        k.events.append(
            {
                "entries": len(answer.results),
                "told": sorted(
                    [len(topic.topic_name) > 214, one.partition_index, one.error_code]
                    for topic in answer.results
                    for one in topic.partitions
                ),
            }
        )

    ask((here, [(name, [0, 0]), (name, [0])]), (there, [(name, [0])]))
    ask((there, [(name, [0, 1])]), (here, [(name, [0])]))
    ask((here, [(name, [])]), (here, []))
    for path in (here, there):
        ask((path, [(longest, [0, -1, 10]), (longest + "x", [0]), (longest[:-1], [-1, 10])]))


@story("V-007")
def acls_without_an_authorizer(k: Stage) -> None:
    """SECURITY_DISABLED, for each rule and each filter."""
    for version in (1, 2, 3):
        k.line("a").call("describe_acls", version, **FILTER)
        k.line("a").call("create_acls", version, creations=[RULE, {**RULE, "principal": "no principal"}])
        k.line("a").call("delete_acls", version, filters=[FILTER, FILTER])
    k.line("a").call("create_acls", 3, creations=[])
    k.line("a").call("delete_acls", 3, filters=[])


@story("V-007")
def quotas_where_there_are_none(k: Stage) -> None:
    """No entries for any filter that makes sense."""
    for version in (0, 1):
        k.line("a").call("describe_client_quotas", version, components=[], strict=False)
        for component in (
            {"entity_type": "user", "match_type": 0, "match": "nobody"},
            {"entity_type": "client-id", "match_type": 1, "match": None},
            {"entity_type": "ip", "match_type": 2, "match": None},
        ):
            k.line("a").call("describe_client_quotas", version, components=[component], strict=True)


@story("V-007")
def filters_of_quotas_that_make_no_sense(k: Stage) -> None:
    """An unknown, empty or repeated type, a match that is none, a name too few or too many, an address with a user."""
    user = {"entity_type": "user", "match_type": 0, "match": "a"}
    for components in (
        [{**user, "entity_type": "group"}],
        [{**user, "entity_type": ""}],
        [user, user],
        [{**user, "match_type": 7}],
        [{**user, "match_type": 7, "match": None}],
        [{**user, "match": None}],
        [{**user, "match_type": 1}],
        [{**user, "match_type": 2}],
        [{**user, "entity_type": "ip"}, user],
        [{**user, "entity_type": "group", "match_type": 7}],
        [user, {**user, "match_type": 7}],
        [{**user, "entity_type": "ip"}, user, {**user, "entity_type": "group"}],
    ):
        k.line("a").call("describe_client_quotas", 1, components=components)


@story("V-007")
def scram_credentials_where_there_are_none(k: Stage) -> None:
    """None for all users; a user that is named has none, and is not named twice."""
    for users in (None, [], [{"name": "a"}], [{"name": "a"}, {"name": "b"}, {"name": "a"}], [{"name": ""}]):
        k.line("a").call("describe_user_scram_credentials", 0, users=users)


@story("V-007")
def reassignments_that_change_nothing(k: Stage) -> None:
    """The replicas that a partition has are fine, and nothing is in progress afterwards."""
    name = k.topic(partitions=2)
    here = {"partition_index": 0, "replicas": [0]}
    cancelled = {"partition_index": 1, "replicas": None}
    missing = [{"partition_index": 9, "replicas": [0]}, {"partition_index": -1, "replicas": None}]
    absent = {"name": k.name("none"), "partitions": [here, cancelled]}
    for version in (0, 1):
        topics = [{"name": name, "partitions": [here, cancelled, *missing]}, absent]
        k.line("a").call("alter_partition_reassignments", version, topics=topics)
    k.line("a").call("alter_partition_reassignments", 1, topics=[{"name": name, "partitions": [here]}] * 2)
    for topics in ([{"name": name, "partitions": []}], []):
        k.line("a").call("alter_partition_reassignments", 1, topics=topics)
    for topics in (None, [], [{"name": name, "partition_indexes": [0, 9]}, {"name": "none", "partition_indexes": [0]}]):
        k.line("a").call("list_partition_reassignments", 0, topics=topics)


@story("V-007")
def reassignments_that_make_no_sense(k: Stage) -> None:
    """No replicas, brokers that are not there, the same broker twice; whether their number may change or not."""
    name = k.topic()
    for replicas in ([], [99], [0, 0], [0, 99], [-1]):
        for may in (True, False):
            topics = [{"name": name, "partitions": [{"partition_index": 0, "replicas": replicas}]}]
            k.line("a").call("alter_partition_reassignments", 1, topics=topics, allow_replication_factor_change=may)


@story("V-007")
def elections_that_are_not_needed(k: Stage) -> None:
    """The preferred leader leads; partitions that do not exist are unknown, and a third kind of election is invalid."""
    name = k.topic()
    asked = [{"topic": name, "partitions": [0, 0, 9]}, {"topic": k.name("none"), "partitions": [0]}]
    k.line("a").call("elect_leaders", 0, topic_partitions=asked)
    for version in (1, 2):
        for kind in (0, 1, 2, -1):
            k.line("a").call("elect_leaders", version, election_type=kind, topic_partitions=asked)
            k.line("a").call(
                "elect_leaders",
                version,
                election_type=kind,
                topic_partitions=None,
                mine="replica_election_results.topic",
            )
        for topics in ([], [{"topic": name, "partitions": []}]):
            k.line("a").call("elect_leaders", version, election_type=0, topic_partitions=topics)


@story("V-007")
def delegation_tokens_on_a_plaintext_listener(k: Stage) -> None:
    """A client that has not authenticated itself may not ask for them."""
    for version in (1, 2, 3):
        k.line("a").call("create_delegation_token", version, renewers=[], max_lifetime_ms=-1)
        k.line("a").call("describe_delegation_token", version, owners=None)
    for version in (1, 2):
        k.line("a").call("renew_delegation_token", version, hmac=b"x", renew_period_ms=1)
        k.line("a").call("expire_delegation_token", version, hmac=b"x", expiry_time_period_ms=1)


@story("V-007")
def the_quorum_of_one(k: Stage) -> None:
    """The broker is leader and only voter of the metadata log."""
    for version in (0, 1, 2):
        answer = k.line("a").quietly(
            "describe_quorum",
            version,
            topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
        )
        (one,) = answer.topics[0].partitions
        k.events.append(
            {
                "version": version,
                "error": [answer.error_code, answer.get("error_message"), one.error_code, one.get("error_message")],
                "leader": [one.leader_id, one.leader_epoch],
                "voters": [
                    [voter.replica_id, voter.log_end_offset == one.high_watermark] for voter in one.current_voters
                ],
                "times": [
                    k.normal.values({key: voter[key] for key in voter if key.endswith("timestamp")})
                    for voter in one.current_voters
                ],
                "observers": one.observers,
                "nodes": [node.node_id for node in answer.get("nodes", [])],
            }
        )


@story("V-007")
def a_quorum_that_is_none(k: Stage) -> None:
    """Another partition, another topic, no partitions, no topics."""
    name = k.topic()
    for version in (0, 1, 2):
        for topic, partitions in (("__cluster_metadata", [1, -1]), (name, [0]), ("__cluster_metadata", [])):
            asked = {"topic_name": topic, "partitions": [{"partition_index": index} for index in partitions]}
            k.line("a").call("describe_quorum", version, topics=[asked])
        k.line("a").call("describe_quorum", version, topics=[])


@story("V-007")
def a_scram_credential_without_a_password(k: Stage) -> None:
    """Refused, whatever else is asked for."""
    one = {"name": k.name("u"), "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b""}
    k.line("a").call("alter_user_scram_credentials", 0, deletions=[], upsertions=[one])
    k.line("a").call("describe_user_scram_credentials", 0, users=[{"name": one["name"]}])


@story("V-007")
def a_delegation_token_for_somebody_else(k: Stage) -> None:
    """The refusal names the owner that the request has, if it has one."""
    for kind, owner in (("User", "bob"), ("User", None), ("", "bob"), ("User", "")):
        owners = {"owner_principal_type": kind, "owner_principal_name": owner}
        k.line("a").call("create_delegation_token", 3, **owners, renewers=[], max_lifetime_ms=-1)
