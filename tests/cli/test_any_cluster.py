"""`why`, `events` and `groups watch` by nothing but the log that every Kafka has, here that of a Muster."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import main
from coordinator.client import Client
from coordinator.client.cluster import Cluster
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import EARLIEST, LATEST
from protocol import record_batch
from protocol.messages import consumer_protocol as embedded
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequestAssignment
from tests.cli.command import Command, records
from tests.live import Muster, wait_until
from tests.members import ClassicMember, ConsumerMember
from tests.requests import commit

OWNED = embedded.write(  # as a leader may write it: Kafka's clients take all that stands there
    embedded.ConsumerProtocolAssignment(
        tuple(embedded.ConsumerProtocolAssignmentTopicPartition("orders", some) for some in ((3, 0), (), (2, 1)))
    )
)
OPTIONS = ("--topic", "orders:4", "--set", "group.initial.rebalance.delay.ms=0")


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    with Muster(tmp_path, *OPTIONS) as server:
        yield server


def join_alone(client: Client, group: str) -> ClassicMember:
    member = ClassicMember(client, group)
    assert member.join().error_code == 0
    assert member.sync(SyncGroupRequestAssignment(member.member_id, OWNED)).error_code == 0
    return member


def leave(client: Client, member: ClassicMember) -> None:
    from protocol.messages.leave_group import LeaveGroupRequest

    assert client.ask(LeaveGroupRequest(member.group, member.member_id), 2).error_code == 0


def test_why_tells_a_join_and_a_leave_and_what_the_lag_is(muster: Muster, command: Command) -> None:
    records(muster.kafka, "orders", {0: 7})
    with Client.to(muster.kafka, client_id="till") as client:
        member = join_alone(client, "shop")
        assert (
            not client.ask(commit("shop", {"orders": {0: 5}}, member.generation, member_id=member.member_id), 7)
            .topics[0]
            .partitions[0]
            .error_code
        )
        (shown,) = command.json("groups", "describe", "shop")[0]["members"]
        assert shown["assignment"] == muster.steer("GET", "/groups/shop")["members"][0]["assignment"]
        assert shown["assignment"] == {"orders": [0, 1, 2, 3]}
        leave(client, member)
    first, joined, left, now = command.lines("why", "shop", "--inferred")
    assert "(0 -> 1 members, 4 partitions moved)" in joined
    assert first.startswith("shop: 2 rebalances in ")
    assert 'Stable (generation 1) member joined: "till"' in joined
    assert joined.endswith("[inferred]")
    assert 'Empty (generation 2) group empty; member left: "till"' in left
    assert now == "now: Empty, 0 members, lag 2"


def test_a_group_of_which_nothing_is_shown_is_told_when_it_last_rebalanced(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        leave(client, join_alone(client, "shop"))
        assert client.ask(commit("tool", {"orders": {0: 5}}), 7).topics[0].partitions[0].error_code == 0
        with LogReader([muster.kafka], "__consumer_offsets") as reader:
            end = max(reader.offsets(LATEST).values())
    code, lines, complaint = command("why", "shop", "--inferred", "--since", str(end))
    assert (code, lines) == (1, [])
    assert re.fullmatch(
        rf"muster why: no rebalance of 'shop' from offset {end} on; the last was \d+ s ago: "
        r'group empty; member left: "till" \([^)]*\) \(1 -> 0 members, 4 partitions moved\)\n',
        complaint,
    )
    assert command("why", "tool", "--inferred")[2] == (
        "muster why: no rebalance of 'tool' is in the log, as far as it was read\n"
    )
    for words in ((), ("--since", str(end)), ("--since", "1h")):
        code, lines, complaint = command("events", "tool", *words)
        assert (code, lines, complaint.count("\n")) == (1, [], 1)
        assert complaint.startswith("muster events: no rebalance of 'tool' ")
    assert command("why", "nosuch", "--inferred")[2] == (
        "muster why: no group 'nosuch', and nothing of it is in the log, as far as it was read\n"
    )


def test_a_process_that_restarts_is_counted_by_what_stays_the_same(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        for _ in range(3):
            leave(client, join_alone(client, "shop"))
    first, second, *_ = command.lines("why", "shop", "--inferred")
    assert first.endswith('; client id "till" came or went in 6 of them')
    assert re.search(r", \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ to .*Z; most often", first)
    assert re.match(r"#\d+ \+0\.000s \d\d:\d\d:\d\dZ Stable", second)


def test_a_group_that_waits_says_for_whom_and_since_when_it_is_silent(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        first = ConsumerMember(client, "m-1", "modern")
        assert first.beat().error_code == 0
        offsets = commit("modern", {"orders": {0: 5}}, first.epoch, member_id="m-1")
        assert client.ask(offsets, 9).topics[0].partitions[0].error_code == 0
        second = ConsumerMember(client, "m-2", "modern")

        def find_state() -> str:
            assert second.beat().error_code == 0
            return command.lines("why", "modern", "--inferred")[-1]

        wait_until("the target is computed", lambda: "Reconciling" in find_state())
        now = find_state()
    assert re.fullmatch(
        r'now: Reconciling, 2 members(, lag 0, 1 committed offset beyond the end)?; waits for "till" \(m-1\), which is at epoch \d of \d, '
        r"no commit since \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ",
        now,
    )


def test_the_brokers_of_the_environment_are_asked_where_no_admin_port_is_named(
    muster: Muster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        join_alone(client, "shop")
    monkeypatch.setenv("MUSTER_BOOTSTRAP", muster.kafka)
    monkeypatch.delenv("MUSTER_ADMIN", raising=False)
    assert main(["why", "shop"]) == 0
    assert "[inferred]" in capsys.readouterr().out
    monkeypatch.setenv("MUSTER_ADMIN", muster.ready["admin"])
    assert main(["why", "shop"]) == 0
    assert "(by JoinGroup)" in capsys.readouterr().out


def test_exact_causes_are_preferred_where_the_admin_port_knows_the_same_members(
    muster: Muster, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_ADMIN", muster.ready["admin"])
    with Client.to(muster.kafka, client_id="till") as client:
        join_alone(client, "shop")
        assert "(by JoinGroup)" in "".join(command.lines("why", "shop"))
        assert "[inferred]" in "".join(command.lines("why", "shop", "--inferred"))


def test_a_line_says_why_the_causes_are_inferred_where_exact_ones_were_looked_for(
    muster: Muster, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_ADMIN", "127.0.0.1:1")
    with Client.to(muster.kafka, client_id="till") as client:
        leave(client, join_alone(client, "shop"))
    sentence = "muster why: no Muster at 127.0.0.1:1 knows the group (--admin, $MUSTER_ADMIN): the causes are inferred"
    assert command("why", "shop")[2] == f"{sentence}\n"
    assert command("why", "shop", "--inferred")[2] == ""
    monkeypatch.setenv("MUSTER_ADMIN", muster.ready["admin"])
    address = muster.ready["admin"].removeprefix("http://")
    sentence = f"muster why: the Muster at {address} does not have the group's members"
    assert command("why", "shop")[2] == f"{sentence}: the causes are inferred\n"


def test_of_a_share_group_the_log_tells_who_came_and_what_they_want_but_not_how_they_went(
    muster: Muster, command: Command
) -> None:
    with Client.to(muster.kafka, client_id="till") as client:

        def beat(member: str, epoch: int, topics: tuple[str, ...] | None = ("orders",)) -> int:
            answer = client.ask(ShareGroupHeartbeatRequest("queue", member, epoch, None, topics))
            assert answer.error_code == 0, answer
            return int(answer.member_epoch)

        epoch = beat("a" * 22, 0)
        beat("b" * 22, 0)
        beat("a" * 22, epoch, ("orders", "payments"))
        beat("b" * 22, -1, None)
    lines = command.lines("why", "queue", "--inferred")[1:-1]
    told = [line for line in lines if "cause not known" not in line]  # an epoch for the states of new partitions
    assert ["member joined" in line for line in told] == [True, True, False, False]
    assert "subscription changed" in told[2]
    assert "member left or its session expired" in told[3]
    assert told[3].endswith("[inferred, not certain]")


def test_the_groups_that_rebalance_most_come_first(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        join_alone(client, "calm")
        for _ in range(3):
            leave(client, join_alone(client, "shaky"))
        ConsumerMember(client, "m-1", "modern").beat()
    head, first, *others = command.lines("why")
    assert head == "GROUP TYPE REBALANCES MEMBERS LAST CAUSES"
    assert first.startswith("shaky classic 6 0 ")
    assert {line.split()[0] for line in others} == {"calm", "modern"}
    assert json.loads("\n".join(command("why", "--json")[1]))[0]["group"] == "shaky"


def test_since_leaves_out_what_came_before_and_still_knows_the_cause(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        member = join_alone(client, "shop")
        with LogReader([muster.kafka], "__consumer_offsets") as reader:
            end = max(reader.offsets(LATEST).values())
        leave(client, member)
    _, line, _ = command.lines("why", "shop", "--since", str(end))
    assert "member left" in line
    assert "cause not known" not in line
    code, lines = command("why", "shop", "--since", "999999999d")[:2]
    assert code == 0 and any("member left" in line for line in lines), "all of it, as it is before 1970"


def test_following_shows_a_rebalance_when_it_happens(muster: Muster) -> None:
    words = ["-u", "-m", "coordinator", "events", "--follow", "--json", "--bootstrap-server", muster.kafka]
    with Client.to(muster.kafka, client_id="till") as client:
        leave(client, join_alone(client, "shop"))
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
            lines: list[str] = []
            threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True).start()

            def come_and_go() -> bool:
                """The process begins to look at some time: something happens until it has seen it."""
                leave(client, join_alone(client, "shop"))
                return {"join", "emptied"} <= {json.loads(line)["cause"]["kind"] for line in list(lines)}

            try:
                wait_until("a join and a leave are told", come_and_go)
            finally:
                process.terminate()
    assert all(json.loads(line)["source"] == "inferred" for line in lines)


def test_a_reader_follows_a_log_over_moves_and_restarts_of_brokers(tmp_path: Path) -> None:
    """Two brokers: the group moves to the other one, and each of them stops and comes back. Every batch comes once."""
    with Muster(tmp_path, *OPTIONS, "--brokers", "2") as muster:
        brokers = muster.ready["listeners"]

        def commit_once(offset: int) -> None:
            def codes(answer: OffsetCommitResponse) -> list[int]:
                return [one.error_code for topic in answer.topics for one in topic.partitions]

            with Cluster(brokers) as cluster:
                answer = cluster.ask_coordinator("shop", commit("shop", {"orders": {0: offset}}), codes, up_to=7)
            assert codes(answer) == [0]

        commit_once(0)
        with LogReader(brokers, "__consumer_offsets", timeout=10.0) as reader:
            followed = dict.fromkeys(reader.describe().leaders, b"")
            reader.seek(reader.offsets(EARLIEST))

            def read_on() -> bool:
                for fetched in reader.poll(50):
                    followed[fetched.partition] += fetched.batches
                return reader.positions == reader.offsets(LATEST)

            home = muster.steer("GET", "/coordinators/shop")["broker"]
            for number, happen in enumerate(
                [
                    lambda: muster.steer("POST", "/coordinators/shop/move", to=1 - home),
                    lambda: muster.steer("POST", "/brokers/0/stop"),
                    lambda: muster.steer("POST", "/brokers/0/start"),
                    lambda: muster.steer("POST", "/brokers/rolling-restart"),
                ],
                1,
            ):
                wait_until("everything was read", read_on)
                happen()
                commit_once(number)
            wait_until("everything was read", read_on)
        with LogReader(brokers, "__consumer_offsets") as reader:
            afresh = dict.fromkeys(followed, b"")
            for fetched in reader.read(reader.offsets(EARLIEST), reader.offsets(LATEST)):
                afresh[fetched.partition] += fetched.batches
    assert followed == afresh
    assert sum(len(list(record_batch.batches(one))) for one in followed.values()) >= 5


def test_a_table_of_all_groups_shows_state_lag_and_cause(muster: Muster, command: Command) -> None:
    records(muster.kafka, "orders", {0: 7})
    with Client.to(muster.kafka, client_id="till") as client:
        member = join_alone(client, "shop")
        client.ask(commit("shop", {"orders": {0: 5}}, member.generation, member_id=member.member_id), 7)
        lines = command.lines("groups", "watch", "--count", "2", "--every", "0.01")
        assert lines[0] == lines[2] == "GROUP TYPE STATE MEMBERS LAG LAG/S BEYOND-END REBALANCED AGO WHY"
        assert lines[1].startswith("shop classic Stable 1 2 - - 1 ")
        assert lines[3].startswith("shop classic Stable 1 2 +0.0 - 1 ")
        assert 'member joined: "till"' in lines[3]
        (row,) = json.loads("\n".join(command("groups", "watch", "--count", "1", "--json")[1]))
        assert (row["group"], row["lag"], row["rebalances"]) == ("shop", 2, 1)


def test_offsets_beyond_the_end_of_a_topic_that_was_made_anew_are_told(muster: Muster, command: Command) -> None:
    records(muster.kafka, "orders", {0: 7, 1: 3})
    with Client.to(muster.kafka, client_id="till") as client:
        member = join_alone(client, "shop")
        client.ask(commit("shop", {"orders": {0: 50, 1: 1}}, member.generation, member_id=member.member_id), 7)
        assert command.lines("why", "shop", "--inferred")[-1].endswith(", lag 2, 1 committed offset beyond the end")
        head, first, second, *_ = command.lines("groups", "describe", "shop")[:4]
        assert head.endswith(", lag 2, 1 committed offset beyond the end")
        assert second.startswith("orders 0 50 7 -43 "), first
        (row,) = json.loads("\n".join(command("groups", "watch", "--count", "1", "--json")[1]))
        assert (row["lag"], row["beyond_end"]) == (2, 1)
        assert command.lines("groups", "watch", "--count", "1")[1].startswith("shop classic Stable 1 2 - 1 1 ")


def test_nothing_is_written_to_the_cluster(muster: Muster, command: Command) -> None:
    with Client.to(muster.kafka, client_id="till") as client:
        join_alone(client, "shop")
        before = {file: file.read_bytes() for file in muster.data_dir.rglob("*.log")}
        for words in (
            ("why", "shop", "--inferred"),
            ("why",),
            ("events", "--since", "1d"),
            ("groups", "watch", "--count", "1"),
        ):
            assert command(*words)[0] == 0
        assert {file: file.read_bytes() for file in muster.data_dir.rglob("*.log")} == before


def test_what_a_cluster_forbids_is_said_in_one_line_with_what_to_grant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with Muster(tmp_path, "--set", authorizer, "--set", "super.users=User:admin") as muster:
        command = Command(muster.kafka, capsys)
        for words in (("why", "shop"), ("why",), ("events", "--since", "1h")):
            code, lines, complaint = command(*words)
            assert (code, lines, len(complaint.splitlines())) == (1, [], 1)
            assert "grant it READ and DESCRIBE on it" in complaint
        code, lines, complaint = command("groups", "watch", "--count", "1")
        assert (code, len(lines)) == (0, 1), "the table is shown without rebalances"
        assert "rebalances are not shown" in complaint


def test_a_group_that_the_user_may_not_describe_is_in_the_table_by_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    everybody = ("--set", authorizer, "--set", "allow.everyone.if.no.acl.found=true")
    with Muster(tmp_path, *OPTIONS, *everybody) as muster:
        command = Command(muster.kafka, capsys)
        with Client.to(muster.kafka, client_id="till") as client:
            leave(client, join_alone(client, "shop"))
        denied = ("acls", "add", "--deny-principal", "User:*", "--operation", "DESCRIBE")
        assert [command(*denied, *what)[0] for what in (("--group", "*"), ("--cluster",))] == [0, 0]
        head, row = command.lines("groups", "watch", "--count", "1")
    assert head == "GROUP TYPE STATE MEMBERS LAG LAG/S BEYOND-END REBALANCED AGO WHY"
    assert row.startswith("shop classic - - - - - 2 ")
    assert 'member left: "till"' in row
