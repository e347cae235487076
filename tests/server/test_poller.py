"""Sockets: who is let in, who is let go, and what happens when descriptors run out."""

import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, cast

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from coordinator.server.connection import RESPONSE_BYTES_MAX
from coordinator.server.link import Link
from coordinator.server.selector import READ, WRITE
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message
from tests.log_lines import log_lines
from tests.requests import join
from tests.server.in_memory import Dialogue
from tests.server.listening import IDLE_MS, VERSIONS, Caller, Listening, listening, until

JOIN = (join("g", rebalance_ms=700_000), 3)


async def test_a_silent_client_is_let_go_and_a_waiting_one_is_not() -> None:
    async with listening(group_initial_rebalance_delay_ms=600_000) as here:
        silent, waiting = await here.connect(), await here.connect()
        await waiting.send(JOIN)
        await silent.ask()
        await until(lambda: here.server.frontend.connections.parked)
        here.sweep(IDLE_MS / 1000 + 1)
        assert await silent.is_closed()
        assert here.poller.connections == 1, "a JoinGroup that is parked is no idleness"
        here.poller.close_member("operator", ("g", "a"), "another client")
        assert here.poller.connections == 1
        here.poller.close_member("operator", ("g", "a"), "test")
        assert here.poller.connections == 0


async def test_a_wait_is_bounded_whatever_the_client_asked_for() -> None:
    """`connections.max.parked.ms`: a JoinGroup may ask for weeks, and its client may be gone."""
    async with listening(group_initial_rebalance_delay_ms=600_000) as here:
        here.poller._parked_s = 60.0
        waiting = await here.connect()
        await waiting.send(JOIN)
        await until(lambda: here.server.frontend.connections.parked)
        here.sweep(59)
        assert here.poller.connections == 1
        here.sweep(1)
        assert await waiting.is_closed()
        assert not here.server.frontend.connections.parked and not here.poller.connections


async def test_a_listener_that_is_stopped_refuses_clients_and_comes_back_where_it_was() -> None:
    async with listening() as here:
        poller, address, before = here.poller, here.listener.address, await here.connect()
        await until(lambda: poller.connections)
        stopped = poller.stop_listening(here.listener)
        assert not poller.connections
        assert here.server.stats.connections_closed["broker stopped"] == 1
        assert await before.is_closed()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", here.listener.port), timeout=30)
        assert poller.connections_by_listener() == {"PLAINTEXT": 0}
        again = poller.start_listening(stopped)
        assert again.address == address
        await (await here.connect()).ask()
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
        await until(lambda: here.poller.connections)
        assert here.link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert here.link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


async def test_a_client_is_not_idle_right_after_a_long_wait() -> None:
    """Its silence was ours."""
    async with listening(group_initial_rebalance_delay_ms=2 * IDLE_MS) as here:
        waiting = await here.connect()
        await waiting.send(JOIN)
        await until(lambda: here.server.frontend.connections.parked)
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
        for client in (first, second):
            await client.ask()
        assert await (await here.connect()).is_closed()
        await first.stream.aclose()
        assert await second.ask(), "those who are in notice nothing"


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
        for client in (first, second):
            await client.ask()
        await third.send(VERSIONS)
        await until(lambda: "accept paused" in caplog.text)
        await trio.sleep(0.01)
        told = "accept paused: 2 clients are all that there are descriptors for"
        assert log_lines(caplog) == [(told, {})], "that is said once"
        with pytest.raises(BlockingIOError):  # it is neither closed nor served
            third.stream.socket._sock.recv(1)
        assert here.poller.connections == 2
        await first.stream.aclose()
        await third.read(1)


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


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EIO, errno.EMFILE]
)
async def test_a_connection_that_cannot_be_accepted_is_logged_and_the_next_is_served(
    number: int, unpaused: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as here:
        fd = here.listener.sock.fileno()
        here.poller._acceptor.listening[fd] = replace(here.listener, sock=Failing(here.listener.sock, "accept", number))
        await (await here.connect()).ask()
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
        assert await first.is_closed()
        await second.ask()
        assert here.poller.connections == 1
    told = f"a connection was not taken: {os.strerror(errno.ENOSPC)}"
    assert log_lines(caplog) == [(told, {"client": "/127.0.0.1"})]


class Blocking(Dialogue):
    """A client of a poller whose turns the test has."""

    def __init__(self, here: Listening) -> None:
        super().__init__()
        self.turns = 0  # that it took to get answers
        self._here = here
        self._sock = here.stack.enter_context(socket.create_connection(("127.0.0.1", here.listener.port), timeout=10))

    def send(self, *requests: tuple[Message, int]) -> None:
        self._sock.sendall(self.chunk(*requests))
        self._sock.setblocking(False)

    def read(self) -> Any:
        """Have turns until one more answer is there, and return it."""
        before = len(self.answers)
        while len(self.answers) == before:
            self._here.poller.turn()
            self.turns += 1
            with contextlib.suppress(BlockingIOError):
                self.receive(self._sock.recv(65_536))
        return self.answers[-1][1]

    def take(self) -> int:
        """Read what has arrived without a turn. Returns how many answers there are by now."""
        with contextlib.suppress(BlockingIOError):
            self.receive(self._sock.recv(65_536))
        return len(self.answers)


async def test_timers_wait_until_every_socket_that_was_ready_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll reports few at a time; a server that was stopped for longer than the sessions finds all heartbeats."""
    monkeypatch.setattr("coordinator.server.poller.EVENTS_MAX", 4)
    monkeypatch.setattr("coordinator.server.selector.EVENTS_MAX", 4)
    async with listening(group_initial_rebalance_delay_ms=1_000) as here:
        peers = [Blocking(here) for _ in range(20)]
        for peer in peers:
            peer.send(JOIN)
        while len(here.server.frontend.connections.parked) < len(peers):
            here.poller.turn()
        while here.server.frontend.connections.parked:
            here.server.seconds += 1
            here.poller.turn()
        members = [peer.read().member_id for peer in peers]
        for peer, member_id in zip(peers, members, strict=True):
            peer.send((SyncGroupRequest("g", 1, member_id), 3))
        for peer in peers:
            peer.read()
        here.server.seconds += 11
        for peer, member_id in zip(peers, members, strict=True):
            peer.send((HeartbeatRequest("g", 1, member_id), 3))
        assert not any(peer.read().error_code for peer in peers)


async def test_a_socket_that_was_reported_goes_before_connections_that_were_interrupted() -> None:
    """Some clients send requests without end, and each turn is over before all of them had theirs."""
    async with listening() as here:
        here.server.frontend.turn.real_s = lambda: 0.0
        here.server.frontend.turn.cpu_s = lambda: 0.0  # the machine is busy with something else: nobody is heavy
        peers = [Blocking(here) for _ in range(9)]
        *busy, calm = peers
        while here.poller.connections < len(peers):
            here.poller.turn()
        here.server.frontend.turn.real_s = count(0.0, 0.004).__next__  # two requests are a turn
        for peer in busy:
            peer.send(*[VERSIONS] * 50)
        calm.send(VERSIONS)
        calm.read()
        assert calm.turns <= 2 * len(peers), "each socket has a turn, and what was interrupted has one in between"
        assert here.server.frontend.has_work, "the others still have to wait"


async def test_a_request_that_is_not_urgent_gives_way_to_what_other_sockets_have() -> None:
    async with listening() as here:
        peers = [Blocking(here) for _ in range(3)]
        while here.poller.connections < len(peers):
            here.poller.turn()
        handled = here.server.record_requests()
        for peer, request in zip(peers, ((MetadataRequest(), 12), VERSIONS, (MetadataRequest(), 12)), strict=True):
            peer.send(request)
        for peer in peers:
            peer.read()
        assert [type(request) for request, _ in handled] == [ApiVersionsRequest, MetadataRequest, MetadataRequest]


ASKED = 3_000
QUESTIONS = [(MetadataRequest(topics=None), 9)] * ASKED


async def test_requests_that_waited_for_room_go_on_when_all_was_sent() -> None:
    """More than may be owed is asked for in one chunk, and the socket takes all that is decided at once."""
    async with listening() as here, trio.open_nursery() as nursery:
        client = await here.connect()
        nursery.start_soon(client.send, *QUESTIONS)
        assert await client.read(ASKED) == list(range(1, ASKED + 1))


@asynccontextmanager
async def not_reading() -> AsyncIterator[tuple[Listening, Caller, Any]]:
    """A client that asks for much and does not read, and the poller's side of it, which has more than the kernel takes."""
    async with listening() as here, trio.open_nursery() as nursery:
        client, link = await here.connect_narrowly()
        nursery.start_soon(client.send, *QUESTIONS)
        await until(lambda: link.unsent)
        yield here, client, link
        nursery.cancel_scope.cancel()


async def test_a_client_that_does_not_read_costs_a_bounded_amount_and_loses_nothing() -> None:
    """R19."""
    async with not_reading() as (here, client, link):
        assert link.connection.backlog, "it asked for more than it was told"
        assert link.unsent_bytes + link.connection.outgoing_bytes < 2 * RESPONSE_BYTES_MAX
        assert here.unsent_bytes == link.unsent_bytes
        assert await client.read(ASKED) == list(range(1, ASKED + 1))
        await until(lambda: not link.unsent)
        assert here.unsent_bytes == 0


async def test_of_clients_that_hold_too_many_bytes_of_responses_the_largest_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with not_reading() as (here, _, link):
        held_bytes = link.held_bytes
        here.server.frontend.outbox.unsent.bytes_max = held_bytes - 1
        here.poller._close_offenders()
        assert here.poller.connections == 0
        assert here.server.stats.connections_closed == {"response memory": 1}
    told = "connection closed: it holds the most of too many bytes of responses (queued.max.response.bytes)"
    assert log_lines(caplog) == [(told, {"client": "/127.0.0.1", "bytes": held_bytes})]


async def test_a_client_that_takes_nothing_for_too_long_is_let_go() -> None:
    async with not_reading() as (here, _, _):
        here.sweep(29)
        assert here.poller.connections == 1
        here.sweep(2)
        assert here.poller.connections == 0
        assert here.unsent_bytes == 0


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
    here = Listening()
    connection = here.server.connect().connection
    link = here.poller._link_of[connection] = Link(cast("socket.socket", Taking(0, 10, 3)), connection)
    link.interest = WRITE
    for response in (b"0123456789", b"abcdef"):
        connection.outgoing.append(response)
        here.poller._deliver([connection])
    assert link.unsent == [b"0123456789", b"abcdef"], "no response overtakes one that its client has not taken"
    assert link.send_kept(100) == 13
    assert (link.unsent, link.held_bytes) == ([b"abcdef"], 6)
    assert link.send_kept(100) == 0
    here.listener.sock.close()


def test_the_patience_with_a_client_runs_from_the_last_byte_that_it_took() -> None:
    here = Listening()
    connection = here.server.connect().connection
    link = here.poller._link_of[connection] = Link(cast("socket.socket", Taking(4, 0)), connection)
    link.interest = WRITE
    connection.outgoing.append(b"0123456789")
    here.poller._deliver([connection])
    here.server.seconds = 20.0
    here.poller._send_kept(link)
    connection.outgoing.append(b"the response to a request that was parked")
    here.poller._deliver([connection])
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
        client = Blocking(here)
        while not here.poller.connections:
            here.poller.turn()
        link = here.link
        link.send = Hesitant(link.sock).send
        client.send(VERSIONS, JOIN)
        while not link.unsent:
            here.poller.turn()
        assert link.connection.parked
        here.server.seconds += 2
        with monkeypatch.context() as patch:
            patch.setattr(here.poller._selector, "poll", lambda seconds=0.0: [])
            here.poller.turn()
        assert not link.connection.parked
        while link.unsent:
            here.poller.turn()
        here.server.seconds += 1
        client.send(VERSIONS)
        while link.connection.heard_s < here.server.seconds:
            here.poller.turn()
        here.poller.turn()
        assert not link.connection.backlog, "what comes next is decided"
        assert link.interest == READ


async def test_clients_that_are_held_are_answered_afterwards() -> None:
    async with listening() as here:
        old = await here.connect()
        await old.ask()
        here.poller.hold()
        new = await here.connect()
        for caller in (old, new):
            await caller.send(VERSIONS)
        with trio.move_on_after(0.05):
            await old.read(2)
        assert len(old.answers) == 1 and not new.answers
        assert not here.poller.turn()
        here.poller.release()
        await old.read(2)
        await new.read(1)
        here.poller.release()
        await new.ask()


async def test_what_is_done_behind_the_end_of_the_server_is_done() -> None:
    """A move of the clock, a reset: they are done to their end, though a signal ends the server meanwhile."""
    async with listening() as here:
        here.poller.hold()
    here.poller.release()
    assert here.poller.is_held and not here.poller.turn()
    assert here.poller.perform(lambda now_ms: now_ms) == here.server.clock.now_ms()
    here.poller.reset_alarm()
    assert here.poller.start_listening(here.server.listener) is here.server.listener


async def test_a_busy_loop_that_finds_clients_held_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task holds them while the loop gives way to it, and clients go on sending."""
    async with listening() as here:
        client, polls = Blocking(here), count()
        spin_then_sleep = here.poller._spin_then_sleep

        def poll() -> bool:
            assert next(polls) < 100, "the loop polls for ever, and no other task has a turn"
            return spin_then_sleep()

        def hold_once() -> None:
            if not here.poller.is_held:
                here.poller.hold()
                client.send(VERSIONS)

        monkeypatch.setattr(here.poller, "_spin_then_sleep", poll)
        monkeypatch.setattr(here.poller, "_after_turn", hold_once)
        client.send(VERSIONS)
        await until(lambda: here.poller.is_held)
        monkeypatch.setattr(here.poller, "_after_turn", lambda: None)
        await wait_all_tasks_blocked()
        assert client.take() < 2, "nothing is read of clients that are held"
        here.poller.release()
        await until(lambda: client.take() == 2)
