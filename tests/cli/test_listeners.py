"""Listeners as an operator writes them: plain and with names, and what is advertised for each."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli import Parser
from coordinator.cli.listeners import (
    PROTOCOLS,
    Endpoint,
    Endpoints,
    OptionWords,
    read_endpoints,
    read_protocols,
    shift_ports,
)
from coordinator.cli.options import Options, read_options
from coordinator.cli.serve import add_arguments
from coordinator.cli.settings import Origin
from coordinator.setting import ConfigError

PLAIN = "IN:PLAINTEXT OUT:PLAINTEXT INSIDE:PLAINTEXT A:PLAINTEXT"


def read(listen: str, advertise: str = "", protocols: str = PLAIN, controllers: str = "") -> Endpoints:
    given = [
        OptionWords(tuple(words.split()), Origin(option))
        for words, option in ((listen, "--listen"), (advertise, "--advertise"))
    ]
    return read_endpoints(
        *given, read_protocols(OptionWords(tuple(protocols.split()), Origin("map"))), controllers.split()
    )


def advertised_by(*given: str) -> list[tuple[str, str | None]]:
    return [(one.name, one.advertised) for one in read(*given).brokers]


def test_plain_addresses_get_names() -> None:
    assert read("a:1 b:2") == Endpoints(
        (Endpoint("PLAINTEXT", "PLAINTEXT", "a:1"), Endpoint("PLAINTEXT-2", "PLAINTEXT", "b:2"))
    )


def test_names_are_in_capitals_and_a_missing_host_is_all_interfaces() -> None:
    assert read("inside://:9092").brokers == (Endpoint("INSIDE", "PLAINTEXT", ":9092"),)
    assert read("IN://[::1]:9092").brokers[0].bind == "[::1]:9092"


def test_addresses_are_advertised_by_name_or_in_order() -> None:
    assert advertised_by("IN://a:1 OUT://b:2", "OUT://c:3 IN://d:4") == [("IN", "d:4"), ("OUT", "c:3")]
    assert advertised_by("IN://a:1 OUT://b:2", "OUT://c:3") == [("IN", None), ("OUT", "c:3")]
    assert advertised_by("IN://a:1 OUT://b:2", "c:3 d:4") == [("IN", "c:3"), ("OUT", "d:4")]
    assert advertised_by("IN://a:1 OUT://b:2", "c:3") == [("IN", "c:3"), ("OUT", "c:3")]


def test_a_map_of_protocols_is_read_as_kafka_reads_it() -> None:
    words = ("In : plaintext", " OUT:SASL_SSL ", "A.b-c\t:\tSSL")
    found = read_protocols(OptionWords(words, Origin("map")))
    assert found == {"IN": "PLAINTEXT", "OUT": "SASL_SSL", "A.B-C": "SSL"}


def test_listeners_of_a_controller_are_left_out() -> None:
    images = read("PLAINTEXT://:9092 CONTROLLER://:9093", "PLAINTEXT://a:1 CONTROLLER://a:2", "")
    assert images == Endpoints((Endpoint("PLAINTEXT", "PLAINTEXT", ":9092", "a:1"),), ("CONTROLLER",))
    assert read("A://:1 QUORUM://:2", controllers="quorum").controllers == ("QUORUM",)
    brokers = read("A://:1 CONTROLLER://:2", "", f"{PLAIN} CONTROLLER:SSL", "OTHER").brokers
    assert [(one.name, one.protocol) for one in brokers] == [("A", "PLAINTEXT"), ("CONTROLLER", "SSL")]


@given(
    names=st.lists(st.sampled_from([*PROTOCOLS, "IN", "SASLSSL", "SASL-SSL", "TLS"]), min_size=1, unique=True),
    mapped=st.dictionaries(st.sampled_from([*PROTOCOLS, "IN", "SASLSSL"]), st.sampled_from(PROTOCOLS)),
)
def test_no_listener_has_a_protocol_that_nobody_has_named(names: list[str], mapped: dict[str, str]) -> None:
    """Whoever misspells SASL_SSL must not get an open door."""
    listen = " ".join(f"{name}://a:{port}" for port, name in enumerate(names, 1))
    protocols = " ".join(f"{name}:{protocol}" for name, protocol in mapped.items())
    if set(names) <= {*PROTOCOLS, *mapped}:
        for one in read(listen, protocols=protocols).brokers:
            assert one.protocol == mapped.get(one.name, one.name)
    else:
        with pytest.raises(ConfigError, match=r"has one in listener\.security\.protocol\.map"):
            read(listen, protocols=protocols)


# -- where they come from ----------------------------------------------------------------------------------------------


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Options]:
    """Read the options of `muster serve` from a command line, variables and the text of a file."""

    def read_them(*words: str, file: str = "", **variables: str) -> Options:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        path = tmp_path / "muster.toml"
        path.write_text(file)
        parser = Parser()
        add_arguments(parser)
        return read_options(parser.parse_args(["--config", str(path), *words]))

    return read_them


MAP = "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT"
IMAGE = 'listen = ["0.0.0.0:9092"]\nadvertise = "localhost:9092"\n'


def ends(options: Options) -> list[tuple[str, str, str | None]]:
    return [(one.name, one.bind, one.advertised) for one in options.endpoints]


def test_variables_take_the_place_of_what_the_images_file_says(options: Callable[..., Options]) -> None:
    assert ends(options(file=IMAGE)) == [("PLAINTEXT", "0.0.0.0:9092", "localhost:9092")]
    assert ends(options(file=IMAGE, KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:1")) == [
        ("PLAINTEXT", "0.0.0.0:9092", "kafka:1")
    ]
    assert ends(options("--advertise", "PLAINTEXT://b:3", file=IMAGE)) == [("PLAINTEXT", "0.0.0.0:9092", "b:3")]


def test_addresses_of_the_file_are_not_advertised_for_listeners_of_variables(options: Callable[..., Options]) -> None:
    assert ends(options("--set", MAP, file=IMAGE, KAFKA_LISTENERS="IN://:1, OUT://:2")) == [
        ("IN", ":1", None),
        ("OUT", ":2", None),
    ]


def test_the_node_id_has_two_names(options: Callable[..., Options]) -> None:
    assert options().config.node_id == 0
    assert options("--set", "broker.id=3").config.node_id == 3
    assert options("--set", "node.id=4").config.node_id == 4


@pytest.mark.parametrize("admin", ["0.0.0.0:1", ":1", "[::]:1", "192.0.2.1:1", "kafka:1"])
def test_the_admin_port_is_not_for_strangers_unless_that_is_meant(admin: str) -> None:
    def read(*words: str) -> Options:
        parser = Parser()
        add_arguments(parser)
        return read_options(parser.parse_args(["--admin", admin, *words]))

    with pytest.raises(
        ConfigError, match=r"invalid --admin .*: expected an address of this machine's loopback, or --admin-"
    ):
        read()
    assert read("--admin-public").admin == admin
    assert read("--admin-token-file", "token").admin_token_file == "token"


@pytest.mark.parametrize("admin", ["127.0.0.1:0", "127.1.2.3:1", "[::1]:1", "localhost:1", "off"])
def test_on_loopback_the_admin_port_needs_no_token(admin: str) -> None:
    parser = Parser()
    add_arguments(parser)
    assert read_options(parser.parse_args(["--admin", admin])).admin == (None if admin == "off" else admin)


# -- several brokers


def every_broker(options: Options) -> list[tuple[str, str | None]]:
    """Where each broker listens, and what it advertises."""
    count = len(options.config.node_ids)
    return [(one.bind, one.advertised) for n in range(count) for one in shift_ports(options.endpoints, n)]


def test_each_broker_has_the_next_port_of_each_listener(options: Callable[..., Options]) -> None:
    assert every_broker(options("--brokers", "2")) == [("127.0.0.1:9092", None), ("127.0.0.1:9093", None)]
    assert every_broker(options("--brokers", "2", "--listen", "127.0.0.1:0", "--advertise", "kafka:1")) == [
        ("127.0.0.1:0", "kafka:1"),
        ("127.0.0.1:0", "kafka:2"),
    ]
    named = ("--listen", "IN://[::1]:9092", "--listen", "OUT://:19092", "--advertise", "OUT://b:0")
    assert every_broker(options(*named, "--set", MAP, KAFKA_VIRTUAL_BROKERS="2")) == [
        ("[::1]:9092", None),
        (":19092", "b:0"),
        ("[::1]:9093", None),
        (":19093", "b:0"),
    ]


def test_the_brokers_have_ids_that_follow_each_other(options: Callable[..., Options]) -> None:
    assert options().config.node_ids == (0,)
    assert options("--set", "node.id=4", "--brokers", "3").config.node_ids == (4, 5, 6)
    assert options("--brokers", "2", "--set", "virtual.brokers=3").config.node_ids == (0, 1)
    assert options("--set", "virtual.brokers=3", file="brokers = 2").config.node_ids == (0, 1)
