"""Stories with released clients: the timeline, `muster why` and the metric name exactly what was played.

All of them share one server; each has a group of its own, by the name of its test.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.commands import Shell
from tests.compat.consumers import wait_until
from tests.compat.steered import CLASSIC, CONSUMER, OPTIONS, Confluent, KafkaPython, Polling
from tests.live import Muster, server_fixture

COMPLETED = ("all_members_joined", "leader_synced")  # a rebalance of the classic protocol, once every member has joined


muster = server_fixture(*OPTIONS, "--topic=orders:4", "--set=group.consumer.assignment.interval.ms=0")


class Story:
    """One group, and what became of it."""

    def __init__(self, muster: Muster, why: Shell, group: str) -> None:
        self.muster, self.group, self._why = muster, group, why
        self._seen = 0
        self._before: Counter[str] = Counter()

    def classic(self, name: str, **settings: Any) -> Confluent:
        """A member of the classic protocol."""
        return Confluent(self.muster, name, **{"group.id": self.group, **CLASSIC, **settings})

    def consumer(self, name: str, **settings: Any) -> Confluent:
        """A member of the consumer protocol."""
        return Confluent(self.muster, name, **{"group.id": self.group, **CONSUMER, **settings})

    @contextmanager
    def pair(self) -> Iterator[tuple[Confluent, Confluent]]:
        """Two members of the classic protocol, which have joined one after the other; a is the leader."""
        with self.classic("a") as a:
            self.settle(a)
            with self.classic("b") as b:
                self.join(a, b)
                yield a, b

    def steer(self, method: str, path: str = "", **body: Any) -> Any:
        """Call the control API about the group."""
        return self.muster.steer(method, f"/groups/{self.group}{path}", **body)

    def settle(self, *members: Polling) -> None:
        """Wait until the group is stable with these members, and they have heard what they own."""
        settled = {"group": self.group, "state": "Stable" if members else "Empty", "members": len(members)}
        self.muster.steer("POST", "/wait", **settled, timeout_ms=180_000)

        def have_heard() -> bool:
            view = self.steer("GET")
            owned = {one["client_id"]: sum(map(len, one["assignment"].values())) for one in view["members"]}
            return view["state"] == "Stable" and owned == {one.name: len(one.assigned) for one in members}

        if members:
            wait_until(f"{self.group} has settled: {[one.assigned for one in members]}", have_heard)

    def expect(self, *causes: str) -> None:
        """Check that the timeline goes on with these causes, and that there are no others by now."""
        events: list[dict[str, Any]] = []

        def have_come() -> bool:
            events[:] = self.steer("GET", f"/timeline?after={self._seen}")["events"]
            return len(events) >= len(causes)

        wait_until(f"{causes} have happened", have_come)
        assert [one["cause"]["kind"] for one in events] == list(causes)
        self._seen = events[-1]["number"]

    def join(self, *members: Polling) -> None:
        """Wait until the group has begun, and look at what follows only."""
        self.settle(*members)
        self._seen = self.steer("GET", "/timeline")["latest"]
        self._before = self._rebalances()

    def expect_rebalances(self, **counts: int) -> None:
        """Check the metric: how many rebalances each cause has begun since `join`; none for any other cause."""
        assert self._rebalances() - self._before == Counter(counts)

    def _rebalances(self) -> Counter[str]:
        from prometheus_client.parser import text_string_to_metric_families

        families = text_string_to_metric_families(self.muster.get("/metrics"))
        ours = (one for family in families for one in family.samples if one.labels.get("group") == self.group)
        return Counter({one.labels["cause"]: int(one.value) for one in ours if one.name == "muster_rebalances_total"})

    def expect_why(self, sentence: str) -> None:
        """Check that `muster why` gives the cause of a change of state in a sentence that begins like this."""
        text = self._why(0, self.group, "--admin", self.muster.ready["admin"])
        assert f")  {sentence}" in text, text


@pytest.fixture
def story(muster: Muster, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Story:
    return Story(muster, Shell(capsys, "why"), request.node.name.removeprefix("test_").rstrip("]").replace("[", "-"))


def test_a_member_joins_and_leaves(story: Story) -> None:
    with story.classic("a") as a:
        story.settle(a)
        story.expect("group_created", "member_joined", *COMPLETED)
        with story.classic("b") as b:
            story.settle(a, b)
            story.expect("member_joined", "member_rejoined", *COMPLETED)
        story.settle(a)
        story.expect("member_left", "member_rejoined", *COMPLETED)
        story.expect_why('member left: "b" (')
    story.settle()
    story.expect("member_left", "no_member_left")
    story.expect_rebalances(member_joined=2, member_left=2)


def test_a_member_of_the_consumer_protocol_joins_and_leaves(story: Story) -> None:
    with story.consumer("a") as a:
        story.settle(a)
        story.expect("group_created", "member_joined", "assignment_computed", "member_reconciled")
        with story.consumer("b") as b:
            story.settle(a, b)
            story.expect(
                *("member_joined", "assignment_computed", "revocation_awaited"),
                *("partitions_revoked", "member_reconciled", "member_reconciled"),
            )
        story.settle(a)
        story.expect("member_left", "assignment_computed", "member_reconciled")
        story.expect_why("member left: ")
    story.settle()
    story.expect("member_left")
    story.expect_rebalances(member_joined=2, member_left=1)


def test_session_timeout(story: Story) -> None:
    """B's heartbeats are held, as by a network that drops them; then the clock passes its session."""
    with story.pair() as (a, b):
        story.steer("POST", "/hold", at="heartbeat", client="b")
        story.muster.steer("POST", "/clock/advance", ms=45_001, keep_alive=["a"])
        story.settle(a)
        story.expect("session_expired", "member_rejoined", *COMPLETED)
        story.expect_why('session expired: "b" (')
        story.steer("POST", "/release")
        wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
        story.settle(a, b)
        story.expect("member_joined", "member_rejoined", *COMPLETED)
        story.expect_rebalances(member_joined=1, session_expired=1)


def test_poll_timeout(story: Story) -> None:
    """The application is busy for longer than max.poll.interval.ms: its client leaves the group for it."""
    settings = {"group_id": story.group, "session_timeout_ms": 45_000, "heartbeat_interval_ms": 100}
    with KafkaPython(story.muster, "a", max_poll_interval_ms=3_000, **settings) as a:
        wait_until(
            f"a owns {a.assigned}", lambda: len(a.assigned) == 4
        )  # its first assignment is without metadata, and empty
        story.join(a)
        a.fall_silent()
        story.settle()
        story.expect("member_left", "no_member_left")
        story.expect_why('member left: "a" (')
        story.expect_rebalances(member_left=1)


def test_topic_grown_seen_by_a_leader(story: Story) -> None:
    """In the classic protocol the leader looks after topics: it sees that one has grown, and rejoins."""
    admin = AdminClient({"bootstrap.servers": story.muster.kafka})
    admin.create_topics([NewTopic(story.group, 2)])[story.group].result(60)
    with story.classic("a", topics=[story.group], **{"topic.metadata.refresh.interval.ms": 200}) as a:
        story.join(a)
        admin.create_partitions([NewPartitions(story.group, 3)])[story.group].result(60)
        wait_until(f"a owns {a.assigned}", lambda: len(a.assigned) == 3)
        story.settle(a)
        story.expect("leader_rejoined", *COMPLETED)
        story.expect_why('leader rejoined: "a" (')
        story.expect_rebalances(leader_rejoined=1)


def test_instance_taken_over(story: Story) -> None:
    """A second client with the same group.instance.id takes the place of the first one, which is fenced."""
    with story.classic("a", **{"group.instance.id": "i"}) as a:
        story.join(a)
        with story.classic("b", **{"group.instance.id": "i"}) as b:
            wait_until(f"b owns {b.assigned}", lambda: len(b.assigned) == 4)
            story.expect("static_member_replaced")
            story.expect_why('static member replaced: "i"')
            wait_until(f"a has errors {a.errors}", lambda: "_FATAL" in a.errors)
            story.expect_rebalances()


@pytest.mark.parametrize(
    ("verb", "cause"), [("kick", "member_kicked"), ("expire", "session_expired"), ("fence", "member_fenced")]
)
def test_removed_by_an_operator(story: Story, verb: str, cause: str) -> None:
    """B's way back is held until the group has settled without it."""
    with story.pair() as (a, b):
        story.steer("POST", "/hold", at="join", client="b")
        story.steer("POST", f"/members/b/{verb}")
        wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
        story.settle(a)
        story.expect(cause, "member_rejoined", *COMPLETED)
        story.expect_why(f'{cause.replace("_", " ")}: "b" (')
        story.steer("POST", "/release")
        story.settle(a, b)
        story.expect("member_joined", "member_rejoined", *COMPLETED)
        story.expect_rebalances(**{"member_joined": 1, cause: 1})


def test_rebalance_requested(story: Story) -> None:
    with story.classic("a") as a:
        story.join(a)
        story.steer("POST", "/rebalance", reason="a drill")
        story.expect("rebalance_requested", "member_rejoined", *COMPLETED)
        story.expect_why('rebalance requested, assignor range, reason given: "a drill"')
        story.settle(a)
        story.expect_rebalances(rebalance_requested=1)


def test_rebalance_timeout(story: Story) -> None:
    """B is too late for the join phase, which the clock ends: it is removed, and comes back as a new member."""
    with story.pair() as (a, b):
        story.steer("POST", "/hold", at="join", client="b")
        story.steer("POST", "/rebalance")
        story.expect("rebalance_requested", "member_rejoined")
        story.muster.steer("POST", "/clock/advance", ms=300_000, keep_alive="all")
        story.settle(a)
        story.expect("rebalance_timed_out", "rebalance_timed_out", "leader_synced")
        story.expect_why('rebalance timed out: "b" (')
        story.steer("POST", "/release")
        story.settle(a, b)
        story.expect("member_joined", "member_rejoined", *COMPLETED)
        story.expect_rebalances(member_joined=1, rebalance_requested=1)


def test_assignment_forced(story: Story) -> None:
    with story.consumer("a") as a:
        story.settle(a)
        with story.consumer("b") as b:
            story.join(a, b)
            story.steer("PUT", "/target", members={"b": {"orders": [0, 1, 2, 3]}})
            wait_until(f"b owns {b.assigned}", lambda: len(b.assigned) == 4 and not a.assigned)
            story.settle(a, b)
            story.expect(
                *("assignment_forced", "revocation_awaited", "partitions_revoked"),
                *("member_reconciled", "member_reconciled"),
            )
            story.expect_why("assignment forced")
            story.expect_rebalances(assignment_forced=1)


def test_group_forgotten_and_deleted(story: Story) -> None:
    with story.classic("a") as a:
        story.join(a)
        story.steer("POST", "/hold", at="join", client="a")
        story.steer("DELETE")
        story.expect("group_forgotten")
        story.steer("POST", "/release")
        story.settle(a)
        story.expect("group_created", "member_joined", *COMPLETED)
    story.settle()
    story.expect("member_left", "no_member_left")
    admin = AdminClient({"bootstrap.servers": story.muster.kafka})
    admin.delete_consumer_groups([story.group])[story.group].result(60)
    story.expect("group_deleted")
    story.expect_why("group deleted")
