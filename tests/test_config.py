"""Settings: where they come from, which are taken, and what is said of those that are not."""

import re

import pytest

from coordinator.config import (
    BY_NAME,
    KNOBS,
    Config,
    ConfigError,
    from_environment,
    from_pairs,
    from_table,
    limits,
    shown,
)
from coordinator.core.limits import Limits


def test_every_knob_accepts_its_own_default() -> None:
    for knob in KNOBS:
        assert knob.parse(shown(knob.default)) == knob.default, knob.name


def test_names_are_kafkas_and_there_once() -> None:
    assert len(BY_NAME) == len(KNOBS)
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)+", knob.name) for knob in KNOBS)


def test_a_default_that_is_not_kafkas_says_why() -> None:
    assert all(bool(knob.why) == (knob.kafka_default is not None) for knob in KNOBS)


def test_the_cores_own_defaults_are_the_knobs() -> None:
    assert limits(Config()) == Limits()


def test_limits_follow_the_config() -> None:
    made = limits(Config({"group.max.size": 3, "group.consumer.migration.policy": "upgrade"}))
    assert made.group_max_size == 3
    assert made.group_consumer_migration_policy.upgrades
    assert not made.group_consumer_migration_policy.downgrades


@pytest.mark.parametrize(
    ("pair", "complaint"),
    [
        ("group.max.size=x", "group.max.size: 'x' will not do; it may be a whole number from 1 to 2147483647"),
        ("group.max.size=0", "group.max.size: 0 will not do; it may be a whole number from 1 to 2147483647"),
        ("group.maxsize=1", "group.maxsize: no such setting; did you mean group.max.size or group.consumer.max.size?"),
        ("zzz=1", "zzz: no such setting; `muster config` lists what there is"),
        ("group.max.size", "group.max.size: has no value; write NAME=VALUE"),
        ("auto.create.topics.enable=maybe", "auto.create.topics.enable: 'maybe' will not do; it may be true or false"),
        (
            "group.consumer.migration.policy=both",
            "group.consumer.migration.policy: 'both' will not do; it may be one of bidirectional, upgrade, downgrade, disabled",
        ),
        (
            "log.cleaner.min.cleanable.ratio=2",
            "log.cleaner.min.cleanable.ratio: 2.0 will not do; it may be a number from 0 to 1",
        ),
    ],
)
def test_a_setting_that_will_not_do_is_named_in_one_line(pair: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_pairs([pair])
    assert str(error.value) == complaint


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"group.consumer.session.timeout.ms": 1_000}, "group.consumer.session.timeout.ms"),
        (
            {"group.consumer.heartbeat.interval.ms": 50_000, "group.consumer.max.heartbeat.interval.ms": 50_000},
            "group.consumer.heartbeat.interval.ms",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, int], named: str) -> None:
    """K-030."""
    with pytest.raises(ConfigError, match=f"^{re.escape(named)}: "):
        Config(values)


def test_the_environment_is_read_as_kafkas_image_reads_it() -> None:
    environment = {"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0", "KAFKA_HEAP_OPTS": "-Xmx1g", "HOME": "/"}
    assert from_environment(environment) == {"group.initial.rebalance.delay.ms": 0}
    with pytest.raises(ConfigError, match=r"^num\.partitions: 'many'"):
        from_environment({"KAFKA_NUM_PARTITIONS": "many"})


def test_a_table_may_be_dotted_or_quoted() -> None:
    assert from_table({"group": {"max": {"size": 5}}, "num.partitions": 3}) == {
        "group.max.size": 5,
        "num.partitions": 3,
    }
    assert from_table({"group.consumer.assignors": ["range"]}) == {"group.consumer.assignors": ("range",)}
    assert from_table({"num.partitions": "3"}) == {"num.partitions": 3}
    with pytest.raises(ConfigError, match=r"^num\.partitions: True"):
        from_table({"num.partitions": True})
