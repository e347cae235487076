"""Every verb on groups of every kind, by pytest-muster over HTTP, against a live server: the answers are in a table."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import getmembers, isfunction
from typing import Any, Protocol

import pytest
from pytest_muster import Group, Muster, MusterError

from coordinator.client import Client
from coordinator.core.dispatch import registry
from protocol.errors import ErrorCode
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.live import Muster as LiveServer
from tests.live import server_fixture, wait_until
from tests.members import ClassicMember, ConsumerMember, StreamsMember
from tests.requests import share

server = server_fixture(
    "--ephemeral", "--topic", "orders:2", "--topic", "lines:2", "--set", "journal.max.bytes=1000000"
)

NOBODY, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH


class Anna(Protocol):
    """The one member of a group, with the client id `anna`."""

    def beat(self) -> int:
        """Send a heartbeat that says what it has. Returns the error."""


class Classic:
    def __init__(self, client: Client, group: str) -> None:
        self._member = ClassicMember(client, group, topics={"orders": (0, 1)})
        assert not self._member.join().error_code
        assert not self._member.sync(share(self._member.member_id, {"orders": (0, 1)})).error_code

    def beat(self) -> int:
        return self._member.beat()


class Consumer:
    def __init__(self, client: Client, group: str) -> None:
        self._member = ConsumerMember(client, "anna-id", group)

    def beat(self) -> int:
        error: int = self._member.own().error_code
        return error


class Share:
    def __init__(self, client: Client, group: str) -> None:
        self._client, self._group, self._epoch = client, group, 0

    def beat(self) -> int:
        names = ("orders",) if self._epoch == 0 else None
        request = ShareGroupHeartbeatRequest(self._group, "anna-id", self._epoch, subscribed_topic_names=names)
        answer = self._client.ask(request)
        self._epoch = answer.member_epoch or self._epoch
        error: int = answer.error_code
        return error


class Streams:
    def __init__(self, client: Client, group: str) -> None:
        self._member = StreamsMember(client, "anna", group)

    def beat(self) -> int:
        error: int = self._member.beat().error_code
        return error


MEMBERS: dict[str, Callable[[Client, str], Anna]] = {
    "classic": Classic, "consumer": Consumer, "share": Share, "streams": Streams,
}  # fmt: skip
LOST: dict[str, ErrorCode] = {"expire": NOBODY, "kick": NOBODY, "fence": FENCED}
"""By verb: what the next heartbeat of a member that it has removed is told."""
FENCED_OTHERWISE = {"classic": NOBODY}
TARGETS: dict[str, Any] = {
    "consumer": {"anna": {"orders": [1]}},
    "share": {"anna": {"orders": [1]}},
    "streams": {"anna": {"0": [1], "1": [0]}},
}
REFUSED = {("classic", "set_target"): "its leader computes the assignment"}
CAUSES = {"expire": "session_expired", "kick": "member_kicked", "fence": "member_fenced"}


def remove(verb: str) -> Callable[[str, Group, Anna], None]:
    def check(kind: str, group: Group, anna: Anna) -> None:
        assert getattr(group, verb)("anna")["client_id"] == "anna"
        expected = FENCED_OTHERWISE.get(kind, LOST[verb]) if verb == "fence" else LOST[verb]
        assert anna.beat() == expected
        assert group.wait(members=0)["members"] == []
        assert CAUSES[verb] in causes(group)

    return check


def rebalance(kind: str, group: Group, anna: Anna) -> None:
    before = group.describe()["generation"]
    group.rebalance("a test wants it")
    assert "rebalance_requested" in causes(group)
    assert "a test wants it" in group.timeline_text()
    if kind == "classic":
        assert anna.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    else:
        settle(group, anna)
        assert group.describe()["generation"] == before + 1


def set_target(kind: str, group: Group, anna: Anna) -> None:
    group.set_target(TARGETS[kind])
    assert "assignment_forced" in causes(group)
    settle(group, anna)
    (member,) = group.describe()["members"]
    if kind == "streams":
        assert member["tasks"] == {"active": ["0_1", "1_0"], "standby": [], "warmup": []}
    else:
        assert member["assignment"] == {"orders": [1]}


def hold(kind: str, group: Group, anna: Anna) -> None:
    """A heartbeat waits until it is let go of."""
    group.hold("heartbeat", "anna")
    with ThreadPoolExecutor() as threads:
        beat = threads.submit(anna.beat)
        wait_until("the heartbeat is held", lambda: sum(one["held"] for one in faults(group)) == 1)
        assert not beat.done()
        group.release()
        assert beat.result() == ErrorCode.NONE


def release(kind: str, group: Group, anna: Anna) -> None:
    group.hold("commit")
    assert {one["on"]["api"] for one in faults(group)} == {"OffsetCommit", "TxnOffsetCommit"}
    group.release()
    assert faults(group) == []


def describe(kind: str, group: Group, anna: Anna) -> None:
    described = group.describe()
    assert (described["type"], described["state"]) == (kind, "Stable")
    assert [one["client_id"] for one in described["members"]] == ["anna"]


def wait(kind: str, group: Group, anna: Anna) -> None:
    (member,) = group.wait(state="Stable", members=1, assigned={"anna": group.describe()["members"][0]["assignment"]})[
        "members"
    ]
    assert member["assignment"]


def timeline(kind: str, group: Group, anna: Anna) -> None:
    assert causes(group)[:2] == ["group_created", "member_joined"]


def offsets(kind: str, group: Group, anna: Anna) -> None:
    assert group.offsets() == {}


def coordinator(kind: str, group: Group, anna: Anna) -> None:
    assert group.coordinator()["broker"] == 0


def move(kind: str, group: Group, anna: Anna) -> None:
    """To the same broker: it is loaded anew, without its members."""
    group.move(0, keep_members=False)
    assert group.wait(members=0)["members"] == []
    assert anna.beat() == NOBODY


def in_flight(kind: str, group: Group, anna: Anna) -> None:
    assert group.in_flight() == []


def forget(kind: str, group: Group, anna: Anna) -> None:
    group.forget()
    group.wait(exists=False)


VERBS: dict[str, Callable[[str, Group, Anna], None]] = {
    **{verb: remove(verb) for verb in LOST},
    **{
        check.__name__: check
        for check in (
            rebalance, set_target, hold, release, describe, wait, timeline, offsets, coordinator, move, in_flight,
            forget,
        )
    },
}  # fmt: skip
BY_OTHERS = {"member": "its verbs", "timeline_text": "rebalance", "records": "tests/pytest_muster/test_muster.py"}


def causes(group: Group) -> list[str]:
    return [one["cause"]["kind"] for one in group.timeline()]


def faults(group: Group) -> list[dict[str, Any]]:
    found = group._admin.read_list("/v1/faults", "faults")
    return [one for one in found if one["on"]["group"] == group.id]


def settle(group: Group, anna: Anna) -> None:
    for _ in range(5):
        assert anna.beat() == ErrorCode.NONE
    group.wait(state="Stable", members=1)


@pytest.fixture
def muster(server: LiveServer) -> Muster:
    return Muster(server.kafka, server.ready["admin"])


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with Client.to(server.kafka, client_id="anna") as client:
        yield client


def test_the_table_has_every_verb_and_every_kind() -> None:
    assert set(VERBS) | set(BY_OTHERS) == {name for name, _ in getmembers(Group, isfunction) if name[0] != "_"}
    assert set(MEMBERS) == set(registry.KINDS)


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_of_a_kind(kind: str, verb: str, muster: Muster, client: Client) -> None:
    group = muster.group(f"{kind}-{verb}")
    anna = MEMBERS[kind](client, group.id)
    settle(group, anna)
    if (refusal := REFUSED.get((kind, verb))) is None:
        VERBS[verb](kind, group, anna)
        return
    with pytest.raises(MusterError, match=refusal):
        group.set_target({"anna": {"orders": [1]}})
    assert anna.beat() == ErrorCode.NONE


ABSENT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(LOST, ("anna",)), "rebalance": (), "set_target": ({"anna": {}},), "describe": (), "forget": (),
}  # fmt: skip


@pytest.mark.parametrize("verb", ABSENT)
def test_a_verb_of_no_group(verb: str, muster: Muster) -> None:
    with pytest.raises(MusterError, match="there is no group 'nobody'"):
        getattr(muster.group("nobody"), verb)(*ABSENT[verb])


def test_tasks_are_forced_their_moves_verified_and_a_holdup_found(muster: Muster, server: LiveServer) -> None:
    group = muster.group("words")
    with Client.to(server.kafka, client_id="a") as of_a, Client.to(server.kafka, client_id="b") as of_b:
        a, b = StreamsMember(of_a, "a", group.id), StreamsMember(of_b, "b", group.id)
        beat_all(a, b)
        group.set_target({"a": {"0": [0, 1], "1": [0, 1]}}, standbys={"b": {"1": [0, 1]}})
        beat_all(a, b)
        group.wait(
            state="Stable", tasks={"a": {"active": ["0_0", "0_1", "1_0", "1_1"]}, "b": {"standby": ["1_0", "1_1"]}}
        )
        group.expire("a")
        beat_all(b)
        moved = {"event": "tasks_assigned", "group": group.id, "task": "0_0", "client": "b", "from": "a", "times": 1}
        muster.verify({"event": "session_expired", "group": group.id, "client": "a", "times": 1}, moved, in_order=True)
        with pytest.raises(AssertionError, match="expected 2, found 1"):
            muster.verify({**moved, "times": 2})
        a.epoch, a.tasks = 0, [(), (), ()]
        kept = list(b.tasks)
        for _ in range(4):
            a.beat()
            b.tasks = list(kept)
            b.beat()
        assert ("tasks_not_given_up", "b") in {(one["rule"], one["client"]) for one in muster.lint()}


def beat_all(*members: StreamsMember) -> None:
    for _ in range(6):
        for member in members:
            assert not member.beat().error_code
