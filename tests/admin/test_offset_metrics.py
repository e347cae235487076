"""Lag, committed offsets and traffic by topic: what a scrape shows of them, and how it is bounded."""

import pytest

from coordinator.admin.views import count_in_steps
from coordinator.dataplane.traffic import OTHER, TOPICS_MAX, TrafficByTopic
from coordinator.dataplane.unopened import UnopenedLogs
from coordinator.metrics import GroupOffset
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.record_batch import encode
from protocol.records import Record
from storage.extent import Extent, measure
from storage.memory_files import MemoryFiles
from storage.names import partition_of
from storage.outdated import segments_size
from tests import requests
from tests.admin.produced import produce
from tests.dataplane.broker import batch
from tests.requests import commit
from tests.server.in_memory import InMemory, Peer
from tests.steps import finish


def fetch(peer: Peer, partition: int) -> None:
    peer.ask(requests.fetch("orders", partition), 11)


def offsets(server: InMemory) -> list[GroupOffset]:
    return list(finish(count_in_steps(server.node, {}, 0.0, 0)).group_offsets)


def test_lag_is_what_lies_between_the_committed_offset_and_the_end() -> None:
    server = InMemory()
    peer = server.connect()
    produce(peer, 0, b"1", b"2", b"3")
    produce(peer, 1, b"1")
    peer.ask(commit("g", {"orders": {0: 1, 1: 9, 2: 0}}), 8)
    assert offsets(server) == [
        GroupOffset("g", "orders", 0, 1, 2),
        GroupOffset("g", "orders", 1, 9, -8),  # beyond the end
        GroupOffset("g", "orders", 2, 0, None),  # nobody has looked at its log
    ]


def test_series_of_offsets_are_bounded_and_can_be_turned_off() -> None:
    server = InMemory(metrics_offsets_max=2)
    server.connect().ask(commit("g", {"orders": {0: 1, 1: 1, 2: 1}}), 8)
    now = finish(count_in_steps(server.node, {}, 0.0, 0))
    assert (len(now.group_offsets), now.offsets) == (2, 3)
    server = InMemory(metrics_offsets_max=0)
    server.connect().ask(commit("g", {"orders": {0: 1}}), 8)
    assert offsets(server) == []


def test_states_of_groups_have_series_from_zero() -> None:
    now = finish(count_in_steps(InMemory().node, {}, 0.0, 0))
    assert now.groups["classic", "Stable"] == now.groups["consumer", "Reconciling"] == 0
    assert ("classic", "Dead") not in now.groups
    assert now.members == {"classic": 0, "consumer": 0, "share": 0, "streams": 0}


def test_records_and_bytes_are_counted_in_and_out() -> None:
    server = InMemory()
    peer = server.connect()
    size = produce(peer, 0, b"1", b"2", b"3") + produce(peer, 0, b"4")
    fetch(peer, 0)
    fetch(peer, 0)
    traffic = server.node.world.dataplane.traffic["orders"]
    assert (traffic.records_in, traffic.bytes_in) == (4, size)
    assert (traffic.records_out, traffic.bytes_out) == (8, 2 * size)


def test_topics_beyond_the_bound_are_counted_together() -> None:
    traffic = TrafficByTopic()
    for number in range(TOPICS_MAX + 5):
        traffic.count_in(f"t{number}", 1, 10)
    traffic.count_in("t0", 1, 10)
    assert len(traffic.topics) == TOPICS_MAX + 1
    assert traffic.topics[OTHER].records_in == 5
    assert traffic.topics["t0"].records_in == 2


def test_a_topic_that_is_deleted_leaves_its_place_to_another_one() -> None:
    """Tests make and delete many topics on one server."""
    server = InMemory(topics={f"t{number}": 1 for number in range(TOPICS_MAX + 1)})
    peer = server.connect()
    traffic = server.node.world.dataplane.traffic
    for number in range(TOPICS_MAX):
        peer.ask(requests.produce(f"t{number}", {0: batch("a")}), 9)
    last = requests.produce(f"t{TOPICS_MAX}", {0: batch("a")}), 9
    peer.ask(*last)
    assert f"t{TOPICS_MAX}" not in traffic and OTHER in traffic
    peer.ask(DeleteTopicsRequest(topic_names=("t0",)), 5)
    assert "t0" not in traffic
    peer.ask(*last)
    assert traffic[f"t{TOPICS_MAX}"].records_in == 1


def test_lag_and_sizes_are_known_after_a_start_without_opening_the_logs() -> None:
    server = InMemory()
    peer = server.connect()
    size = produce(peer, 0, *[b"x" * 100] * 50) + produce(peer, 0, b"1")
    peer.ask(commit("g", {"orders": {0: 11}}), 8)
    server.node.close()
    server = InMemory(server.files)
    while not offsets(server)[0].lag:  # each scrape measures a little
        pass
    assert offsets(server) == [GroupOffset("g", "orders", 0, 11, 40)]
    assert finish(count_in_steps(server.node, {}, 0.0, 0)).log_bytes["orders"] == size
    size += produce(server.connect(), 0, b"2")  # which opens it
    server.connect().ask(commit("g", {"orders": {0: 11}}), 8)
    assert offsets(server) == [GroupOffset("g", "orders", 0, 11, 41)]
    sizes = finish(count_in_steps(server.node, {}, 0.0, 0)).log_bytes
    assert sizes["orders"] == size
    server.node.close()
    on_disk = dict.fromkeys(sizes, 0)
    for name in server.files.list("data"):
        if (found := partition_of(name)) is not None:
            on_disk[found[0]] += segments_size(server.files, f"data/{name}")
    assert sizes == on_disk, "those of the coordinator's own logs as well, which have grown"


def test_a_torn_write_does_not_count() -> None:
    files = MemoryFiles()
    whole = encode([Record(None, b"1"), Record(None, b"2")])
    files.make_directory("data/t-0")
    file = files.open("data/t-0/00000000000000000007.log", create=True)
    file.append(whole + whole[:30])
    steps = measure(files, "data/t-0")
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == Extent(len(whole) + 30, 2)


def test_a_scrape_does_not_hold_up_the_clients() -> None:
    looked = 0

    def has_time() -> bool:
        nonlocal looked
        looked += 1
        return looked % 3 != 0

    files = MemoryFiles()
    partitions = [("t", index) for index in range(5)]
    unopened = UnopenedLogs(files, lambda: partitions, lambda topic, index: f"data/{topic}-{index}")
    unopened.look(has_time, lambda partition: partition == ("t", 4))
    assert len(unopened.known) == 3
    unopened.look(has_time, lambda partition: False)
    assert len(unopened.known) == 4, "one was open from the beginning"
    unopened.forget(("t", 0))
    unopened.look(has_time, lambda partition: False)
    assert ("t", 0) not in unopened.known


def test_waits_for_the_disk_are_counted_only_where_there_are_any() -> None:
    for is_synced in (False, True):
        server = InMemory(is_synced=is_synced)
        server.connect().ask(commit("g", {"orders": {0: 1}}), 8)
        assert any(finish(count_in_steps(server.node, {}, 0.0, 0)).syncs.buckets) is is_synced
