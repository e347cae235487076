"""`--fast`, which `--ephemeral` implies: the intervals of groups, and what goes before them."""

import pytest

from coordinator.cli.fast import fast_settings
from coordinator.cli.options import read_options
from coordinator.cli.parser import Parser
from coordinator.cli.serve import add_arguments
from coordinator.config import BY_NAME, Config

BEAT, LEAST = "group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"
GAP = "group.consumer.assignment.interval.ms"


def config_of(*words: str) -> Config:
    parser = Parser()
    add_arguments(parser)
    return read_options(parser.parse_args(words)).config


@pytest.mark.parametrize("words", [["--ephemeral"], ["--fast"], ["--fast", "--data-dir", "d"]])
def test_members_are_told_to_ask_often(words: list[str]) -> None:
    config = config_of(*words)
    assert {name: config[name] for name, _ in fast_settings()} == dict(fast_settings())
    assert (config[BEAT], config[LEAST], config[GAP]) == (100, 100, 0)
    assert config.source(BEAT) == "--fast"


@pytest.mark.parametrize("words", [[], ["--data-dir", "d"], ["--ephemeral", "--no-fast"]])
def test_otherwise_the_intervals_are_those_of_kafka(words: list[str]) -> None:
    assert all(config_of(*words)[name] == BY_NAME[name].default for name, _ in fast_settings())


@pytest.mark.parametrize("setting", [f"{BEAT}=7000", f"{LEAST}=5000", "group.consumer.max.heartbeat.interval.ms=6000"])
def test_an_interval_or_a_bound_that_is_set_is_not_contradicted(setting: str) -> None:
    name, _, value = setting.partition("=")
    config = config_of("--ephemeral", "--set", setting)
    assert config[name] == int(value)
    assert config[LEAST] == 5000
    assert config[GAP] == 0


def test_every_kind_of_group_that_is_told_an_interval_has_a_fast_one() -> None:
    intervals = {name for name in BY_NAME if name.endswith(".heartbeat.interval.ms") and ".max." not in name}
    assert intervals <= {name for name, _ in fast_settings()}
