"""Streams groups and ACLs; the settings of streams groups."""

from typing import Any

from tests.conformance.actors import Streams
from tests.conformance.requests import BROKER, DELETE, SET, alter_configs, await_config, describe_configs
from tests.conformance.rights import CLUSTER, GROUP, SINGLE, TOPIC, Check, Right, give, matrix
from tests.conformance.scenes import sole_streams
from tests.conformance.stage import GROUP as GROUP_CONFIG
from tests.conformance.stage import Stage
from tests.conformance.story import story
from tests.conformance.topologies import internal, part, reads, topology, word_count


def join_of(k: Stage) -> dict[str, Any]:
    """A join that fails for another reason: it names two topologies."""
    again = k.name("r")
    known = topology(
        part("0", [k.name("t")], sinks=[again]),
        part("1", repartitions=[internal(again)], changelogs=[internal(k.name("log"), 1)]),
    )
    lists = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    identity = {"group_id": k.name("g"), "member_id": "m", "member_epoch": 0, "endpoint_information_epoch": -1}
    return {**identity, **lists, "rebalance_timeout_ms": 1000, "topology": known}


@story("S-036", server="streams-acls")
def rights_of_streams_group_heartbeat(k: Stage) -> None:
    """READ on the group, and DESCRIBE on every topic of a topology."""
    k.topic()
    checks = (Check(GROUP, "g", "READ"), *(Check(TOPIC, name, "DESCRIBE") for name in ("t", "r", "log")))
    matrix(k, "streams_group_heartbeat", 0, checks, join_of)


@story("S-036", server="streams-acls")
def rights_of_streams_group_describe(k: Stage) -> None:
    """DESCRIBE on the group, and on every topic of its topology."""
    known = word_count(k, k.topic())
    k.topic("again")
    k.topic("log")
    a = Streams(k, "a")
    a.join(known)
    a.beat()
    checks = (Check(GROUP, "g", "DESCRIBE"), *(Check(TOPIC, name, "DESCRIBE") for name in ("t", "again", "log")))
    matrix(
        k,
        "streams_group_describe",
        0,
        checks,
        lambda k: {"group_ids": [k.name("g")], "include_authorized_operations": True},
    )


def ask_as_alice(k: Stage, name: str, *rights: Right) -> None:
    """Join as a user with these rights, and a moment later look whether the internal topics are there."""
    topic = k.topic(f"{name}-t")
    again, log = k.name(f"{name}-again"), k.name(f"{name}-log")
    known = topology(
        part("0", [topic], sinks=[again]), part("1", repartitions=[internal(again)], changelogs=[internal(log)])
    )
    give(k, Right(GROUP, f"{name}-g", "READ"), Right(TOPIC, name, "DESCRIBE", "PREFIXED"), *rights)
    a = Streams(k, name, k.name(f"{name}-g"))
    a.line = k.user()
    a.join(known)
    k.pause(400)
    wanted = {"topics": [{"name": again}, {"name": log}], "allow_auto_topic_creation": False}
    answer = k.line("stage").quietly("metadata", 12, **wanted)
    k.events.append({"created by": name, "sizes": [len(one.partitions) for one in answer.topics]})


@story("S-036 S-011", server="streams-acls")
def internal_topics_need_the_right_to_create_them(k: Stage) -> None:
    """CREATE on the cluster, or on each of the topics; without it for one of them, none is created."""
    ask_as_alice(k, "none")
    ask_as_alice(k, "one", Right(TOPIC, "one-again", "CREATE"))
    ask_as_alice(k, "both", Right(TOPIC, "both-again", "CREATE"), Right(TOPIC, "both-log", "CREATE"))
    ask_as_alice(k, "cluster", Right(CLUSTER, SINGLE, "CREATE"))


KEYS = (
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.num.standby.replicas",
    "streams.initial.rebalance.delay.ms",
    "streams.assignment.interval.ms",
)


@story("S-037")
def the_settings_of_a_streams_group(k: Stage) -> None:
    """Defaults, bounds, and what contradicts another setting."""
    group = k.name("g")
    describe_configs(k, GROUP_CONFIG, group, *KEYS)
    for key, value in (
        ("streams.session.timeout.ms", "44999"),
        ("streams.session.timeout.ms", "60001"),
        ("streams.session.timeout.ms", "50000"),
        ("streams.heartbeat.interval.ms", "4999"),
        ("streams.heartbeat.interval.ms", "15001"),
        ("streams.heartbeat.interval.ms", "10000"),
        ("streams.num.standby.replicas", "-1"),
        ("streams.num.standby.replicas", "3"),
        ("streams.num.standby.replicas", "2"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("streams.initial.rebalance.delay.ms", "0"),
        ("streams.assignment.interval.ms", "-1"),
        ("streams.assignment.interval.ms", "15001"),
        ("streams.assignment.interval.ms", "15000"),
        ("streams.assignor.offload.enable", "true"),
        ("streams.task.offset.interval.ms", "1"),
    ):
        alter_configs(k, GROUP_CONFIG, group, (key, SET, value))
    await_config(k, GROUP_CONFIG, group, "streams.assignment.interval.ms", "15000")
    describe_configs(k, GROUP_CONFIG, group, *KEYS)
    alter_configs(k, GROUP_CONFIG, group, *((key, DELETE, None) for key in KEYS))


@story("S-037")
def the_brokers_settings_of_streams_groups(k: Stage) -> None:
    """What the broker shows for every streams group, and which of it may be changed while it runs."""
    names = (
        "group.streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
        "group.streams.max.size",
        "group.streams.num.standby.replicas",
        "group.streams.max.standby.replicas",
        "group.streams.initial.rebalance.delay.ms",
        "group.streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
        "group.streams.assignor.offload.enable",
    )
    describe_configs(k, BROKER, "0", *names)


@story("S-015 S-037", server="streams")
def a_streams_group_keeps_its_settings(k: Stage) -> None:
    """When it is deleted and comes to be again."""
    k.group_config(k.name("g"), streams_heartbeat_interval_ms=777)
    known, a = sole_streams(k)
    a.leave()
    k.line("admin").call("delete_groups", 2, groups_names=[a.group])
    a.join(known)
    a.leave()
    k.group_config(a.group, streams_heartbeat_interval_ms=888)
    a.join(reads(k.name("t")))
