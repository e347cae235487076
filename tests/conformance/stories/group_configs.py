"""Configs of groups: what may be set, what is shown, and when it counts."""

from tests.conformance.actors import Modern
from tests.conformance.requests import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    alter_configs,
    await_config,
    config_resource,
    describe_configs,
)
from tests.conformance.scenes import join_consumer
from tests.conformance.stage import GROUP, Stage
from tests.conformance.story import story

INTERVAL, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"


@story("K-334 K-340 T-27 K-338")
def a_group_that_is_not_there_has_its_defaults(k: Stage) -> None:
    """Every key is described, with the broker's value, for whatever name."""
    describe_configs(k, GROUP, k.name("none"))


@story("K-341 K-340 T-27")
def a_heartbeat_interval_of_its_own(k: Stage) -> None:
    """Set on the group, it comes with the next heartbeat's answer, and is described as the group's own."""
    a = join_consumer(k, "a", k.topic())
    alter_configs(k, GROUP, a.group, (INTERVAL, SET, "10000"))
    await_config(k, GROUP, a.group, INTERVAL, "10000")
    a.beat()
    describe_configs(k, GROUP, a.group, INTERVAL, SESSION)


@story("K-339 K-340")
def a_deleted_config_gives_way_to_the_brokers(k: Stage) -> None:
    """DELETE brings the broker's value back."""
    a = join_consumer(k, "a", k.topic())
    alter_configs(k, GROUP, a.group, (INTERVAL, SET, "10000"))
    await_config(k, GROUP, a.group, INTERVAL, "10000")
    alter_configs(k, GROUP, a.group, (INTERVAL, DELETE, None))
    await_config(k, GROUP, a.group, INTERVAL, "5000")
    a.beat()


@story("K-337 T-27")
def values_that_cannot_be(k: Stage) -> None:
    """Outside the broker's bounds, no number, unknown keys, a session no longer than the interval."""
    group = k.name("g")
    for name, value in (
        (INTERVAL, "1"),
        (INTERVAL, "15001"),
        (INTERVAL, "soon"),
        (INTERVAL, ""),
        (SESSION, "60001"),
        (SESSION, "1"),
        ("no.such.key", "1"),
        ("consumer.assignment.interval.ms", "-1"),
        ("consumer.assignment.interval.ms", "15001"),
    ):
        alter_configs(k, GROUP, group, (name, SET, value))
    alter_configs(k, GROUP, group, (SESSION, SET, "5000"))
    alter_configs(k, GROUP, group, (SESSION, SET, "6000"), (INTERVAL, SET, "7000"))
    describe_configs(k, GROUP, group, INTERVAL, SESSION)


@story("K-337")
def operations_that_cannot_be(k: Stage) -> None:
    """A null value, the same key twice, a list operation on a number."""
    group = k.name("g")
    alter_configs(k, GROUP, group, (INTERVAL, SET, None))
    alter_configs(k, GROUP, group, (INTERVAL, SET, "7000"), (INTERVAL, SET, "8000"))
    alter_configs(k, GROUP, group, (INTERVAL, APPEND, "7000"))
    alter_configs(k, GROUP, group, (INTERVAL, SUBTRACT, "7000"))
    describe_configs(k, GROUP, group, INTERVAL)


@story("K-337", server="disabled")
def an_operation_that_is_none(k: Stage) -> None:
    """There is no operation 9. (Kafka's controller stumbles over it for a second, so the time is left out.)"""
    resources = [config_resource(GROUP, k.name("g"), (INTERVAL, 9, "7000"))]
    answer = k.line("admin").quietly("incremental_alter_configs", 1, resources=resources)
    k.events.append({"error": answer.responses[0].error_code})
    k.pause(2000)


@story("K-337")
def blanks_around_a_number_are_no_matter(k: Stage) -> None:
    """The value is accepted and kept as it was sent."""
    group = k.name("g")
    alter_configs(k, GROUP, group, (INTERVAL, SET, " 7000 "))
    k.pause(300)
    describe_configs(k, GROUP, group, INTERVAL)


@story("K-337 K-339")
def deletes_of_what_was_never_set(k: Stage) -> None:
    """No error for a key that is not set, nor for one that is none."""
    alter_configs(k, GROUP, k.name("g"), (INTERVAL, DELETE, None))
    alter_configs(k, GROUP, k.name("g"), ("no.such.key", DELETE, None))


@story("K-337")
def a_delete_must_leave_a_longer_session(k: Stage) -> None:
    """Deleting the session would leave the broker's 45 s; deleting the interval the broker's 5 s, longer than the session."""
    group = k.name("g")
    alter_configs(k, GROUP, group, (SESSION, SET, "3000"), (INTERVAL, SET, "1000"))
    await_config(k, GROUP, group, SESSION, "3000")
    alter_configs(k, GROUP, group, (INTERVAL, DELETE, None))
    alter_configs(k, GROUP, group, (SESSION, DELETE, None))


@story("K-336")
def a_group_without_a_name_has_no_configs(k: Stage) -> None:
    """The empty name is refused in both APIs."""
    alter_configs(k, GROUP, "", (INTERVAL, SET, "7000"))
    describe_configs(k, GROUP, "")


@story("K-341 K-337")
def a_trial_changes_nothing(k: Stage) -> None:
    """With validate only, good and bad values are told apart and nothing is stored."""
    group = k.name("g")
    alter_configs(k, GROUP, group, (INTERVAL, SET, "7000"), validate_only=True)
    alter_configs(k, GROUP, group, (INTERVAL, SET, "1"), validate_only=True)
    k.pause(300)
    describe_configs(k, GROUP, group, INTERVAL)


@story("K-337")
def the_same_group_twice_in_a_request(k: Stage) -> None:
    """Each resource may be there once; another group beside it stands alone."""
    one = config_resource(GROUP, k.name("g"), (INTERVAL, SET, "7000"))
    other = config_resource(GROUP, k.name("other"), ("no.such.key", SET, "1"))
    k.line("admin").call("incremental_alter_configs", 0, resources=[one, one])
    k.line("admin").call("incremental_alter_configs", 1, resources=[one, other])


@story("K-341 K-167")
def a_session_timeout_of_its_own(k: Stage) -> None:
    """It counts from the member's next heartbeat on."""
    a = join_consumer(k, "a", k.topic())
    k.group_config(a.group, consumer_session_timeout_ms=1000, consumer_heartbeat_interval_ms=200)
    k.pause(1300)
    a.beat()
    k.pause(1500)
    a.beat()


@story("K-338 K-330")
def configs_outlive_their_group(k: Stage) -> None:
    """The group is deleted, and a new one of the same name has them."""
    a = Modern(k, "a")
    k.group_config(a.group, consumer_heartbeat_interval_ms=6000)
    a.join(k.topic())
    a.leave()
    k.line("admin").call("delete_groups", 2, groups_names=[a.group])
    a.join(k.name("t"))


@story("K-343")
def groups_with_configs_are_listed(k: Stage) -> None:
    """ListConfigResources names the groups that have configs of their own."""
    k.group_config(k.name("g1"), consumer_heartbeat_interval_ms=6000)
    k.group_config(k.name("g2"), consumer_session_timeout_ms=50_000)
    k.line("admin").call("list_config_resources", 1, mine="config_resources.resource_name", resource_types=[GROUP])


@story("K-340 K-334")
def configs_with_synonyms_and_documentation(k: Stage) -> None:
    """Asked for, the broker's key is named as a synonym, and each key has its documentation."""
    group = k.name("g")
    k.group_config(group, consumer_heartbeat_interval_ms=6000)
    describe_configs(k, GROUP, group, INTERVAL, SESSION, include_synonyms=True, include_documentation=True)
    describe_configs(k, GROUP, group, "no.such.key")
    for version in (1, 2, 3):
        describe_configs(k, GROUP, group, INTERVAL, version=version)
