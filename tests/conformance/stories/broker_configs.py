"""Configs of topics and brokers."""

from typing import Any

from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(
    k: Stage, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1, **values: Any
) -> Answer:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return k.line("admin").call("incremental_alter_configs", version, **{"resources": resources, **values})


def shown(k: Stage, kind: int, name: str, *keys: str, version: int = 4, **values: Any) -> Answer:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    return k.line("admin").call("describe_configs", version, resources=[resource], **values)


def until_set(k: Stage, name: str, key: str, value: str) -> Answer:
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": [key]}
    return k.line("admin").eventually(
        "describe_configs", 4, lambda answer: bool(answer.results[0].configs[0].value == value), resources=[resource]
    )


@story("V-007")
def a_topics_config_is_set_and_deleted(k: Stage) -> None:
    """It is shown as the topic's own, then as the default again."""
    topic = k.topic()
    shown(k, TOPIC, topic, "retention.ms", "cleanup.policy")
    alter(k, TOPIC, topic, ("retention.ms", SET, "12345"))
    until_set(k, topic, "retention.ms", "12345")
    alter(k, TOPIC, topic, ("retention.ms", DELETE, None))
    until_set(k, topic, "retention.ms", "-1")


@story("V-007")
def every_describe_version_shows_a_config(k: Stage) -> None:
    """Versions 1 to 4; the type comes with 3, synonyms and documentation when asked for."""
    topic = k.topic(configs={"max.message.bytes": "1000"})
    for version in range(1, 5):
        shown(k, TOPIC, topic, "max.message.bytes", version=version)
    shown(k, TOPIC, topic, "max.message.bytes", include_synonyms=True, include_documentation=True)


@story("V-007")
def values_that_a_topic_cannot_have(k: Stage) -> None:
    """Unknown keys, no number, out of bounds, no such policy."""
    topic = k.topic()
    for key, value in (
        ("no.such.key", "1"),
        ("retention.ms", "long"),
        ("max.message.bytes", "-1"),
        ("cleanup.policy", "burn"),
        ("compression.type", "rar"),
        ("min.insync.replicas", "0"),
    ):
        alter(k, TOPIC, topic, (key, SET, value))


@story("V-007")
def a_list_is_appended_to_and_subtracted_from(k: Stage) -> None:
    """cleanup.policy is a list; retention.ms is none."""
    topic = k.topic()
    alter(k, TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
    until_set(k, topic, "cleanup.policy", "delete,compact")
    alter(k, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
    until_set(k, topic, "cleanup.policy", "compact")
    alter(k, TOPIC, topic, ("retention.ms", APPEND, "1"))


@story("V-007")
def changes_that_make_no_sense(k: Stage) -> None:
    """Null values, the same key twice, a topic that is not there, a nameless one, a bad name."""
    topic = k.topic()
    alter(k, TOPIC, topic, ("retention.ms", SET, None))
    alter(k, TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    alter(k, TOPIC, k.name("none"), ("retention.ms", SET, "1"))
    alter(k, TOPIC, "", ("retention.ms", SET, "1"))
    alter(k, TOPIC, "a/b", ("retention.ms", SET, "1"))
    alter(k, 77, topic, ("retention.ms", SET, "1"))


@story("V-007")
def a_trial_of_a_topics_config(k: Stage) -> None:
    """Good and bad are told apart, nothing is kept."""
    topic = k.topic()
    alter(k, TOPIC, topic, ("retention.ms", SET, "5"), validate_only=True)
    alter(k, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
    k.pause(200)
    shown(k, TOPIC, topic, "retention.ms")


@story("V-007")
def configs_of_what_is_not_there(k: Stage) -> None:
    """An unknown topic, a bad name, another broker, a resource type that has none."""
    shown(k, TOPIC, k.name("none"), "retention.ms")
    shown(k, TOPIC, "a/b", "retention.ms")
    shown(k, BROKER, "99", "log.retention.ms")
    shown(k, BROKER, "one", "log.retention.ms")
    shown(k, 77, "x", "y")


@story("V-007")
def the_brokers_own_settings(k: Stage) -> None:
    """What was set at start is shown with its source; defaults as defaults; unknown keys are left out."""
    keys = ("group.initial.rebalance.delay.ms", "group.max.size", "offsets.retention.minutes", "no.such.key")
    shown(k, BROKER, "0", *keys)
    shown(k, BROKER, "0", "group.initial.rebalance.delay.ms", include_synonyms=True)
    shown(k, BROKER, "", "group.max.size")


@story("V-007")
def a_topics_default_comes_from_the_broker(k: Stage) -> None:
    """With synonyms asked for the broker's key is named."""
    shown(k, TOPIC, k.topic(), "max.message.bytes", include_synonyms=True)


@story("V-007")
def a_change_counts_for_the_next_record(k: Stage) -> None:
    """max.message.bytes is lowered: a batch that was fine before is too large now."""
    from tests.conformance.batches import batch
    from tests.conformance.stories.produce import produce

    topic = k.topic()
    produce(k.line("p"), topic, batch(b"x" * 300))
    alter(k, TOPIC, topic, ("max.message.bytes", SET, "100"))
    until_set(k, topic, "max.message.bytes", "100")
    k.pause(300)
    produce(k.line("p"), topic, batch(b"x" * 300))


@story("K-343")
def resources_with_configs_are_listed(k: Stage) -> None:
    """Topics are listed in version 1; version 0 knows only client metrics."""
    k.topic(configs={"retention.ms": "5"})
    admin = k.line("admin")
    admin.call("list_config_resources", 1, mine="config_resources.resource_name", resource_types=[TOPIC])
    admin.call("list_config_resources", 0)
    admin.call("list_config_resources", 1, resource_types=[77])


@story("V-007")
def several_resources_stand_alone(k: Stage) -> None:
    """One that fails does not hurt the other."""
    good, bad = k.topic("good"), k.name("bad")
    resources = [
        {
            "resource_type": TOPIC,
            "resource_name": name,
            "configs": [{"name": "retention.ms", "config_operation": SET, "value": "7"}],
        }
        for name in (good, bad)
    ]
    k.line("admin").call("incremental_alter_configs", 0, resources=resources)
    until_set(k, good, "retention.ms", "7")
