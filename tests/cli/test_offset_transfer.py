"""`muster offsets export` and `import`, where a transcript cannot bring it about: many offsets, failures, and topics that go
meanwhile."""

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import offset_transfer
from coordinator.cli.offset_transfer import PlannedCommit
from coordinator.client import Client, ClientError
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.cli.command import Command
from tests.live import Muster, server_fixture

muster = server_fixture("--topic", "orders:3", "--topic", "payments:1", "--ephemeral")


def test_offsets_of_topics_that_are_gone_are_left_out(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command.lines("offsets", "set", "orphan", "payments:0=0", "orders:0=0")
    monkeypatch.setattr("coordinator.cli.offset_transfer._partition_counts", lambda cluster, topics: {"orders": 3})
    code, lines, complaint = command("offsets", "export", "orphan")
    assert (code, complaint) == (0, "1 offset of deleted topics left out\n")
    assert json.loads("\n".join(lines))["groups"]["orphan"].keys() == {"orders"}


@pytest.mark.parametrize(("offset", "end", "expected"), [(5, 10, 3), (8, 10, 4), (10, 10, 6), (12, 10, 6), (0, 100, 3)])
def test_a_lag_that_is_kept_never_leads_before_the_start(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, end: int, expected: int
) -> None:
    """The partition has the offsets 3 to 6."""
    there = {("orders", 0): (3, 6)}
    monkeypatch.setattr("coordinator.cli.offset_transfer._ranges", lambda cluster, export, missing: there)
    groups = {"lagging": {"orders": {"0": {"offset": offset, "end": end}}}}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "topics": {"orders": 3}, "groups": groups}))
    assert command("offsets", "import", str(file), "--by", "lag")[0] == 0
    assert [found["offset"] for found in command.json("offsets", "show", "lagging")] == [expected]


OLD, NEW = 1, 2  # an offset in each partition
GROUPS = ("few", "many", "more")
COMMITS = (OffsetCommitRequest, InitProducerIdRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)
PARTITIONS = {"few": 1, "many": 3, "more": 2}  # of `orders`; of many it takes a transaction


def test_many_offsets_go_in_one_transaction(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests_of(monkeypatch)
    import_all(command, tmp_path, monkeypatch, NEW)
    assert [type(request) for request in asked] == [
        OffsetCommitRequest,
        *(InitProducerIdRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, TxnOffsetCommitRequest, EndTxnRequest),
        OffsetCommitRequest,
    ]
    assert [committed_partitions(command, group) for group in GROUPS] == [{NEW}] * 3


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("at", range(7))
def test_an_import_that_fails_leaves_each_group_its_old_offsets_or_the_new_ones(
    command: Command, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, is_sent: bool
) -> None:
    """It fails at one of its requests, before the server has it or after, as if the connection broke; or it is killed:
    no request follows."""
    import_all(command, tmp_path, monkeypatch, OLD)
    with monkeypatch.context() as patch:
        requests_of(patch, fails_at=at, is_sent=is_sent)
        complaint = import_all(command, tmp_path, patch, NEW)
    assert "the same command sets all of them" in complaint
    found = {group: committed_partitions(command, group) for group in GROUPS}
    assert all(offsets in ({OLD}, {NEW}) for offsets in found.values()), found
    done = sum(offsets == {NEW} for offsets in found.values())
    said = int(complaint.split(" of 3 groups set before")[0].split("; ")[-1])
    assert said in (done, done - is_sent)
    import_all(command, tmp_path, monkeypatch, NEW)
    assert [committed_partitions(command, group) for group in GROUPS] == [{NEW}] * 3
    with Client.to(muster.ready["kafka"]) as client:
        group = OffsetFetchRequestGroup(group_id="many", topics=None)
        (found,) = client.ask(OffsetFetchRequest(groups=(group,), require_stable=True), 8).groups
    errors = {one.error_code for topic in found.topics for one in topic.partitions}
    assert errors == {0}, "no transaction of the import that failed is open"


@pytest.mark.parametrize("group", GROUPS)
def test_an_offset_that_the_broker_refuses_is_told_and_those_of_its_transaction_stay(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """Many are one transaction, of which it is in the last portion. In a single commit the others are set."""
    import_all(command, tmp_path, monkeypatch, OLD)
    offsets: dict[str, Any] = {str(partition): {"offset": NEW} for partition in range(PARTITIONS[group])}
    offsets[str(PARTITIONS[group] - 1)]["metadata"] = "x" * 5_000
    file = tmp_path / "refused.json"
    file.write_text(json.dumps({"version": 1, "topics": {"orders": 3}, "groups": {group: {"orders": offsets}}}))
    code, _, complaint = command("offsets", "import", str(file), "--out-of-range", "commit")
    assert code == 1
    assert f"set the offset of {group} in orders:{PARTITIONS[group] - 1}" in complaint
    assert committed_partitions(command, group) == ({OLD, NEW} if group == "more" else {OLD})


def test_offsets_and_topics_and_bytes_of_one_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = [PlannedCommit("g", f"t{number}", 0, 0, None, "") for number in range(2_500)]
    assert [len(one) for one in offset_transfer._portions(plan)] == [1_000, 1_000, 500]
    plan = [PlannedCommit("g", "t", number, 0, None, "x" * 4_096) for number in range(200)]
    assert max(sum(len(one.metadata) for one in portion) for portion in offset_transfer._portions(plan)) <= 512 << 10


def requests_of(monkeypatch: pytest.MonkeyPatch, fails_at: int | None = None, *, is_sent: bool = False) -> list[Any]:
    """Return the requests that change offsets, as they are sent. From that one on, they fail."""
    asked: list[Any] = []
    ask = Client.ask

    def note(client: Client, request: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(request, COMMITS):
            return ask(client, request, *args, **options)
        asked.append(request)
        if fails_at is None or len(asked) <= fails_at:
            return ask(client, request, *args, **options)
        if is_sent and len(asked) == fails_at + 1:
            ask(client, request, *args, **options)
        raise ClientError("the connection is lost")

    monkeypatch.setattr(Client, "ask", note)
    return asked


def import_all(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, offset: int) -> str:
    """Import one offset for all groups. Returns what is said on standard error."""
    monkeypatch.setattr(offset_transfer, "AT_ONCE", 3)
    groups = {
        group: {"orders": {str(partition): {"offset": offset} for partition in range(count)}}
        for group, count in PARTITIONS.items()
    }
    file = folder / "offsets.json"
    file.write_text(json.dumps({"version": 1, "topics": {"orders": 3}, "groups": groups}))
    return command("offsets", "import", str(file), "--out-of-range", "commit")[2]


def committed_partitions(command: Command, group: str) -> set[int]:
    """Return the offsets that the group has committed, in all of its partitions."""
    found = command.json("offsets", "show", group)
    assert len(found) == PARTITIONS[group]
    return {one["offset"] for one in found}
