"""Sockets: who is let in, who is let go, and what happens when descriptors run out."""

import contextlib
import errno
import os
import resource
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from msgspec.structs import replace

from coordinator.client import Client
from coordinator.server.connection import OWED_BYTES_MAX
from coordinator.server.link import Link
from coordinator.server.selector import READ
from protocol import record_batch
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.framing import FrameBuffer
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records import Record
from tests import requests
from tests.live import Muster
from tests.log_lines import log_lines
from tests.server.in_memory import InMemory
from tests.server.listening import IDLE_MS, Listening, listening
from tests.server.test_frontend import Ticking

VERSIONS = encode_request(18, 3, 1, "test", ApiVersionsRequest("test", "1"))
JOIN = encode_request(11, 3, 1, "test", requests.join("g", rebalance_ms=700_000))


async def test_a_silent_client_is_let_go_and_a_waiting_one_is_not() -> None:
    async with listening(group_initial_rebalance_delay_ms=600_000) as here:
        silent, waiting = await here.connect(), await here.connect()
        await waiting.send_all(JOIN)
        await silent.send_all(VERSIONS)
        await silent.receive_some()
        while here.poller.connections < 2 or not here.server.node.partitions.owner("g").shard.groups:
            await trio.lowlevel.checkpoint()
        here.sweep(IDLE_MS / 1000 + 1)
        assert await silent.receive_some() == b""
        assert here.poller.connections == 1, "a JoinGroup that is parked is no idleness"
        here.poller.close_all("operator", "another client")
        assert here.poller.connections == 1
        here.poller.close_all("operator", "test")
        assert here.poller.connections == 0


async def test_a_wait_is_bounded_whatever_the_client_asked_for() -> None:
    """`connections.max.parked.ms`: a JoinGroup may ask for weeks, and its client may be gone."""
    async with listening(group_initial_rebalance_delay_ms=600_000) as here:
        here.poller._parked_s = 60.0
        waiting = await here.connect()
        await waiting.send_all(JOIN)
        while not here.server.frontend.connections.parked:
            await trio.lowlevel.checkpoint()
        here.sweep(59)
        assert here.poller.connections == 1
        here.sweep(1)
        assert await waiting.receive_some() == b""
        assert not here.server.frontend.connections.parked and not here.poller.connections


async def test_a_listener_that_is_stopped_refuses_clients_and_comes_back_where_it_was() -> None:
    async with listening() as here:
        poller, address, before = here.poller, here.listener.address, await here.connect()
        while not poller.connections:
            await trio.lowlevel.checkpoint()
        stopped = poller.stop_listening(here.listener)
        assert not poller.connections
        assert here.server.stats.connections_closed["broker stopped"] == 1
        assert await before.receive_some() == b""
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", here.listener.port), timeout=30)
        assert poller.connections_by_listener() == {"PLAINTEXT": 0}
        again = poller.start_listening(stopped)
        assert again.address == address
        after = await here.connect()
        await after.send_all(VERSIONS)
        assert await after.receive_some()
        poller.stop_listening(again)


async def test_a_port_that_somebody_has_taken_meanwhile_cannot_be_listened_at() -> None:
    async with listening() as here:
        stopped = here.poller.stop_listening(here.listener)
        with socket.create_server(("127.0.0.1", here.listener.port)), pytest.raises(OSError, match="in use"):
            here.poller.start_listening(stopped)
        here.poller.stop_listening(here.poller.start_listening(stopped))


async def test_the_kernel_asks_whether_a_silent_peer_is_there() -> None:
    async with listening() as here:
        await here.connect()
        while not here.poller.connections:
            await trio.lowlevel.checkpoint()
        (link,) = here.poller._links.values()
        assert link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


async def test_a_client_is_not_idle_right_after_a_long_wait() -> None:
    """Its silence was ours."""
    async with listening(group_initial_rebalance_delay_ms=2 * IDLE_MS) as here:
        waiting = await here.connect()
        await waiting.send_all(JOIN)
        while not here.server.frontend.connections.parked:
            await trio.lowlevel.checkpoint()
        here.server.seconds += 2 * IDLE_MS / 1000 + 1
        here.poller.turn()
        assert not here.server.frontend.connections.parked, "its JoinGroup is answered"
        here.sweep(IDLE_MS / 1000 - 1)
        assert here.poller.connections == 1
        here.sweep(1)
        assert here.poller.connections == 0


async def test_clients_past_the_bound_are_not_let_in() -> None:
    async with listening(connections_max=2) as here:
        first, second = await here.connect(), await here.connect()
        for stream in (first, second):
            await stream.send_all(VERSIONS)
            assert await stream.receive_some()
        third = await here.connect()
        assert await third.receive_some() == b""
        await first.aclose()
        await second.send_all(VERSIONS)
        assert await second.receive_some(), "those who are in notice nothing"


@pytest.fixture
def unpaused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of accepting ends at once."""
    monkeypatch.setattr("coordinator.server.acceptor.PAUSE_SECONDS", 0.0)


async def test_clients_past_the_descriptors_wait_until_there_is_room(
    unpaused: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as here:
        here.poller._acceptor.room = 2
        first, second, third = [await here.connect() for _ in range(3)]
        for stream in (first, second):
            await stream.send_all(VERSIONS)
            assert await stream.receive_some()
        await third.send_all(VERSIONS)
        while "accept paused" not in caplog.text:
            await trio.lowlevel.checkpoint()
        with socket.fromfd(third.socket.fileno(), socket.AF_INET, socket.SOCK_STREAM) as unwaiting:
            unwaiting.setblocking(False)
            with pytest.raises(BlockingIOError):  # it is neither closed nor served
                unwaiting.recv(1)
        assert here.poller.connections == 2
        await first.aclose()
        assert await third.receive_some()
    assert {message for message, _ in log_lines(caplog)} == {
        "accept paused: 2 clients are all that there are descriptors for"
    }


class Failing:
    """A socket of which one call fails once, with an error that is not about to be everybody's."""

    def __init__(self, sock: socket.socket, call: str, number: int) -> None:
        self._sock = sock
        self._left = {call: [number]}

    def __getattr__(self, name: str) -> Any:
        if self._left.get(name):
            number = self._left[name].pop()
            raise OSError(number, os.strerror(number))
        return getattr(self._sock, name)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EIO])
async def test_a_connection_that_cannot_be_accepted_is_logged_and_the_next_is_served(
    number: int, unpaused: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as here:
        fd = here.listener.sock.fileno()
        here.poller._acceptor.listening[fd] = replace(here.listener, sock=Failing(here.listener.sock, "accept", number))
        stream = await here.connect()
        await stream.send_all(VERSIONS)
        assert await stream.receive_some()
    assert log_lines(caplog)[0] in (
        (f"a connection failed before it was accepted: {os.strerror(number)}", {}),
        (f"accept paused: {os.strerror(number)}", {}),
    )


async def test_a_connection_that_fails_as_it_is_admitted_is_closed_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as here:
        watch, failures = here.poller._selector.watch, [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]

        def watching(fd: int, interest: int, before: int) -> None:
            if failures:
                raise failures.pop()
            watch(fd, interest, before)

        here.poller._selector.watch = watching
        first, second = await here.connect(), await here.connect()
        assert await first.receive_some() == b""
        await second.send_all(VERSIONS)
        assert await second.receive_some()
        assert here.poller.connections == 1
    told = f"a connection was not taken: {os.strerror(errno.ENOSPC)}"
    assert log_lines(caplog) == [(told, {"client": "/127.0.0.1"})]


async def test_timers_wait_until_every_socket_that_was_ready_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll reports few at a time; a server that was stopped for longer than the sessions finds all heartbeats."""
    monkeypatch.setattr("coordinator.server.poller.EVENTS_MAX", 4)
    monkeypatch.setattr("coordinator.server.selector.EVENTS_MAX", 4)
    async with listening(group_initial_rebalance_delay_ms=1_000) as here:
        socks = [socket.create_connection(("127.0.0.1", here.listener.port), timeout=10) for _ in range(20)]

        def receive(sock: socket.socket) -> bytes:
            sock.setblocking(False)
            data = b""
            while not data:
                here.poller.turn()
                with contextlib.suppress(BlockingIOError):
                    data = sock.recv(65_536)
            return data[4:]

        for sock in socks:
            sock.sendall(JOIN)
        while len(here.server.frontend.connections.parked) < len(socks):
            here.poller.turn()
        while here.server.frontend.connections.parked:
            here.server.seconds += 1
            here.poller.turn()
        joined = [decode_response(11, 3, receive(sock)).body for sock in socks]
        for sock, one in zip(socks, joined, strict=True):
            sock.sendall(encode_request(14, 3, 1, "test", SyncGroupRequest("g", 1, one.member_id)))
        for sock in socks:
            receive(sock)
        here.server.seconds += 11
        for sock, one in zip(socks, joined, strict=True):
            sock.sendall(encode_request(12, 3, 1, "test", HeartbeatRequest("g", 1, one.member_id)))
        errors = [decode_response(12, 3, receive(sock)).body.error_code for sock in socks]
        assert not any(errors)
        for sock in socks:
            sock.close()


async def test_a_socket_that_was_reported_goes_before_connections_that_were_interrupted() -> None:
    """Some clients send requests without end, and each turn is over before all of them had theirs."""
    async with listening() as here:
        ticking = Ticking()
        here.server.frontend.turn.real_s = ticking
        here.server.frontend.turn.cpu_s = lambda: 0.0  # the machine is busy with something else: nobody is heavy
        socks = [socket.create_connection(("127.0.0.1", here.listener.port), timeout=10) for _ in range(9)]
        *busy, calm = socks
        while here.poller.connections < len(socks):
            here.poller.turn()
        ticking.step_s = 0.004  # two requests are a turn
        for sock in busy:
            sock.sendall(b"".join(encode_request(18, 3, n, "busy", ApiVersionsRequest("t", "1")) for n in range(50)))
        calm.sendall(encode_request(18, 3, 1, "calm", ApiVersionsRequest("t", "1")))
        calm.setblocking(False)
        turns, data = 0, b""
        while not data:
            here.poller.turn()
            turns += 1
            with contextlib.suppress(BlockingIOError):
                data = calm.recv(65_536)
        assert turns <= 2 * len(socks), "each socket has a turn, and what was interrupted has one in between"
        assert here.server.frontend.has_work, "the others still have to wait"
        for sock in socks:
            sock.close()


ASKED = 3_000
QUESTIONS = b"".join(encode_request(3, 9, n, "test", MetadataRequest(topics=None)) for n in range(ASKED))


async def test_requests_that_waited_for_room_go_on_when_all_was_sent() -> None:
    """More than may be owed is asked for in one chunk, and the socket takes all that is decided at once."""
    async with listening() as here, trio.open_nursery() as nursery:
        stream = await here.connect()
        nursery.start_soon(stream.send_all, QUESTIONS)
        await receive_all(stream)


async def receive_all(stream: trio.SocketStream) -> None:
    """The answers to all that was asked: in order, none twice, none missing."""
    frames = FrameBuffer(1 << 20)
    got: list[int] = []
    while len(got) < ASKED:
        frames.feed(await stream.receive_some(1 << 20))
        got += [int.from_bytes(frame[:4], "big") for frame in frames]
    assert got == list(range(ASKED))


async def test_a_client_that_does_not_read_costs_a_bounded_amount_and_loses_nothing() -> None:
    """R19."""
    async with listening() as here, trio.open_nursery() as nursery:
        stream, link = await here.connect_narrowly()
        nursery.start_soon(stream.send_all, QUESTIONS)
        while not link.unsent:
            await trio.lowlevel.checkpoint()
        assert link.connection.backlog, "it asked for more than it was told"
        assert link.unsent_bytes + link.connection.owed_bytes < 2 * OWED_BYTES_MAX
        assert here.server.frontend.connections.responses.total == link.unsent_bytes
        await receive_all(stream)
        while link.unsent:
            await trio.lowlevel.checkpoint()
        assert here.server.frontend.connections.responses.total == 0


async def test_of_clients_that_hold_too_many_bytes_of_responses_the_largest_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening() as here, trio.open_nursery() as nursery:
        stream, link = await here.connect_narrowly()
        nursery.start_soon(stream.send_all, QUESTIONS)
        while not link.unsent:
            await trio.lowlevel.checkpoint()
        held_bytes = link.held_bytes
        here.server.frontend.connections.responses.bytes_max = held_bytes - 1
        here.poller._close_offenders()
        assert here.poller.connections == 0
        assert here.server.stats.connections_closed == {"response memory": 1}
        nursery.cancel_scope.cancel()
    told = "connection closed: it holds the most of too many bytes of responses (queued.max.response.bytes)"
    assert log_lines(caplog) == [(told, {"client": "/127.0.0.1", "bytes": held_bytes})]


async def test_a_client_that_takes_nothing_for_too_long_is_let_go() -> None:
    async with listening() as here, trio.open_nursery() as nursery:
        stream, link = await here.connect_narrowly()
        nursery.start_soon(stream.send_all, QUESTIONS)
        while not link.unsent:
            await trio.lowlevel.checkpoint()
        here.sweep(29)
        assert here.poller.connections == 1
        here.sweep(2)
        assert here.poller.connections == 0
        assert here.server.frontend.connections.responses.total == 0
        nursery.cancel_scope.cancel()


class Taking:
    """A socket that takes so many bytes of each call, and then none."""

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)

    def recv(self, most: int) -> bytes:
        raise AssertionError("nobody reads from it")

    def send(self, data: bytes | memoryview) -> int:
        if not self._sizes:
            raise BlockingIOError
        return min(self._sizes.pop(0), len(data))


def test_what_a_socket_takes_is_counted_also_if_the_next_call_takes_nothing() -> None:
    link = Link(cast("socket.socket", Taking(10, 3)), InMemory().connect().connection)
    for response in (b"0123456789", b"abcdef"):
        link.keep(response, 0)
    assert link.send_kept(100) == 13
    assert [bytes(piece) for piece in link.unsent] == [b"def"]
    assert link.send_kept(100) == 0


def test_the_patience_with_a_client_runs_from_the_last_byte_that_it_took() -> None:
    here = Listening()
    link = Link(cast("socket.socket", Taking(4, 0)), here.server.connect().connection)
    here.poller._send(link, [b"0123456789"])
    here.server.seconds = 20.0
    here.poller._send_kept(link)
    here.poller._send(link, [b"the response to a request that was parked"])
    assert here.poller._overdue(link, 29.9) is None
    assert here.poller._overdue(link, 30.0) == "responses not taken"
    link.send = Taking(1).send
    here.poller._send_kept(link)
    assert here.poller._overdue(link, 49.9) is None
    assert here.poller._overdue(link, 50.0) == "responses not taken"
    here.listener.sock.close()


class Hesitant:
    """A socket that takes ten bytes of the first answer, and all of the others."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._is_new = True

    def send(self, data: bytes | memoryview) -> int:
        some = data[:10] if self._is_new else data
        self._is_new = False
        return self._sock.send(some)


async def test_a_connection_goes_on_when_a_parked_response_comes_behind_one_that_is_not_sent_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening(group_initial_rebalance_delay_ms=1_000) as here:
        with socket.create_connection(("127.0.0.1", here.listener.port), timeout=10) as client:
            while not here.poller.connections:
                here.poller.turn()
            (link,) = here.poller._links.values()
            link.send = Hesitant(link.sock).send
            client.sendall(VERSIONS + JOIN)
            while not link.unsent:
                here.poller.turn()
            assert link.connection.parked
            here.server.seconds += 2
            with monkeypatch.context() as patch:
                patch.setattr(here.poller._selector, "ready", list)
                here.poller.turn()
            assert not link.connection.parked
            while link.unsent:
                here.poller.turn()
            client.sendall(VERSIONS)
            while link.connection.requests < 3:
                here.poller.turn()
            here.poller.turn()
            assert not link.connection.backlog, "what comes next is decided"
            assert link.interest == READ


def test_running_out_of_descriptors_pauses_accepting_and_nothing_else(tmp_path: Path) -> None:
    """R20."""
    if not hasattr(resource, "prlimit"):
        pytest.skip("only Linux lets one process limit another")
    with Muster(tmp_path, "--ephemeral") as muster, Client.to(muster.kafka) as early:
        early.ask(MetadataRequest(topics=None))
        used = len(list(Path(f"/proc/{muster.pid}/fd").iterdir()))
        resource.prlimit(muster.pid, resource.RLIMIT_NOFILE, (used + 5, used + 5))
        crowd = [muster.connect() for _ in range(20)]
        for _ in range(20):
            early.ask(MetadataRequest(topics=None))  # whoever is connected goes on
        time.sleep(0.6)  # two pauses more
        early.ask(MetadataRequest(topics=None))
        assert muster.log().count("accept paused") == 1, "that is said once"
        for sock in crowd:
            sock.close()
        with Client.to(muster.kafka) as late:
            assert late.ask(MetadataRequest(topics=None)).brokers


def produce(client: Client, partition: int, size: int) -> None:
    data = record_batch.encode([Record(None, bytes(size), timestamp=1)])
    answer = client.ask(requests.produce("t", {partition: data}, acks=1), version=9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


ALLOWED = 600  # descriptors of the whole process: far fewer than clients and logs could take together


def test_a_crowd_takes_no_descriptor_from_the_logs(tmp_path: Path) -> None:
    """R20: clients past the bound wait, and each segment and checkpoint that is to be written finds its descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < ALLOWED + 300:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, ALLOWED + 300), hard))
    with (
        Muster(tmp_path, "--set", "log.segment.bytes=1048576", files_max=ALLOWED) as muster,
        Client.to(muster.kafka) as early,
        ExitStack() as stack,
    ):
        for _ in range(ALLOWED):
            stack.enter_context(muster.connect())
        topic = CreateTopicsRequestCreatableTopic("t", 100, 1)
        assert early.ask(CreateTopicsRequest((topic,))).topics[0].error_code == ErrorCode.NONE
        for partition in range(100):
            produce(early, partition, 10)
        for partition in (0, 0, 99, 99):
            produce(early, partition, 600_000)  # the second one begins a segment
        assert muster.log().count("accept paused") == 1
        assert muster.stop() == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
