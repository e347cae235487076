"""Settings: where they come from, which are taken, and what is said of those that are not."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli import main
from coordinator.config import (
    BY_NAME,
    OF_LISTENER,
    PER_LISTENER,
    SETTINGS,
    Config,
    explain_no_effect,
    find_setting,
    limits,
    read_overrides,
)
from coordinator.config_layers import Layer, read_environment, read_pairs, read_table
from coordinator.core.limits import Limits
from coordinator.kafka_settings import INSTEAD, NAMES
from coordinator.setting import ConfigError, format_value


def test_every_knob_accepts_its_own_default() -> None:
    for setting in SETTINGS:
        assert setting.parse(format_value(setting.default)) == setting.default, setting.name


def test_units_are_words() -> None:
    assert {setting.unit for setting in SETTINGS} == {"", "ms", "s", "minutes", "bytes", "per second"}


def test_names_are_kafkas_and_there_once() -> None:
    assert len(BY_NAME) == len(SETTINGS)
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)*", setting.name) for setting in SETTINGS)


def test_a_default_that_is_not_kafkas_says_why() -> None:
    assert all(bool(setting.why) == (setting.kafka_default is not None) for setting in SETTINGS)


def test_the_cores_own_defaults_are_the_knobs() -> None:
    assert limits(Config()) == Limits()


def test_limits_follow_the_config() -> None:
    made = limits(Config({"group.max.size": 3, "group.consumer.migration.policy": "upgrade"}))
    assert made.group_max_size == 3
    assert made.group_consumer_migration_policy.upgrades
    assert not made.group_consumer_migration_policy.downgrades


@pytest.mark.rule("K-030 K-332")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"group.consumer.session.timeout.ms": 1_000}, "group.consumer.session.timeout.ms"),
        (
            {"group.consumer.heartbeat.interval.ms": 50_000, "group.consumer.max.heartbeat.interval.ms": 50_000},
            "group.consumer.heartbeat.interval.ms",
        ),
        ({"group.share.record.lock.duration.ms": 1_000}, "group.share.record.lock.duration.ms"),
        (
            {"group.share.delivery.count.limit": 2, "group.share.min.delivery.count.limit": 3},
            "group.share.delivery.count.limit",
        ),
        ({"group.share.max.share.sessions": 199}, "group.share.max.share.sessions"),
        ({"group.share.assignors": ("other",)}, "group.share.assignors"),
        ({"group.coordinator.rebalance.protocols": ("consumer",)}, "group.coordinator.rebalance.protocols"),
        ({"group.streams.session.timeout.ms": 1_000}, "group.streams.session.timeout.ms"),
        ({"group.streams.assignment.interval.ms": 20_000}, "group.streams.assignment.interval.ms"),
        ({"group.streams.num.standby.replicas": 3}, "group.streams.num.standby.replicas"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^invalid {re.escape(named)} "):
        Config(values)


def test_the_environment_is_read_as_kafkas_image_reads_it() -> None:
    environment = {"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0", "KAFKA_HEAP_OPTS": "-Xmx1g", "HOME": "/"}
    layer = read_environment(environment)
    assert layer.values == {"group.initial.rebalance.delay.ms": 0}
    assert layer.sources == {"group.initial.rebalance.delay.ms": "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS"}
    assert layer.ignored == {}
    with pytest.raises(ConfigError, match=r"^invalid num\.partitions 'many' \(KAFKA_NUM_PARTITIONS\): expected "):
        read_environment({"KAFKA_NUM_PARTITIONS": "many"})


@pytest.mark.parametrize(
    ("listener", "written"),
    [("in", "IN"), ("sasl_ssl", "SASL__SSL"), ("a-b", "A___B"), ("a.b", "A_B"), ("x_1-2.3", "X__1___2_3")],
)
def test_a_variable_gives_a_listener_a_value_of_its_own(listener: str, written: str) -> None:
    """As for any setting, `_` stands for `.`; two of them stand for an underscore, three for a dash."""
    for known in PER_LISTENER:
        text = "4096" if isinstance(BY_NAME[known].default, int) else format_value(BY_NAME[known].default)
        variable = f"KAFKA_LISTENER_NAME_{written}_{known.upper().replace('.', '_')}"
        name = f"{OF_LISTENER}{listener}.{known}"
        layer = read_environment({variable: text, "KAFKA_LISTENER_NAME_IN_NOTHING": "x"})
        assert layer.values == {name: BY_NAME[known].parse(text)}
        assert layer.sources == {name: variable}
        assert read_pairs([f"{name}={text}"]).values == layer.values
        for nobody in ("", "_"):
            nameless = f"KAFKA_LISTENER_NAME_{nobody}{known.upper().replace('.', '_')}"
            assert read_environment({nameless: text}).values == {}


def test_a_listener_may_have_several_values_of_its_own() -> None:
    """They are told after all others, in the order in which they were given, and name the setting that they are of."""
    own = {"listener.name.out.ssl.client.auth": "none", "listener.name.in.ssl.client.auth": "required"}
    config = Config({"num.partitions": 3, **own, "group.max.size": 5, "listener.name.in.ssl.key.password": "x"})
    told = [(setting.name, value, setting.default) for setting, value in config.items_of_listeners()]
    assert told == [
        *((name, value, "none") for name, value in own.items()),
        ("listener.name.in.ssl.key.password", "x", ""),
    ]


REAUTHENTICATION = "connections.max.reauth.ms"
OWN = [
    f"{OF_LISTENER}{listener}.{mechanism}"
    for listener in ("in", "out")
    for mechanism in ("", "plain.", "scram-sha-256.")
]


@given(st.dictionaries(st.sampled_from(["", *OWN]), st.integers(1, 9)))
def test_of_the_names_of_a_setting_of_a_listener_the_most_precise_one_counts(given_by: dict[str, int]) -> None:
    config = Config({f"{name}{REAUTHENTICATION}": value for name, value in given_by.items()})
    for listener, mechanism in product(("IN", "OUT"), ("", "PLAIN", "SCRAM-SHA-256")):
        wide = f"{OF_LISTENER}{listener.lower()}."
        names = [f"{wide}{mechanism.lower()}.", wide, ""] if mechanism else [wide, ""]
        expected = next((given_by[name] for name in names if name in given_by), BY_NAME[REAUTHENTICATION].default)
        assert config.of_listener(listener, REAUTHENTICATION, mechanism) == expected
        assert config.lookup(f"{names[0]}{REAUTHENTICATION}") == expected


VALUES = st.dictionaries(
    st.sampled_from(("num.partitions", "group.max.size", "group.min.session.timeout.ms")), st.integers(1, 9)
)


@given(VALUES, VALUES, VALUES)
def test_what_is_set_goes_before_what_is_preset(
    given_by: dict[str, int], preset: dict[str, int], changed: dict[str, int]
) -> None:
    """And an override before both."""
    config = Config(given_by, dict.fromkeys(given_by, "--set")).preset(preset, "--fast")
    for name in ("num.partitions", "group.max.size", "group.min.session.timeout.ms"):
        expected = [(one[name], source) for one, source in ((given_by, "--set"), (preset, "--fast")) if name in one]
        value, source = (*expected, (BY_NAME[name].default, ""))[0]
        assert (config[name], config.source(name), config.is_set(name)) == (value, source, bool(expected))
        assert config.override(changed)[name] == changed.get(name, value)


@pytest.mark.parametrize(
    "name", ["listener.name.in.ssl.cipher.suites", "listener.name.in.plain.sasl.server.callback.handler.class"]
)
def test_what_kafka_has_for_a_listener_may_have_no_effect_here(name: str) -> None:
    assert read_pairs([f"{name}=x"]) == Layer({}, {}, {name: "--set"})


@pytest.mark.parametrize("name", ["listener.name.in.nothing", "listener.name.ssl.client.auth", "listener.name.in"])
def test_what_nobody_has_for_a_listener_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"unknown setting {name}")):
        read_pairs([f"{name}=x"])


@pytest.mark.parametrize(
    ("pair", "read"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:2147483647", ("::1", 2**31 - 1)),
        ("::1:5", ("::1", 5)),
        (" 127.0.0.1 : 5 ", ("127.0.0.1", 5)),
        ("127.0.0.1:2147483648", None),
        ("127.0.0.1:-1", None),
        ("127.0.0.1:1_0", None),
        ("127.0.0.1:x", None),
        ("127.0.0.1:", None),
        ("127.0.0.1", None),
        ("host:5", None),
    ],
)
def test_an_address_may_have_a_number_of_connections_of_its_own(pair: str, read: tuple[str, int] | None) -> None:
    others = ("10.0.0.1:1", "10.0.0.2:2")
    if read is not None:
        assert list(read_overrides((others[0], pair, others[1]))) == [("10.0.0.1", 1), read, ("10.0.0.2", 2)]
        return
    with pytest.raises(ConfigError, match=re.escape(f"invalid max.connections.per.ip.overrides '{pair}'")):
        Config({"max.connections.per.ip.overrides": (*others, pair)})


@pytest.mark.parametrize(
    ("values", "node_id"),
    [
        ({}, 0),
        ({"broker.id": 0}, 0),
        ({"broker.id": 3}, 3),
        ({"broker.id": -1, "node.id": 2}, 2),
        ({"broker.id": 2, "node.id": 2}, 2),
        ({"broker.id": -1}, 0),
    ],
)
def test_the_broker_s_id_has_two_names(values: dict[str, Any], node_id: int) -> None:
    assert Config({**values, "virtual.brokers": 3}).node_ids == (node_id, node_id + 1, node_id + 2)


@pytest.mark.parametrize(
    ("values", "is_refused"),
    [
        ({"group.consumer.session.timeout.ms": 45_000, "group.consumer.heartbeat.interval.ms": 15_000}, False),
        (
            {
                "group.consumer.min.session.timeout.ms": 10_000,
                "group.consumer.session.timeout.ms": 15_000,
                "group.consumer.heartbeat.interval.ms": 15_000,
            },
            True,
        ),
        ({"group.streams.num.standby.replicas": 2, "group.streams.max.standby.replicas": 2}, False),
        ({"group.share.max.share.sessions": 200, "group.share.max.size": 200}, False),
        ({"node.id": 2**31 - 2, "virtual.brokers": 2}, False),
        ({"node.id": 2**31 - 2, "virtual.brokers": 3}, True),
    ],
)
def test_exactly_at_a_bound_settings_agree_or_not(values: dict[str, Any], is_refused: bool) -> None:
    if not is_refused:
        Config(values)
        return
    with pytest.raises(ConfigError, match=r"^invalid "):
        Config(values)


def test_a_setting_of_kafka_that_has_no_effect_is_accepted_and_reported() -> None:
    assert read_pairs(["log.cleaner.threads=2"]) == Layer({}, {}, {"log.cleaner.threads": "--set"})
    assert read_environment({"KAFKA_ZOOKEEPER_CONNECT": "x", "KAFKA_LOG_DIRS": "/data"}).ignored == {
        "log.dirs": "KAFKA_LOG_DIRS"
    }, "Kafka 4 has no ZooKeeper"
    with pytest.raises(ConfigError, match=r"^log\.dirs has no effect: use --data-dir$"):
        find_setting("log.dirs")
    assert explain_no_effect("log.cleaner.threads", "--set") == (
        "log.cleaner.threads (--set) has no effect: Muster does not use this setting of Kafka"
    )
    assert INSTEAD.keys() <= NAMES
    assert {name for name in INSTEAD.values() if not name.startswith("--")} <= BY_NAME.keys()


def test_a_table_may_be_dotted_or_quoted() -> None:
    assert read_table({"group": {"max": {"size": 5}}, "num.partitions": 3}).values == {
        "group.max.size": 5,
        "num.partitions": 3,
    }
    assert read_table({"group.consumer.assignors": ["range"]}).values == {"group.consumer.assignors": ("range",)}
    assert read_table({"num.partitions": "3"}).values == {"num.partitions": 3}
    with pytest.raises(ConfigError, match=r"^invalid num\.partitions true \(m\.toml, line 3\): expected "):
        read_table({"num.partitions": True}, lambda name: "m.toml, line 3")
    for once, again in (
        ("group.max.size", "group.max.size"),
        ("listener.name.IN.ssl.client.auth", "listener.name.in.ssl.client.auth"),
    ):
        dotted, _, last = once.rpartition(".")
        value = 5 if last == "size" else "none"
        with pytest.raises(
            ConfigError, match=rf"^invalid {again} \(m\.toml\): expected one value, and there is another"
        ):
            read_table({dotted: {last: value}, again: value}, lambda name: "m.toml")
    with pytest.raises(ConfigError, match=r"^invalid group\.consumer\.assignors \[1\]: expected a list of words"):
        read_table({"group.consumer.assignors": [1]})
    with pytest.raises(
        ConfigError, match=r"^invalid log\.cleaner\.min\.cleanable\.ratio nan: expected a number from 0"
    ):
        read_table({"log.cleaner.min.cleanable.ratio": float("nan")})


def test_a_file_that_is_nested_without_end_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("a = " + "[" * 5_000)
    assert main(["config", "--config", str(file)]) == 2
    assert capsys.readouterr().err == f"muster config: invalid {file}: expected TOML that is nested less deeply\n"


@pytest.mark.parametrize("text", ["1_0", "１", "0x1", "1e1", "1.0", "", "+", "9" * 5_000])
def test_a_whole_number_has_digits_and_nothing_else(text: str) -> None:
    """Python's `int` takes the first two."""
    with pytest.raises(ConfigError, match=r"^invalid num\.partitions "):
        read_pairs([f"num.partitions={text}"])


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "0.5x", ".", "1e", "2"])
def test_a_number_is_finite_and_within_its_bounds(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^invalid log\.cleaner\.min\.cleanable\.ratio "):
        read_pairs([f"log.cleaner.min.cleanable.ratio={text}"])
    assert read_pairs(["log.cleaner.min.cleanable.ratio=5e-1"]).values == {"log.cleaner.min.cleanable.ratio": 0.5}


def test_of_two_layers_the_upper_one_counts() -> None:
    lower, upper = read_pairs(["num.partitions=1", "group.max.size=2"]), read_environment({"KAFKA_NUM_PARTITIONS": "3"})
    both = upper.over(lower)
    assert both.values == {"num.partitions": 3, "group.max.size": 2}
    assert both.sources == {"num.partitions": "KAFKA_NUM_PARTITIONS", "group.max.size": "--set"}
    config = Config(both.values, both.sources)
    assert (config.source("num.partitions"), config.source("num.network.threads")) == ("KAFKA_NUM_PARTITIONS", "")


def test_what_was_given_is_told_without_secrets() -> None:
    """A journal has it, which is made to be handed on."""
    jaas = "listener.name.in.plain.sasl.jaas.config"
    config = Config({"group.max.size": 5, "sasl.jaas.config": "x", jaas: "y", "ssl.key.password": "z"})
    assert config.given() == {"group.max.size": 5}


def test_a_variable_that_is_nearly_a_setting_is_suspicious() -> None:
    layer = read_environment({
        "KAFKA_GRUOP_MAX_SIZE": "3", "KAFKA_GROUP_MAX_SIZE": "4", "KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_OPTS": "",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO", "KAFKA_JVM_PERFORMANCE_OPTS": "", "KAFKA_VERSION": "4", "KAFKA_JMX_PORT": "1",
    })  # fmt: skip
    assert layer.values == {"group.max.size": 4}
    assert layer.suspects == {"KAFKA_GRUOP_MAX_SIZE": "KAFKA_GROUP_MAX_SIZE"}
