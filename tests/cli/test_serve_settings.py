"""What the server process hands on of its settings and options: each is seen by what it changes."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from coordinator.client import Client, ClientError
from protocol.codec import encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.record_batch import encode
from protocol.records import Record
from tests.live import WAIT_SECONDS, Muster, wait_until
from tests.requests import fetch, join, produce
from tests.server.sasl_clients import plain

MEBIBYTE = 1 << 20
EVENTS_BYTES = 65_536
CONNECTIONS = 10
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A server that bounds what it can as narrowly as it may. It looks every few seconds who is to be let go."""
    folder = tmp_path_factory.mktemp("server")
    users = folder / "users"
    users.write_text("alice:secret\n")
    settings = {
        "sasl.users.file": users,
        "connections.max.parked.ms": 1,
        "connections.max.authentication.ms": 1,
        "connection.failed.authentication.delay.ms": 60_000,
        "queued.max.request.bytes": MEBIBYTE,
        "queued.max.response.bytes": MEBIBYTE,
        "events.max.bytes": EVENTS_BYTES,
        "max.connections.per.ip": CONNECTIONS,
        "group.initial.rebalance.delay.ms": 60_000,
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    words += [word for name in ("PLAINTEXT", "SASL_PLAINTEXT") for word in ("--listen", f"{name}://127.0.0.1:0")]
    with Muster(folder, "--ephemeral", "--topic", "t:1", *words, has_listen=False) as server:
        yield server


class ClosedConnections:
    """Connections that the server closes for a reason from now on."""

    def __init__(self, server: Muster, reason: str) -> None:
        self._server = server
        self._reason = reason
        self._before = self._count()

    def _count(self) -> float:
        return self._server.metric("muster_connections_closed_total", reason=self._reason)

    def __bool__(self) -> bool:
        return self._count() > self._before

    def wait(self) -> None:
        wait_until(f"the end of a connection: {self._reason}", lambda: self)


def test_who_waits_for_too_long_is_let_go_and_who_does_not_authenticate_too(server: Muster) -> None:
    host, port = server.address_of("SASL_PLAINTEXT").split(":")
    parked, unknown = ClosedConnections(server, "parked"), ClosedConnections(server, "not authenticated")
    with socket.create_connection((host, int(port))):
        is_there = partial(server.metric, "muster_connections", listener="SASL_PLAINTEXT")
        wait_until("the connection", lambda: is_there() or unknown)
        with Client.to(server.kafka, seconds=WAIT_SECONDS) as client, pytest.raises(ClientError):
            client.ask(join("g", rebalance_ms=60_000), version=3)
        assert parked
        assert unknown, "it came before"


def fail_to_authenticate(address: str) -> None:
    """Give a wrong password, and wait for the response."""
    with Client.to(address, seconds=WAIT_SECONDS) as client:
        client.ask(SaslHandshakeRequest("PLAIN"), version=1)
        client.ask(SaslAuthenticateRequest(plain("alice", "wrong")), version=2)


def test_a_failed_authentication_is_told_no_earlier_than_is_set(server: Muster) -> None:
    """So the client is let go first, which has no time to authenticate."""
    with pytest.raises(ClientError):
        fail_to_authenticate(server.address_of("SASL_PLAINTEXT"))


def test_unfinished_requests_take_no_more_memory_than_is_set(server: Muster) -> None:
    closed = ClosedConnections(server, "request memory")
    with socket.create_connection(server.address) as sock:
        with suppress(OSError):  # the server closes the connection before all of it is sent
            sock.sendall((3 * MEBIBYTE).to_bytes(4, "big") + bytes(2 * MEBIBYTE))
        closed.wait()


def test_responses_that_are_not_taken_take_no_more_memory_than_is_set(server: Muster) -> None:
    closed, batch = ClosedConnections(server, "response memory"), encode([Record(None, bytes(1_000_000))])
    with Client.to(server.kafka) as client:
        for _ in range(16):  # of which the system takes some
            assert not client.ask(produce("t", {0: batch}), version=12).responses[0].partition_responses[0].error_code
    everything = fetch("t", partition_max_bytes=1 << 30, max_bytes=1 << 30)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.connect(server.address)
        sock.sendall(encode_request(1, 12, 1, "test", everything))
        closed.wait()


def test_events_take_no_more_memory_than_is_set(server: Muster) -> None:
    with Client.to(server.kafka) as client:
        for number in range(60):
            group = f"{number:01000}"
            request = ConsumerGroupHeartbeatRequest(
                group, "member", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
            )
            assert not client.ask(request, version=1).error_code
    assert EVENTS_BYTES / 2 < server.metric("muster_held_bytes", what="events") <= EVENTS_BYTES


def test_of_one_address_there_are_no_more_connections_than_is_set(server: Muster) -> None:
    closed = ClosedConnections(server, "max.connections.per.ip")
    with ExitStack() as stack:
        for _ in range(CONNECTIONS + 1):
            stack.enter_context(socket.create_connection(server.address))
        closed.wait()


def status(server: Muster, path: str, **headers: str) -> int:
    """The status of the admin port's answer."""
    request = urllib.request.Request(f"{server.ready['admin']}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_admin_port_wants_its_token_and_is_called_by_its_names(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    options = ("--admin-token-file", str(token), "--set", "admin.allowed.hosts=muster.test")
    with Muster(tmp_path, "--ephemeral", *options) as server:
        assert status(server, "/metrics") == 401
        assert status(server, "/metrics", Authorization=f"Bearer {TOKEN}") == 200
        assert status(server, "/healthz", Host="other.test") == 403
        assert status(server, "/healthz", Host="muster.test") == 200


def test_a_journal_says_how_its_server_was_started(tmp_path: Path) -> None:
    options = ("--fsync", "--seed", "7", "--topic", "t:2", "--set", "journal.max.bytes=1048576")
    with Muster(tmp_path, *options) as server:
        origin = json.loads(server.get("/v1/journal/file").splitlines()[0])["origin"]
        assert (origin["is_synced"], origin["seed"], origin["topics"]) == (True, 7, {"t": 2})
        assert origin["listeners"][0]["port"] == int(server.kafka.rpartition(":")[2])
