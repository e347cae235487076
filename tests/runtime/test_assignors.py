"""Assignors that other packages install: found by name, asked like Kafka's, refused at the start if they are not there."""

import sys
from itertools import product
from pathlib import Path

import pytest

from coordinator.config import Config
from coordinator.config_layers import read_pairs
from coordinator.core.assignors import BUILT_IN
from coordinator.runtime import assignors
from coordinator.setting import ConfigError
from protocol.errors import ErrorCode
from tests.members import ConsumerMember
from tests.server.in_memory import InMemory

SOURCE = """
def first_takes_all(spec):
    first = min(spec.members)
    return {first: {topic: tuple(range(count)) for topic, count in spec.partition_counts.items()}}

def out_of_order(spec):
    raise ValueError("no batteries")

NO_FUNCTION = "range"
"""
POINTS = """[muster.assignors]
first = third_party:first_takes_all
broken = third_party:out_of_order
text = third_party:NO_FUNCTION
gone = third_party:nothing_of_that_name
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with assignors is installed: its module, and what pip writes beside it."""
    (tmp_path / "third_party.py").write_text(SOURCE)
    facts = tmp_path / "third_party-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "third_party", raising=False)


def heartbeat(server: InMemory, member_id: str, assignor: str | None = None) -> tuple[int, set[int]]:
    """The error and the partitions that a new member hears of."""
    answer = ConsumerMember(server.connect(member_id), member_id).beat(server_assignor=assignor)
    owned = answer.assignment.topic_partitions if answer.assignment else ()
    return answer.error_code, {partition for topic in owned for partition in topic.partitions}


@pytest.mark.rule("K-187")
def test_a_third_assignor_is_voted_for_and_assigns() -> None:
    """Named in the setting, asked for by members, chosen by their votes."""
    server = InMemory(group_consumer_assignors=("uniform", "first"), group_consumer_assignment_interval_ms=0)
    assert heartbeat(server, "a", "first") == (ErrorCode.NONE, {0, 1, 2, 3})
    assert heartbeat(server, "b", "first") == (ErrorCode.NONE, set()), "uniform would give it two"


def test_an_assignor_that_fails_fails_the_heartbeat_and_nothing_else() -> None:
    server = InMemory(group_consumer_assignors=("uniform", "broken"), group_consumer_assignment_interval_ms=0)
    assert heartbeat(server, "a", "broken") == (ErrorCode.UNKNOWN_SERVER_ERROR, set())
    assert heartbeat(server, "a") == (ErrorCode.NONE, {0, 1, 2, 3})


def test_the_setting_s_order_is_kept_and_kafka_s_two_need_no_package() -> None:
    assert list(assignors.load_assignors(("range", "first", "uniform"))) == ["range", "first", "uniform"]
    assert assignors.load_assignors(("uniform", "range")) == BUILT_IN


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_kafka_s_assignors_may_be_named_by_their_classes(kind: str) -> None:
    """As Kafka 3.9 named them by default."""
    package = "org.apache.kafka.coordinator.group.assignor"
    words = {"consumer": ("Range", "Uniform"), "share": ("Simple",)}[kind]
    setting = f"group.{kind}.assignors"
    config = read_pairs([f"{setting}={' , '.join(f'{package}.{word}Assignor' for word in words)}"])
    named = Config(config.values)[setting]
    if kind == "consumer":
        assert assignors.load_assignors(named) == {"range": BUILT_IN["range"], "uniform": BUILT_IN["uniform"]}
        assert list(assignors.load_assignors(named)) == ["range", "uniform"]


@pytest.mark.parametrize(
    "written", [*product(("{}", "org.apache.kafka.coordinator.group.assignor.{}Assignor"), repeat=2)]
)
@pytest.mark.parametrize("named", [("range",), ("uniform", "range"), ("range", "range"), ("uniform", "first")])
def test_members_ask_for_an_assignor_by_its_name_however_the_setting_names_it(
    named: tuple[str, ...], written: tuple[str, str]
) -> None:
    forms = ["{}" if name == "first" else form for name, form in zip(named, written, strict=False)]
    names = [form.format(name if form == "{}" else name.capitalize()) for name, form in zip(named, forms, strict=True)]
    server = InMemory(group_consumer_assignors=tuple(names), group_consumer_assignment_interval_ms=0)
    assert heartbeat(server, "any") == (ErrorCode.NONE, {0, 1, 2, 3}), "the first one is that of who asks for none"
    for asked in ("uniform", "range", "first", *(name for name in names if name not in named)):
        error, _ = heartbeat(server, "of another", asked)
        assert error == (ErrorCode.NONE if asked in named else ErrorCode.UNSUPPORTED_ASSIGNOR), asked


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "^invalid group.consumer.assignors: expected uniform, range or an installed assignor$"),
        (
            ("unifrom",),
            "^invalid group.consumer.assignors 'unifrom': expected one of broken, first, gone, range, text, uniform$",
        ),
        (("gone",), "cannot load"),
        (("text",), "is not a function"),
    ],
)
def test_what_cannot_be_had_stops_the_server(names: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        InMemory(group_consumer_assignors=names)
