"""Configs of topics and brokers."""

from coordinator.core.catalog.topic_configs import BY_NAME
from tests.conformance.batches import batch
from tests.conformance.requests import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alter_configs,
    await_config,
    config_resource,
    describe_configs,
)
from tests.conformance.stage import Stage
from tests.conformance.stories.produce import produce
from tests.conformance.story import story

LIMITS = (
    "-3",
    "-2",
    "-1",
    "0",
    "0.5",
    "1",
    "2",
    "3",
    "4",
    "13",
    "14",
    "15",
    *(str(2**bits + less) for bits in (10, 20, 31, 63) for less in (-1, 0)),
    "true",
)


@story("V-007")
def a_topics_config_is_set_and_deleted(k: Stage) -> None:
    """It is shown as the topic's own, then as the default again."""
    topic = k.topic()
    describe_configs(k, TOPIC, topic, "retention.ms", "cleanup.policy")
    alter_configs(k, TOPIC, topic, ("retention.ms", SET, "12345"))
    await_config(k, TOPIC, topic, "retention.ms", "12345")
    alter_configs(k, TOPIC, topic, ("retention.ms", DELETE, None))
    await_config(k, TOPIC, topic, "retention.ms", "-1")


@story("V-007")
def every_describe_version_shows_a_config(k: Stage) -> None:
    """Versions 1 to 4; the type comes with 3, synonyms and documentation when asked for."""
    topic = k.topic(configs={"max.message.bytes": "1000"})
    for version in range(1, 5):
        describe_configs(k, TOPIC, topic, "max.message.bytes", version=version)
    describe_configs(k, TOPIC, topic, "max.message.bytes", include_synonyms=True, include_documentation=True)


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
        alter_configs(k, TOPIC, topic, (key, SET, value))


@story("V-007")
def every_config_of_a_topic_with_its_type(k: Stage) -> None:
    """Each one is shown with its type and default."""
    describe_configs(k, TOPIC, k.topic(), *sorted(BY_NAME))


@story("V-007")
def every_config_of_a_topic_at_the_limits_of_numbers(k: Stage) -> None:
    """Numbers around nought, and around those that 32 and 64 bits hold: which of them each config takes."""
    admin, topic = k.line("admin"), k.topic()
    for key in sorted(BY_NAME):
        codes = {}
        for value in LIMITS:
            resource = config_resource(TOPIC, topic, (key, SET, value))
            answer = admin.quietly("incremental_alter_configs", 1, resources=[resource], validate_only=True)
            codes[value] = answer.responses[0].error_code
        k.events.append({"key": key, "codes": codes})


@story("V-007")
def a_list_is_appended_to_and_subtracted_from(k: Stage) -> None:
    """cleanup.policy is a list; retention.ms is none."""
    topic = k.topic()
    alter_configs(k, TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
    await_config(k, TOPIC, topic, "cleanup.policy", "delete,compact")
    alter_configs(k, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
    await_config(k, TOPIC, topic, "cleanup.policy", "compact")
    alter_configs(k, TOPIC, topic, ("retention.ms", APPEND, "1"))


@story("V-007")
def changes_that_make_no_sense(k: Stage) -> None:
    """Null values, the same key twice, a topic that is not there, a nameless one, a bad name."""
    topic = k.topic()
    alter_configs(k, TOPIC, topic, ("retention.ms", SET, None))
    alter_configs(k, TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    alter_configs(k, TOPIC, k.name("none"), ("retention.ms", SET, "1"))
    alter_configs(k, TOPIC, "", ("retention.ms", SET, "1"))
    alter_configs(k, TOPIC, "a/b", ("retention.ms", SET, "1"))
    alter_configs(k, 77, topic, ("retention.ms", SET, "1"))


@story("V-007")
def a_trial_of_a_topics_config(k: Stage) -> None:
    """Good and bad are told apart, nothing is kept."""
    topic = k.topic()
    alter_configs(k, TOPIC, topic, ("retention.ms", SET, "5"), validate_only=True)
    alter_configs(k, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
    k.pause(200)
    describe_configs(k, TOPIC, topic, "retention.ms")


@story("V-007")
def configs_of_what_is_not_there(k: Stage) -> None:
    """An unknown topic, a bad name, another broker, a resource type that has none."""
    describe_configs(k, TOPIC, k.name("none"), "retention.ms")
    describe_configs(k, TOPIC, "a/b", "retention.ms")
    describe_configs(k, BROKER, "99", "log.retention.ms")
    describe_configs(k, BROKER, "one", "log.retention.ms")
    describe_configs(k, 77, "x", "y")


@story("V-007")
def the_brokers_own_settings(k: Stage) -> None:
    """What was set at start is shown with its source; defaults as defaults; unknown keys are left out."""
    keys = ("group.initial.rebalance.delay.ms", "group.max.size", "offsets.retention.minutes", "no.such.key")
    describe_configs(k, BROKER, "0", *keys)
    describe_configs(k, BROKER, "0", "group.initial.rebalance.delay.ms", include_synonyms=True)
    describe_configs(k, BROKER, "", "group.max.size")


@story("V-007")
def a_topics_default_comes_from_the_broker(k: Stage) -> None:
    """With synonyms asked for the broker's key is named."""
    describe_configs(k, TOPIC, k.topic(), "max.message.bytes", include_synonyms=True)


@story("V-007")
def where_the_values_of_a_setting_come_from(k: Stage) -> None:
    """Of a topic, of the broker and of all brokers, before and after each of them is set. Those in milliseconds have no
    default of their own."""
    keys = {"segment.ms": "log.roll.ms", "segment.jitter.ms": "log.roll.jitter.ms", "flush.ms": "log.flush.interval.ms"}
    keys |= {"segment.index.bytes": "log.index.size.max.bytes"}
    topic = k.topic()
    places: list[tuple[int, str, str]] = [(TOPIC, topic, "7000"), (BROKER, "", "8000"), (BROKER, "0", "9000")]
    show_configs(k, TOPIC, topic, *keys)
    for operation in (SET, DELETE):
        for kind, name, value in places:
            known = keys if kind == TOPIC else keys.values()
            alter_configs(k, kind, name, *((key, operation, value if operation == SET else None) for key in known))
            k.pause(300)
            for other, one, _ in places:
                show_configs(k, other, one, *(keys if other == TOPIC else keys.values()))


@story("V-007")
def what_nobody_has_set(k: Stage) -> None:
    """Words that are none are null, secrets as well; where there is a default, it is shown."""
    stores = ("location", "password", "certificates", "certificate.chain", "key")
    of_tls = [f"ssl.{store}.{what}" for store in ("keystore", "truststore") for what in stores]
    of_sasl = ("sasl.jaas.config", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.expected.issuer")
    others = ("authorizer.class.name", "max.connections.per.ip.overrides", "ssl.client.auth", "ssl.key.password")
    show_configs(k, BROKER, "0", *of_tls, *of_sasl, *others)


def show_configs(k: Stage, kind: int, name: str, *keys: str) -> None:
    """Write down what these configs of a resource are, in the order of their names, and where that comes from."""
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    answer = k.line("admin").quietly("describe_configs", 4, resources=[wanted], include_synonyms=True)
    shown = {
        config.name: {
            "value": config.value,
            "source": config.config_source,
            "is_sensitive": config.is_sensitive,
            "synonyms": [f"{one.source}: {one.name}={one.value}" for one in config.synonyms],
        }
        for config in sorted(answer.results[0].configs, key=lambda config: str(config.name))
    }
    k.events.append({"resource": kind, "of": "all" if not name else "one", "shown": shown})


@story("V-007")
def a_change_counts_for_the_next_record(k: Stage) -> None:
    """max.message.bytes is lowered: a batch that was fine before is too large now."""
    topic = k.topic()
    produce(k.line("p"), topic, batch(b"x" * 300))
    alter_configs(k, TOPIC, topic, ("max.message.bytes", SET, "100"))
    await_config(k, TOPIC, topic, "max.message.bytes", "100")
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
    resources = [config_resource(TOPIC, name, ("retention.ms", SET, "7")) for name in (good, bad)]
    k.line("admin").call("incremental_alter_configs", 0, resources=resources)
    await_config(k, TOPIC, good, "retention.ms", "7")


@story("V-007")
def a_resource_of_no_type_among_others(k: Stage) -> None:
    """Nothing is described; changes of the others are made, and an operation that there is not is told behind the type."""
    name = k.topic()
    wanted = {"configuration_keys": ["retention.ms"]}
    nothing = {"resource_type": 3, "resource_name": "x"}
    for version in (1, 4):
        resources = [{"resource_type": TOPIC, "resource_name": name, **wanted}, {**nothing, **wanted}]
        k.line("admin").call("describe_configs", version, resources=resources)
    for operation in (0, 1, 2, 9):
        change = {"name": "retention.ms", "config_operation": operation, "value": "1000"}
        topic = {"resource_type": TOPIC, "resource_name": name, "configs": [{**change, "config_operation": 0}]}
        resources = [{**nothing, "configs": [change]}, topic]
        k.line("admin").call("incremental_alter_configs", 1, resources=resources, validate_only=False)


@story("V-007")
def values_are_shown_as_they_are_read(k: Stage) -> None:
    """What a client writes around a number, a word, a list or a truth is left out, when it is created and when it is
    set."""
    topic = k.topic(configs={"cleanup.policy": " compact , delete ,compact", "segment.ms": " 0099999 "})
    describe_configs(k, TOPIC, topic, "cleanup.policy", "segment.ms", include_synonyms=True)
    for key, value in (
        ("retention.ms", "+5"),
        ("message.timestamp.type", " LogAppendTime "),
        ("preallocate", " True "),
        ("min.cleanable.dirty.ratio", " 1"),
        ("min.cleanable.dirty.ratio", "12.50e-5f"),
        ("min.cleanable.dirty.ratio", ".0010"),
        ("leader.replication.throttled.replicas", "0:1, 1:1,0:1"),
    ):
        alter_configs(k, TOPIC, topic, (key, SET, value))
        k.pause(200)
        describe_configs(k, TOPIC, topic, key, include_synonyms=True)


@story("V-007")
def the_least_in_sync_replicas_of_brokers(k: Stage) -> None:
    """They are set for all of them, and stay set."""
    for broker in ("0", ""):
        for value in ("2", "x"):
            alter_configs(k, BROKER, broker, ("min.insync.replicas", SET, value), validate_only=True)
    for broker in ("0", ""):
        for is_trial in (True, False):
            alter_configs(k, BROKER, broker, ("min.insync.replicas", DELETE, None), validate_only=is_trial)
    alter_configs(k, BROKER, "0", ("log.segment.bytes", DELETE, None), ("min.insync.replicas", DELETE, None))
    for broker in ("0", ""):
        for configs in ([], [{"name": "min.insync.replicas", "value": "1"}]):
            resource = {"resource_type": BROKER, "resource_name": broker, "configs": configs}
            k.line("admin").call("alter_configs", 2, resources=[resource], validate_only=True)
    describe_configs(k, BROKER, "", "min.insync.replicas", include_synonyms=True)
