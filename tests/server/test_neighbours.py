"""A healthy member beside clients that ask for much, or take nothing: the loop is never late, and memory is bounded.

What a turn took is the server's own processor time, by its own metrics: a busy machine does not lengthen it. All cases,
and random mixes of them, are in `benchmarks/stalls`.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from benchmarks import offenders
from benchmarks.member import Member, p99
from benchmarks.server import cpu_seconds, resident_mib
from benchmarks.stalls import LONGEST_MS, P99_MS, beside
from coordinator.client import Client
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.records import Record
from tests import requests
from tests.live import WAIT_SECONDS, Muster, wait_until
from tests.members import ClassicMember
from tests.requests import create_topics, join
from tests.server.bystander import Bystander, descriptors

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


def test_a_member_beside_offenders_is_not_late(muster: Muster) -> None:
    """By the processor time that the server takes between a heartbeat and its response, and in one turn."""
    with Member(muster.kafka, muster.pid) as member:
        for name in QUICK:
            with ExitStack() as stack:
                offenders.OFFENDERS[name](muster.address, stack)
    assert longest_turn_s(muster) < TURN_S_MAX
    assert member.heartbeats.errors == 0
    assert len(member.heartbeats.own_ms) > 20
    assert p99(member.heartbeats.own_ms) < P99_MS
    assert max(member.heartbeats.own_ms) < LONGEST_MS


@pytest.mark.long
@pytest.mark.parametrize("name", offenders.OFFENDERS)
def test_a_member_beside_each_offender_is_not_late_and_memory_is_bounded(name: str, tmp_path: Path) -> None:
    assert beside(tmp_path, name, [offenders.OFFENDERS[name]], "unread" in name).missed_aims() == []


def leave_frames_unfinished(address: tuple[str, int], stack: ExitStack) -> None:
    data = (8 * 1024 * 1024).to_bytes(4, "big") + bytes(4 * 1024 * 1024)
    for _ in range(30):
        offenders.send(offenders.connect(address, stack), data)


@pytest.mark.parametrize(
    ("what", "offend", "closed_min"),
    [("request", leave_frames_unfinished, 10), ("response", offenders.unread_lists, 2)],
)
def test_what_is_held_is_bounded_over_all_connections(
    what: str, offend: offenders.Offender, closed_min: int, muster: Muster, member: Bystander
) -> None:
    """Frames that are not finished, and responses that are not taken."""
    with ExitStack() as stack:
        offenders.make_groups(muster.address, stack, 300, offenders.LONG_ID)  # a list of 9.6 MB
    before = resident_mib(muster.pid)
    with ExitStack() as stack:
        offend(muster.address, stack)
        closed = partial(muster.metric, "muster_connections_closed_total", reason=f"{what} memory")
        wait_until("some are closed", lambda: closed() > closed_min)
        assert muster.metric("muster_held_bytes", what=f"{what}s") <= 64 * 1024 * 1024
        assert resident_mib(muster.pid) - before < 256
        assert member.is_well()
    wait_until("nothing is held", lambda: muster.metric("muster_held_bytes", what=f"{what}s") == 0)
    wait_until("its memory goes back", lambda: resident_mib(muster.pid) - before < BACK_MIB)
    assert longest_turn_s(muster) < TURN_S_MAX


def test_slow_readers_cost_no_copies(muster: Muster, member: Bystander) -> None:
    with ExitStack() as stack:
        offenders.slow_readers(muster.address, stack)
        assert member.is_well()
    assert longest_turn_s(muster) < TURN_S_MAX


def produce(client: Client, partition: int, size: int) -> None:
    data = record_batch.encode([Record(None, bytes(size), timestamp=1)])
    answer = client.ask(requests.produce("t", {partition: data}, acks=1), version=9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_more_clients_than_descriptors_take_none_from_the_logs_and_keep_nobody_out_who_is_in(tmp_path: Path) -> None:
    """R20: clients past the bound wait, and each segment and checkpoint that is to be written finds its descriptor."""
    options = ("--log-level", "warning", "--set", "log.segment.bytes=1048576")
    with (
        descriptors(CONNECTS),
        Muster(tmp_path, *options, files_max=FILES_MAX) as muster,
        Client.to(muster.kafka) as early,
    ):
        member, before = Bystander(muster), resident_mib(muster.pid)
        with ExitStack() as stack:
            for _ in range(CONNECTS):
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                sock.connect_ex(muster.address)  # many are never accepted
            wait_until("accepting is paused", lambda: "accept paused" in muster.log())
            assert resident_mib(muster.pid) - before < 64
            assert early.ask(create_topics({"t": 100})).topics[0].error_code == ErrorCode.NONE
            for partition in range(100):
                produce(early, partition, 10)
            for partition in (0, 0, 99, 99):
                produce(early, partition, 600_000)  # the second one begins a segment
            assert member.is_well()
            assert muster.get("/healthz") == "ok\n"
            assert muster.metric("muster_connections") < FILES_MAX
        wait_until("they are gone", lambda: muster.metric("muster_connections") <= 2)
        with Client.to(muster.kafka, seconds=WAIT_SECONDS) as client:
            assert client.ask(ApiVersionsRequest("test", "1"), version=3).error_code == ErrorCode.NONE
        assert member.is_well()
        assert longest_turn_s(muster) < TURN_S_MAX


def test_a_session_ends_after_a_restart_though_nobody_connects(tmp_path: Path) -> None:
    with Muster(tmp_path, "--set", "group.min.session.timeout.ms=500") as muster:
        with Client.to(muster.kafka) as client:
            member = ClassicMember(client)
            member.join(500, 500)
            member.sync()
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
