"""A healthy member beside clients that ask for much, or take nothing: the loop is never late, and memory is bounded.

What a turn took is the server's own processor time, by its own metrics: a busy machine does not lengthen it. All cases,
and random mixes of them, are in `benchmarks/stalls`.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import offenders
from benchmarks.member import Member, p99
from benchmarks.server import cpu_seconds, resident_mib
from benchmarks.stalls import LONGEST_MS, P99_MS, beside
from coordinator.client import Client
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.live import WAIT_SECONDS, Muster, wait_until
from tests.requests import join
from tests.server.test_bad_input import Bystander

TURN_S_MAX = 0.25
CONNECTS, FILES_MAX = 5_000, 1_000
BACK_MIB = 48  # more than before, when what was held is not held any more
QUICK = (
    "300 ListGroups in one chunk",
    "60 malformed frames of 64 KB",
    "commit of 2,030 partitions with 4 KB metadata",
    "DescribeGroups of 20,000 groups",
    "10,000 heartbeats in one go",
    "DeleteGroups of 20,000 unknown groups",
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


def longest_turn_s(muster: Muster) -> float:
    return muster.metric("muster_long_turn_cpu_longest_seconds")


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    folder = tmp_path_factory.mktemp("neighbours")
    with Muster(folder, "--ephemeral", "--log-level", "error", "--topic", f"{offenders.TOPIC}:1") as server:
        with ExitStack() as stack:
            offenders.make_groups(server.address, stack, 3_000)
            offenders.fill_topic(server.address, stack)
        yield server


@pytest.fixture(scope="module")
def member(muster: Muster) -> Bystander:
    return Bystander(muster)


@pytest.mark.parametrize("name", QUICK)
def test_no_offender_keeps_the_loop(name: str, muster: Muster, member: Bystander) -> None:
    with ExitStack() as stack:
        offenders.OFFENDERS[name](muster.address, stack)
    assert member.is_well()
    assert longest_turn_s(muster) < TURN_S_MAX


def test_a_member_beside_offenders_is_not_late(muster: Muster) -> None:
    """By the processor time that the server takes between a heartbeat and its response."""
    with Member(muster.kafka, muster.pid) as member:
        for name in QUICK:
            with ExitStack() as stack:
                offenders.OFFENDERS[name](muster.address, stack)
    assert member.heartbeats.errors == 0
    assert len(member.heartbeats.own_ms) > 20
    assert p99(member.heartbeats.own_ms) < P99_MS
    assert max(member.heartbeats.own_ms) < LONGEST_MS


@pytest.mark.long
@pytest.mark.parametrize("name", offenders.OFFENDERS)
def test_a_member_beside_each_offender_is_not_late_and_memory_is_bounded(name: str, tmp_path: Path) -> None:
    assert beside(tmp_path, name, [offenders.OFFENDERS[name]], "unread" in name).missed() == []


def test_unfinished_frames_are_bounded_over_all_connections(muster: Muster, member: Bystander) -> None:
    before = resident_mib(muster.pid)
    with ExitStack() as stack:
        size = 8 * 1024 * 1024
        data = size.to_bytes(4, "big") + bytes(4 * 1024 * 1024)
        for _ in range(30):
            offenders.send(offenders.connect(muster.address, stack), data)
        wait_until(
            "some are closed", lambda: muster.metric("muster_connections_closed_total", reason="request memory") > 10
        )
        assert muster.metric("muster_held_bytes", what="requests") <= 64 * 1024 * 1024
        assert resident_mib(muster.pid) - before < 256
        assert member.is_well()
    wait_until("nothing is held", lambda: muster.metric("muster_held_bytes", what="requests") == 0)
    wait_until("its memory goes back", lambda: resident_mib(muster.pid) - before < BACK_MIB)


def test_responses_that_are_not_taken_are_bounded_over_all_connections(muster: Muster, member: Bystander) -> None:
    with ExitStack() as stack:
        offenders.make_groups(muster.address, stack, 300, offenders.LONG_ID)  # a list of 9.6 MB
    before = resident_mib(muster.pid)
    with ExitStack() as stack:
        offenders.unread_lists(muster.address, stack)
        wait_until(
            "some are closed", lambda: muster.metric("muster_connections_closed_total", reason="response memory") > 2
        )
        assert muster.metric("muster_held_bytes", what="responses") <= 64 * 1024 * 1024
        assert resident_mib(muster.pid) - before < 256
        assert member.is_well()
    wait_until("nothing is held", lambda: muster.metric("muster_held_bytes", what="responses") == 0)
    wait_until("its memory goes back", lambda: resident_mib(muster.pid) - before < BACK_MIB)
    assert longest_turn_s(muster) < TURN_S_MAX


def test_slow_readers_cost_no_copies(muster: Muster, member: Bystander) -> None:
    with ExitStack() as stack:
        offenders.slow_readers(muster.address, stack)
        assert member.is_well()
    assert longest_turn_s(muster) < TURN_S_MAX


def test_more_clients_than_descriptors_keep_nobody_out_who_is_in(tmp_path: Path) -> None:
    """5,000 connects to a server that may have 1,000 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CONNECTS + 200:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, CONNECTS + 200), hard))
    try:
        with Muster(tmp_path, "--log-level", "warning", files_max=FILES_MAX) as muster:
            member, before = Bystander(muster), resident_mib(muster.pid)
            with ExitStack() as stack:
                for _ in range(CONNECTS):
                    sock = stack.enter_context(socket.socket())
                    sock.setblocking(False)
                    sock.connect_ex(muster.address)  # many are never accepted
                wait_until("accepting is paused", lambda: "accept paused" in muster.log())
                assert member.is_well()
                assert muster.get("/healthz") == "ok\n"
                assert muster.metric("muster_connections") < FILES_MAX
                assert resident_mib(muster.pid) - before < 64
            wait_until("they are gone", lambda: muster.metric("muster_connections") <= 1)
            with Client.to(muster.kafka, seconds=WAIT_SECONDS) as client:
                assert client.ask(ApiVersionsRequest("test", "1"), version=3).error_code == ErrorCode.NONE
            assert member.is_well()
            assert longest_turn_s(muster) < TURN_S_MAX
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


MEMBERS, GROUPS, SESSION_MS = 2_500, 5, 15_000


@pytest.mark.long
def test_nobody_expires_whose_heartbeat_waits_for_a_server_that_was_stopped(tmp_path: Path) -> None:
    """2,500 members in 5 groups. The server stops for longer than their sessions, and all of them send a heartbeat."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MEMBERS + 200:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MEMBERS + 200), hard))
    options = ("--ephemeral", "--log-level", "error", "--set", "group.initial.rebalance.delay.ms=3000")
    with Muster(tmp_path, *options) as muster, ExitStack() as stack:
        socks = [stack.enter_context(muster.connect()) for _ in range(MEMBERS)]
        beats = join_all(socks)
        assert not any(answers_to(socks, beats))
        os.kill(muster.pid, signal.SIGSTOP)
        try:
            for sock, beat in zip(socks, beats, strict=True):
                sock.sendall(beat)  # the kernel holds it
            time.sleep(SESSION_MS / 1000 + 1)
        finally:
            os.kill(muster.pid, signal.SIGCONT)
        errors = [error_of(sock) for sock in socks]
        assert not any(errors), f"{sum(map(bool, errors))} heartbeats were refused"
        assert muster.metric("muster_group_events_total", cause="session_expired") == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def join_all(socks: list[socket.socket]) -> list[bytes]:
    """Make a member on each connection, all of them in the first generations of the groups. Returns their heartbeats."""
    groups = [f"group-{number % GROUPS}" for number in range(len(socks))]
    for sock, group in zip(socks, groups, strict=True):
        joining = join(group, session_ms=SESSION_MS, rebalance_ms=60_000)
        sock.sendall(encode_request(11, 3, 1, "test", joining))
    joined = [decode_response(11, 3, whole(sock)).body for sock in socks]
    for sock, group, one in zip(socks, groups, joined, strict=True):
        sock.sendall(encode_request(14, 3, 1, "test", SyncGroupRequest(group, one.generation_id, one.member_id)))
    for sock in socks:
        assert decode_response(14, 3, whole(sock)).body.error_code == ErrorCode.NONE
    return [
        encode_request(12, 4, 1, "test", HeartbeatRequest(group, one.generation_id, one.member_id))
        for group, one in zip(groups, joined, strict=True)
    ]


def answers_to(socks: list[socket.socket], beats: list[bytes]) -> list[int]:
    for sock, beat in zip(socks, beats, strict=True):
        sock.sendall(beat)
    return [error_of(sock) for sock in socks]


def whole(sock: socket.socket) -> bytes:
    sock.settimeout(WAIT_SECONDS)
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
    return sock.recv(size, socket.MSG_WAITALL)


def error_of(sock: socket.socket) -> int:
    return int(decode_response(12, 4, whole(sock)).body.error_code)


def test_a_session_ends_after_a_restart_though_nobody_connects(tmp_path: Path) -> None:
    with Muster(tmp_path, "--set", "group.min.session.timeout.ms=500") as muster:
        with Client.to(muster.kafka) as client:
            joined = client.ask(join("g", session_ms=500, rebalance_ms=500), version=3)
            client.ask(SyncGroupRequest("g", joined.generation_id, joined.member_id), version=3)
            muster.kill()
        muster.start()
        wait_until("the session has expired", lambda: "session_expired" in muster.get("/events"))


def test_standard_error_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "coordinator", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    command += ["--ephemeral", "--ready-file", str(ready), "--log-level", "info"]
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    try:
        wait_until("the server is ready", ready.exists)
        muster = Muster(tmp_path)
        muster.ready = json.loads(ready.read_text())
        with Client.to(muster.kafka) as client:
            for number in range(600):  # two lines each, of some 300 bytes: a pipe takes 64 KiB
                assert client.ask(join(f"g{number}"), version=3).error_code == ErrorCode.NONE
            assert client.ask(ApiVersionsRequest("test", "1"), version=3).error_code == ErrorCode.NONE
        assert muster.get("/healthz") == "ok\n"
    finally:
        process.kill()
        process.wait()
        os.close(reading)


def test_health_checks_are_answered_while_a_thousand_hold_connections(muster: Muster) -> None:
    host, _, port = muster.ready["admin"].removeprefix("http://").rpartition(":")
    with ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=WAIT_SECONDS))
        for _ in range(3):
            with urllib.request.urlopen(f"{muster.ready['admin']}/healthz", timeout=WAIT_SECONDS) as answer:
                assert answer.read() == b"ok\n"


def test_an_idle_server_beside_parked_clients_does_nothing(muster: Muster) -> None:
    """What is left for the next turn must not keep the loop turning."""
    wait_until("nothing is held", lambda: muster.metric("muster_held_bytes", what="requests") == 0)
    before = cpu_seconds(muster.pid)
    time.sleep(1)
    assert cpu_seconds(muster.pid) - before < 0.5
