"""The reader of a cluster's logs: everything once, in order, whatever the brokers do meanwhile."""

import json
import os
import socket
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from coordinator.client import Client, ClientError
from coordinator.client import log_reader as module
from coordinator.client.connection import AuthenticationError
from coordinator.client.log_reader import BYTES_LEAST, BYTES_MAX, LogReader, LogTruncatedError, cut_whole_batches
from coordinator.client.offsets import EARLIEST, LATEST
from protocol import record_batch
from protocol.messages.fetch import FetchResponsePartitionData
from tests.client.scripted_cluster import TOPIC, ScriptedCluster, batch
from tests.client.slow_link import SlowLink

LOGS = {
    0: [batch(0, b"a", b"b"), batch(2, b"c"), batch(3, *(b"d" * 100 for _ in range(5)))],
    1: [],
    2: [batch(10, b"x", span=7), batch(30, b"y")],
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    monkeypatch.setattr(module, "PAUSE_LEAST_SECONDS", 0.01)
    with ScriptedCluster(LOGS) as made:
        yield made


class Clock:
    """Time that passes only where a test says so, or somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept.append(seconds)


def reader_of(cluster: ScriptedCluster, **options: float) -> LogReader:
    return LogReader(cluster.addresses[:1], TOPIC, timeout=10.0, **options)  # type: ignore[arg-type]  # whole numbers where they are wanted


def read_all(reader: LogReader) -> dict[int, bytes]:
    found: dict[int, bytes] = dict.fromkeys(LOGS, b"")
    for fetched in reader.read(reader.offsets(EARLIEST), reader.offsets(LATEST), 10):
        found[fetched.partition] += fetched.batches
    return found


@pytest.mark.parametrize(
    "script",
    [
        [], ["close"], ["close", "close", "close"], ["moved"], ["moved", "close", "moved"], ["gone"], ["throttle"], ["cut"],
        ["cut", "throttle", "moved", "cut", "gone", "close"], ["no leader"], ["moved", "no leader", "close", "cut"],
        ["lost", "cut", "out of range", "lost"], ["deleted", "lost", "moved"],
    ],
    ids="-".join,
)  # fmt: skip
@pytest.mark.parametrize(("bytes_max", "elsewhere"), [(1, ()), (1, (2,)), (200, ()), (1 << 20, ()), (1 << 20, (0, 1))])
def test_every_batch_comes_once_and_as_it_lies_in_the_log(
    cluster: ScriptedCluster, script: list[str], bytes_max: int, elsewhere: tuple[int, ...]
) -> None:
    cluster.script, cluster.elsewhere = script.copy(), frozenset(elsewhere)
    with reader_of(cluster, bytes_max=bytes_max) as reader:
        assert read_all(reader) == {number: b"".join(log) for number, log in LOGS.items()}
    assert not cluster.script, "the script was played"


def test_a_reader_sends_nothing_but_questions(cluster: ScriptedCluster) -> None:
    with reader_of(cluster) as reader:
        read_all(reader)
        assert reader.describe().topic_id == (b"t" * 16).hex()
    assert set(cluster.apis) == {1, 2, 3, 18}, "Fetch, ListOffsets, Metadata, ApiVersions"
    assert all(request.session_epoch == -1 and request.isolation_level == 0 for _, _, request in cluster.fetches)


def test_one_fetch_asks_for_all_partitions_of_a_leader(cluster: ScriptedCluster) -> None:
    with reader_of(cluster) as reader:
        read_all(reader)
    assert {one.partition for one in cluster.fetches[0][2].topics[0].partitions} == {0, 2}, "one is empty"


def test_a_broker_that_throttles_is_left_alone_for_so_long(cluster: ScriptedCluster) -> None:
    cluster.script = ["throttle"]
    with reader_of(cluster) as reader:
        read_all(reader)
    first, second = cluster.fetches[0][0], cluster.fetches[1][0]
    assert second - first >= 0.29


def test_offsets_that_a_cleaner_has_removed_are_no_hole(cluster: ScriptedCluster) -> None:
    """The last batch before the high watermark may be gone as well: then nothing comes, and that is the end."""
    cluster.ends[2] = 50
    with reader_of(cluster) as reader:
        fetched = list(reader.read({2: 0}, {2: 50}, 10))
        assert [one.next_offset for one in fetched] == [31, 50]
        assert record_batch.header_at(fetched[0].batches).last_offset == 16
        cluster.ends[2], before = 60, len(cluster.fetches)
        (passed,) = reader.read({2: 50}, {2: 60}, 10)
        assert (passed.next_offset, len(cluster.fetches) - before) == (60, module.EMPTY_MOST), "it is as sure as before"


def test_only_empty_responses_in_a_row_show_that_nothing_lies_ahead() -> None:
    """Else records that a slow broker has not sent yet would be passed over."""
    for seed in range(30):
        dice, reader, in_a_row, at = Random(seed), object.__new__(LogReader), 0, 0
        reader.positions, reader._empty = {0: at}, defaultdict(int)
        for _ in range(40):
            records, is_sure = dice.choice((batch(at, b"x"), b"", b"", b"")), dice.random() < 0.8
            data = FetchResponsePartitionData(0, high_watermark=at + 5, records=records)
            fetched = reader._take(data, is_sure=is_sure)
            in_a_row = 0 if records else in_a_row + is_sure
            moved = 1 if records else 5 if in_a_row == module.EMPTY_MOST else 0
            in_a_row %= module.EMPTY_MOST
            assert (fetched is not None) == (moved > 0)
            at += moved
            assert reader.positions == {0: at}


def test_what_retention_has_removed_is_told_and_passed(cluster: ScriptedCluster) -> None:
    cluster.starts[2] = 30
    cluster.logs[2] = LOGS[2][1:]
    with reader_of(cluster) as reader:
        fetched = list(reader.read({2: 10}, {2: 31}, 10))
    assert [(one.removed, one.next_offset) for one in fetched] == [((10, 30), 30), (None, 31)]


@pytest.mark.parametrize("at", [0, 2, 8])
def test_a_position_that_is_in_the_log_by_now_stays(cluster: ScriptedCluster, at: int) -> None:
    """At its beginning, within it, or at its end: the leader had not seen yet what another one says."""
    cluster.script = ["out of range"]
    with reader_of(cluster) as reader:
        reader.describe()
        reader.seek({0: at})
        assert list(reader.poll(10)) == []
        assert reader.positions == {0: at}
        assert [one.next_offset for one in reader.poll(10)] == ([8] if at < 8 else [])


@pytest.mark.parametrize(
    ("at_ms", "offsets"),
    [
        (0, {0: 0, 1: 0, 2: 10}),
        (2_001, {0: 3, 1: 0, 2: 10}),
        (10_001, {0: 8, 1: 0, 2: 30}),
        (30_001, {0: 8, 1: 0, 2: 31}),
    ],
)
def test_the_offsets_at_a_time_are_those_of_the_next_record_or_the_end(
    cluster: ScriptedCluster, at_ms: int, offsets: dict[int, int]
) -> None:
    cluster.elsewhere = frozenset({2})
    with reader_of(cluster) as reader:
        assert reader.offsets(at_ms) == offsets
        assert reader.offsets(at_ms, [2]) == {2: offsets[2]}


def test_each_leader_is_asked_for_its_own_partitions_in_its_share_of_the_time(cluster: ScriptedCluster) -> None:
    cluster.elsewhere = frozenset({2})
    with reader_of(cluster) as reader:
        reader.describe()
        reader.seek({0: 0, 1: 0, 2: 10})
        list(reader.poll(100))
    asked = [
        (number, {one.partition for one in body.topics[0].partitions}, body.max_wait_ms)
        for _, number, body in cluster.fetches
    ]
    assert sorted(asked, key=lambda one: one[0]) == [(1, {0, 1}, 50), (2, {2}, 50)]


def test_a_log_that_ends_before_the_position_is_another_one(cluster: ScriptedCluster) -> None:
    with reader_of(cluster) as reader:
        reader.seek({0: 900})
        with pytest.raises(LogTruncatedError, match="ends at 8, before offset 900"):
            list(reader.poll(10))


def test_what_the_cluster_forbids_is_said_with_what_to_grant(cluster: ScriptedCluster) -> None:
    cluster.script = ["forbidden"]
    with reader_of(cluster) as reader, pytest.raises(ClientError, match="grant it READ and DESCRIBE"):
        read_all(reader)


def test_a_topic_that_does_not_exist_is_said_at_once(cluster: ScriptedCluster) -> None:
    cluster.topic_error = 3
    with reader_of(cluster) as reader, pytest.raises(ClientError, match="no such topic"):
        reader.describe()


def test_a_broker_that_is_being_stopped_is_passed_over_at_the_beginning(cluster: ScriptedCluster) -> None:
    cluster.stopping, cluster.leader = {1}, 2
    with LogReader(cluster.addresses, TOPIC, timeout=10.0) as reader:
        assert read_all(reader) == {number: b"".join(log) for number, log in LOGS.items()}


def test_a_broker_that_was_named_at_the_beginning_is_not_needed_any_more(cluster: ScriptedCluster) -> None:
    """The others are known by then."""
    cluster.leader = 2
    with reader_of(cluster, patience_s=0.3) as reader:
        reader.describe()
        cluster.stopping, cluster.script = {1}, ["close"]
        assert read_all(reader) == {number: b"".join(log) for number, log in LOGS.items()}


def test_each_partition_is_asked_for_first_in_its_turn(cluster: ScriptedCluster) -> None:
    """A response has room for one batch: of a partition with many others would never be read."""
    with reader_of(cluster, bytes_max=1) as reader:
        reader.describe()
        reader.seek({0: 0, 2: 0})
        for _ in range(2):
            list(reader.poll(0))
        assert reader.positions == {0: 2, 2: 17}


def test_where_no_broker_responds_each_is_named(cluster: ScriptedCluster) -> None:
    cluster.stopping = {1, 2}
    complaints = [f"{one} closed the connection.*" for one in cluster.addresses]
    with pytest.raises(ClientError, match="; ".join(complaints)):
        LogReader(cluster.addresses, TOPIC, timeout=10.0)


def test_credentials_that_are_refused_are_not_tried_elsewhere(cluster: ScriptedCluster) -> None:
    tried = []

    class WrongPassword:
        def secure(self, sock: socket.socket, host: str) -> socket.socket:
            return sock

        def authenticate(self, client: Client) -> float:
            tried.append(client)
            raise AuthenticationError("cannot authenticate: SASL_AUTHENTICATION_FAILED")

    with pytest.raises(AuthenticationError, match=r"^cannot authenticate: SASL_AUTHENTICATION_FAILED$"):
        LogReader(cluster.addresses, TOPIC, WrongPassword(), timeout=10.0)
    assert len(tried) == 1


def test_what_does_not_pass_is_raised_after_a_while(cluster: ScriptedCluster) -> None:
    cluster.script = ["close"] * 100
    with reader_of(cluster, patience_s=0.05) as reader, pytest.raises(ClientError, match="closed the connection"):
        read_all(reader)
    assert len(cluster.fetches) < 100


@pytest.mark.parametrize("seed", range(12))
def test_the_patience_begins_anew_with_each_answer(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A failure every 25 s: only what fails for more than 60 s at a stretch is raised."""
    dice, clock = Random(seed), Clock()
    monkeypatch.setattr(module, "time", clock)
    words = [dice.choice(("close", "moved", "")) for _ in range(9)]
    failed = "".join("x" if word else "." for word in words)
    with reader_of(cluster, patience_s=60.0) as reader:
        reader.describe()
        reader.seek(dict.fromkeys(LOGS, 0))
        for number, word in enumerate(words, 1):
            cluster.script = [word]
            clock.now_s += 25
            if failed[:number].endswith("xxxx"):
                with pytest.raises(ClientError):
                    list(reader.poll(0))
                return
            list(reader.poll(0))
            pauses = [0.01 * 2**many for many in range(len(failed[:number]) - len(failed[:number].rstrip("x")))]
            assert clock.slept[len(clock.slept) - len(pauses) :] == pytest.approx(pauses), "each twice the one before"


@pytest.mark.parametrize("cut", [0, 1, 12, 26, 27, 60, 61, 62])
def test_a_batch_that_is_cut_off_is_left_for_the_next_time(cut: int) -> None:
    whole = batch(5, b"one", b"two")
    assert cut_whole_batches(whole + batch(7, b"three")[:cut]) == (whole, 7)
    assert cut_whole_batches(whole[:cut]) == (b"", -1)


def test_a_link_too_slow_for_a_response_is_asked_for_less(cluster: ScriptedCluster) -> None:
    cluster.script = ["stall"] * 3
    with LogReader(cluster.addresses[:1], TOPIC, timeout=0.2, bytes_max=1 << 20) as reader:
        for _ in range(2):
            assert read_all(reader) == {number: b"".join(log) for number, log in LOGS.items()}
    asked = [request.max_bytes for _, _, request in cluster.fetches]
    assert asked[:4] == [1 << 20, 1 << 19, 1 << 18, 1 << 17]
    assert set(asked[4:]) == {1 << 17}, "no response since then was large enough to show what the link carries"


def test_large_responses_that_come_quickly_are_followed_by_larger_ones(cluster: ScriptedCluster) -> None:
    cluster.logs[0] = [batch(n, b"x" * (300 << 10)) for n in range(60)]
    cluster.ends[0] = 60
    with LogReader(cluster.addresses[:1], TOPIC, timeout=600.0) as reader:
        assert read_all(reader)[0] == b"".join(cluster.logs[0])
    asked = [request.max_bytes for _, _, request in cluster.fetches]
    assert asked[:4] == [1 << 20, 2 << 20, 4 << 20, 8 << 20]
    assert max(asked) == BYTES_MAX


SLOW_BYTES_PER_S, SLOW_LATENCY_S = 200_000, 0.2
READ_SLOWLY = """
import json, resource, sys, tracemalloc, zlib
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import EARLIEST, LATEST
tracemalloc.start()
sums = {}
with LogReader(sys.argv[1:], "__consumer_offsets", timeout=2.0) as reader:
    for one in reader.read(reader.offsets(EARLIEST), reader.offsets(LATEST), 500):
        sums[one.partition] = zlib.crc32(one.batches, sums.get(one.partition, 0))
print(json.dumps([sums, tracemalloc.get_traced_memory()[1]]))
"""


@pytest.mark.long
def test_over_a_slow_link_everything_comes_once_and_little_is_held() -> None:
    """200 KB/s with 200 ms of latency, of which 1 MiB does not come within the timeout. Most of what it carries is used."""
    logs = {n: [batch(at, os.urandom(3_000)) for at in range(500)] for n in range(2)}
    size = sum(len(raw) for log in logs.values() for raw in log)
    with ScriptedCluster(logs) as cluster, ExitStack() as links:
        slow = [
            links.enter_context(SlowLink(one, bytes_per_s=SLOW_BYTES_PER_S, latency_s=SLOW_LATENCY_S))
            for one in cluster.addresses
        ]
        cluster.addresses = [link.address for link in slow]
        words = [sys.executable, "-c", READ_SLOWLY, *cluster.addresses]
        began_s = time.monotonic()
        said = subprocess.run(words, capture_output=True, text=True, timeout=300)
        took_s = time.monotonic() - began_s
    assert said.returncode == 0, said.stderr
    sums, peak = json.loads(said.stdout)
    carried = sum(link.carried for link in slow)
    print(f"{size} bytes in {took_s:.1f} s, {carried} carried, {peak} held at most")
    assert sums == {str(n): zlib.crc32(b"".join(log)) for n, log in logs.items()}
    assert carried < 2 * size, "responses that came too late are few"
    assert peak < 8 << 20


def test_a_link_that_carries_nothing_is_reported(cluster: ScriptedCluster) -> None:
    cluster.script = ["stall"] * 50
    with (
        LogReader(cluster.addresses[:1], TOPIC, timeout=0.05, patience_s=0.2) as reader,
        pytest.raises(ClientError, match=r"does not respond: gave up after 0\.05 s"),
    ):
        read_all(reader)


def test_however_slow_a_link_is_a_response_has_some_bytes(cluster: ScriptedCluster) -> None:
    cluster.script = ["stall"] * 4
    with LogReader(cluster.addresses[:1], TOPIC, timeout=0.2, bytes_max=BYTES_LEAST * 2) as reader:
        assert read_all(reader) == {number: b"".join(log) for number, log in LOGS.items()}
    assert [request.max_bytes for _, _, request in cluster.fetches[1:5]] == [BYTES_LEAST] * 4
