"""What a process keeps over a reset and a restore, and what begins anew. The verbs themselves are tested in memory."""

from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.client import Client, ClientError
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from tests.live import Muster, wait_until
from tests.requests import join

UPKEEP = {"retention", "transactional_ids", "share_states"}


def look(server: Muster, at: int) -> tuple[str, list[int], list[str]]:
    """What a broker says of its cluster: the id, the brokers, the topics."""
    with Client.to(server.ready["listeners"][at]) as client:
        found = client.ask(MetadataRequest(topics=None))
    return (
        found.cluster_id,
        [one.node_id for one in found.brokers],
        sorted(one.name for one in found.topics if not one.is_internal),
    )


def kinds_of_deadlines(server: Muster) -> set[str]:
    return {one["kind"] for one in server.steer("GET", "/clock?limit=1000")["deadlines"]}


def take_producer_id(server: Muster) -> int:
    with Client.to(server.kafka) as client:
        producer_id: int = client.ask(InitProducerIdRequest(None)).producer_id
    return producer_id


def test_a_process_that_is_reset_and_restored_is_the_same_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--ephemeral", "--brokers", "2", "--topic", "orders:1", "--seed", "7")
    with Muster(tmp_path, *options, "--set", "journal.max.bytes=1000000") as server:
        server.steer("POST", "/state", topics={"kept": 1}, offsets={"g": {"kept": {"0": 5}}})
        server.steer("PUT", "/snapshots/one")
        cluster_id, brokers, _ = look(server, 0)
        producer_ids, numbers = [take_producer_id(server)], [0]
        for path, topics in (
            ("/reset", ["orders"]),
            ("/snapshots/one/restore", ["kept", "orders"]),
            ("/reset", ["orders"]),
        ):
            server.steer("POST", "/brokers/1/stop")
            with pytest.raises(ClientError):
                look(server, 1)
            server.steer("PUT", "/clock", mode="frozen")
            with Client.to(server.kafka) as client:
                client.ask(join("rebalances"), 3)
                assert server.metric("muster_rebalances_total") == 1, "those of before the last one are forgotten"
                server.steer("POST", path)
                with pytest.raises(ClientError, match="closed the connection"):
                    client.ask(MetadataRequest())
            for at in (0, 1):  # the one that was stopped listens again, where it did
                assert look(server, at) == (cluster_id, brokers, topics)
            assert server.steer("GET", "/clock")["mode"] == "real"
            producer_ids.append(take_producer_id(server))
            numbers.append(server.steer("GET", "/journal")["latest"])
            if path == "/reset":
                journal = tmp_path / "journal.jsonl"
                journal.write_text(server.get("/v1/journal/file"))
                assert main(["replay", str(journal)]) == 0, capsys.readouterr().out
        wait_until("the node of now is looked after", lambda: kinds_of_deadlines(server) >= UPKEEP)
        assert len(set(producer_ids)) == len(producer_ids), "a producer of before may write yet"
        assert numbers == sorted(set(numbers)), "they go on"
        assert '"ready": true' in server.get("/readyz")
        assert server.metric("muster_partitions", state="loading") == 0
