"""Commands that go on until Ctrl-C: `--follow` and `--watch`. A pause is the moment at which the test acts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.cli import events, main, watch
from coordinator.cli.cluster import Cluster
from coordinator.cli.group_consumer import GroupConsumer
from coordinator.client import Client, ClientError
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from tests.cli.command import classic_member, squeeze
from tests.live import Muster, server_fixture

POLLS_MAX = 400  # far more than any of these groups needs


muster = server_fixture(
    "--topic=orders:2",
    "--set=group.consumer.assignment.interval.ms=0",
    "--set=group.consumer.heartbeat.interval.ms=100",
    "--set=group.consumer.min.heartbeat.interval.ms=100",
)


def interrupt_after(steps: list[Callable[[], object]]) -> Callable[[float], None]:
    """A `sleep` that takes a step at each pause, and is interrupted when there are none left."""

    def sleep(_: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    return sleep


def test_events_follow_prints_what_happens(
    muster: Muster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client.to(muster.kafka) as client:
        classic_member(client, "followed", {"orders": (0,)})

        def leave() -> None:
            member = str(capsys.readouterr().out.split("member ")[-1].split()[0]).rstrip("…")
            assert member.startswith("muster-")
            client.ask(LeaveGroupRequest("followed", members=(LeaveGroupRequestMemberIdentity(full_id(client)),)))

        monkeypatch.setattr(events.time, "sleep", interrupt_after([leave, lambda: None]))
        assert main(["events", "followed", "--follow", "--admin", muster.ready["admin"]]) == 0
    assert "followed  member left  Stable -> " in capsys.readouterr().out


def test_events_follow_survives_a_restart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def event(group: str) -> dict[str, object]:
        return {"at_ms": 0, "group": group, "cause": "group_created"}

    def page(latest: int, *groups: str) -> dict[str, object]:
        return {"latest": latest, "events": [{"number": latest, "event": event(group)} for group in groups]}

    pages: list[dict[str, object] | None] = [page(7, "before"), page(7), None, None, page(1), page(1, "after")]

    def answer(*_: object) -> dict[str, object]:
        found = pages.pop(0) if pages else None
        if found is None:
            raise ClientError("cannot connect to the server")
        return found

    monkeypatch.setattr(events, "get_json", answer)
    monkeypatch.setattr(events.time, "sleep", lambda _: None)
    assert main(["events", "--follow", "--timeout", "0.2"]) == 1, "it is gone for longer"
    printed = capsys.readouterr()
    assert [line.split()[2] for line in printed.out.splitlines()] == ["before", "after"]
    assert printed.err.splitlines() == [
        "muster events: the server has restarted",
        "muster events: cannot connect to the server",
    ]


def full_id(client: Client) -> str:
    from protocol.messages.describe_groups import DescribeGroupsRequest

    (member,) = client.ask(DescribeGroupsRequest(("followed",))).groups[0].members
    return str(member.member_id)


def test_watch_shows_again_until_it_is_interrupted(
    muster: Muster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--bootstrap-server", muster.kafka]
    monkeypatch.setattr(
        watch.time, "sleep", interrupt_after([lambda: main(["offsets", "set", "w", "orders:0=0", *words])])
    )
    assert main(["groups", "describe", "w", "--watch", *words]) == 0
    printed = capsys.readouterr()
    assert printed.err == "muster groups: no group w\n"
    assert "w: Empty, classic, 0 members, lag 0" in printed.out


def member_of(cluster: Cluster, group: str) -> GroupConsumer:
    topic_id = cluster.metadata(["orders"]).topics[0].topic_id
    return GroupConsumer(cluster, group, "orders", topic_id, {0: 0, 1: 0})


def poll_until(reached: Callable[[], bool], *members: GroupConsumer) -> None:
    for _ in range(POLLS_MAX):
        if reached():
            return
        for member in members:
            member.beat_now()
            member.poll()
    raise AssertionError(f"not reached: {[member.positions for member in members]}")


def test_members_share_partitions_and_hand_over_what_they_committed(muster: Muster) -> None:
    with Cluster([muster.kafka]) as one, Cluster([muster.kafka]) as other:
        first, second = member_of(one, "shared"), member_of(other, "shared")
        poll_until(lambda: len(first.positions) == 2, first)
        first.positions = {0: 7, 1: 7}
        poll_until(lambda: len(first.positions) == len(second.positions) == 1, first, second)
        assert first.positions.keys().isdisjoint(second.positions)
        assert list(second.positions.values()) == [7], "it begins where the first member committed"
        first.leave()
        poll_until(lambda: second.positions == {0: 7, 1: 7}, second)
        second.leave()


def test_a_member_that_was_removed_joins_again(muster: Muster) -> None:
    with Cluster([muster.kafka]) as cluster:
        member = member_of(cluster, "removed")
        poll_until(lambda: len(member.positions) == 2, member)
        member.positions = {0: 3, 1: 4}
        member.commit()
        words = ["groups", "remove-members", "removed", "--all", "--bootstrap-server", muster.kafka]
        assert main(words) == 0
        member.beat_now()
        member.poll()
        assert not member.is_assigned
        poll_until(lambda: member.positions == {0: 3, 1: 4}, member)
        member.leave()


def test_a_command_says_what_it_waits_for_and_gives_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that accepts connections and answers nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["--timeout", "0.05", "groups", "list", "--bootstrap-server", address]) == 1
    complaint = f"muster groups: {address} does not respond: gave up after 0.05 s"
    assert squeeze(capsys.readouterr().err) == complaint


def test_a_response_to_another_request_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that answers with another correlation id, as one of another protocol may."""
    import socket
    from threading import Thread

    from protocol.codec import encode_response
    from protocol.messages.api_versions import ApiVersionsResponse

    with socket.create_server(("127.0.0.1", 0)) as strange:
        address = f"127.0.0.1:{strange.getsockname()[1]}"

        def answer() -> None:
            connection, _ = strange.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(encode_response(18, 3, 77, ApiVersionsResponse()))
                connection.recv(1)

        thread = Thread(target=answer)
        thread.start()
        code = main(["groups", "list", "--bootstrap-server", address])
        thread.join()
    complaint = f"muster groups: cannot read the response of {address}: correlation id 77, expected 1"
    assert (code, squeeze(capsys.readouterr().err)) == (1, complaint)
