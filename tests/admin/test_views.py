"""What operators see of offsets: how many were committed, ran out and were deleted."""

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from coordinator.admin import views
from coordinator.admin.views import count_in_steps
from coordinator.metrics import STEP_SAMPLES, GroupOffset, Stats, exposition
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.requests import commit, commit_in_transaction, delete_offsets
from tests.server.in_memory import InMemory
from tests.steps import count_steps, finish


def counted(server: InMemory) -> tuple[int, int, int]:
    """Offsets committed, expired, deleted."""
    now = finish(count_in_steps(server.node, {}, 0.0, 0))
    return now.offset_commits, now.offset_expirations, now.offset_deletions


def test_offsets_are_counted_a_partition() -> None:
    """Those that are refused are not."""
    server = InMemory()
    peer = server.connect()
    peer.ask(commit("g", {"orders": {0: 5, 1: 5, 2: 5, 99: 5}}), 8)
    peer.ask(commit("another", {"orders": {0: 5}}), 8)
    assert counted(server) == (4, 0, 0)
    producer = peer.ask(InitProducerIdRequest("x", 60_000), 4)
    peer.ask(commit_in_transaction("t", "g", (producer.producer_id, 0), {"orders": {3: 1}}), 5)
    assert counted(server) == (4, 0, 0), "no such transactional id"
    peer.ask(commit_in_transaction("x", "g", (producer.producer_id, 0), {"orders": {3: 1}}), 5)
    assert counted(server) == (5, 0, 0)


def test_offsets_deleted_by_request_are_counted() -> None:
    server = InMemory()
    peer = server.connect()
    peer.ask(commit("g", {"orders": {0: 5, 1: 5, 2: 5}}), 8)
    peer.ask(delete_offsets("g", {"orders": (1, 3)}), 0)
    assert counted(server) == (3, 0, 1), "of the other one there was nothing to delete"
    peer.ask(DeleteGroupsRequest(("g",)), 2)
    assert counted(server) == (3, 0, 3), "the group's own record is not an offset"


def test_offsets_that_run_out_are_counted() -> None:
    server = InMemory(offsets_retention_minutes=1)
    server.connect().ask(commit("g", {"orders": {0: 5, 1: 5}}), 8)
    server.advance(1_800)
    assert counted(server) == (2, 2, 0)
    assert not server.node.world.partitions.owner("g").shard.groups


def test_groups_and_offsets_are_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others come and go in between."""
    monkeypatch.setattr(views, "STEP_GROUPS", 10)
    server = InMemory()
    peer = server.connect()
    for number in range(100):
        peer.ask(commit(f"g{number}", {"orders": {0: 5, 1: 5}}), 8)
    counting = count_in_steps(server.node, {}, 0.0, 0)
    for number in range(10):
        next(counting)
        peer.ask(DeleteGroupsRequest((f"g{number}",)), 2)
        peer.ask(commit(f"h{number}", {"orders": {0: 5}}), 8)
    now = finish(counting)
    assert 90 <= now.groups["classic", "Empty"] <= 110
    assert 180 <= len(now.group_offsets) <= 220
    assert now.offsets == 190
    again = count_in_steps(server.node, {}, 0.0, 0)
    assert sum(1 for _ in again) >= 10 + 19


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_metrics_are_written_in_steps(accept: str) -> None:
    """So many series a step, and all of them are the text that one step would write."""
    server = InMemory()
    now = finish(count_in_steps(server.node, {}, 0.0, 0))
    many = [GroupOffset(f"g{number:03}", "t", 0, number, None) for number in range(5 * STEP_SAMPLES)]
    writing = exposition(Stats(), replace(now, group_offsets=many), str, accept)
    steps, (data, _) = count_steps(writing)
    text = data.decode()
    assert steps > 6 + 20
    assert text.count("# TYPE muster_group_committed_offset gauge") == 1
    assert text.count("muster_group_committed_offset{") == len(many)
    assert text.count("# EOF") == (1 if accept else 0)
    assert text.endswith("# EOF\n" if accept else "\n")
    families = text_string_to_metric_families if not accept else openmetrics_families
    found = {family.name: family for family in families(text)}
    assert [sample.value for sample in found["muster_group_committed_offset"].samples] == list(range(len(many)))
    assert "process_resident_memory_bytes" in found
