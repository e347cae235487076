"""The server is restarted under five live groups: nobody joins again, and nothing is lost or read twice."""

from collections import Counter
from contextlib import ExitStack

import pytest

from tests.compat.consumers import Member, produce, wait_for_share, wait_until
from tests.live import Muster, server_fixture

PARTITIONS = 2
RECORDS = 100  # a round
SESSION_MS = 10_000  # two cores carry ten clients and the server's start: a session is to be longer than that takes
BEATS = 6  # a member, three seconds of them
GROUPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "python": (("kafka-python",), ("kafka-python",)),
    "librdkafka": (("confluent-kafka",), ("confluent-kafka",)),
    "asyncio": (("aiokafka",), ("aiokafka",)),
    "mixed": (("kafka-python",), ("confluent-kafka",)),
    "newer": (("confluent-kafka", "consumer"), ("confluent-kafka", "consumer")),  # KIP-848
}
SETTINGS = (
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=500",
)

Groups = dict[str, list[Member]]


TOPICS = [f"--topic={group}:{PARTITIONS}" for group in GROUPS]
muster = server_fixture(*TOPICS, *[f"--set={one}" for one in SETTINGS], scope="function")


def joined(muster: Muster, stack: ExitStack) -> Groups:
    """All groups, each on the topic of its own name, each member with a partition."""
    groups = {
        group: [
            stack.enter_context(Member("--session", str(SESSION_MS), client, muster.kafka, group, group, *options))
            for client, *options in clients
        ]
        for group, clients in GROUPS.items()
    }
    for group, members in groups.items():
        wait_for_share(members, PARTITIONS, f"of {group}")
    return groups


def values(members: list[Member]) -> Counter[str]:
    return Counter(value for member in members for _, _, value in member.got)


def consumes(muster: Muster, groups: Groups, name: str) -> None:
    """What is produced now every group reads, and commits."""
    expected = {f"{name}-{number}" for number in range(RECORDS)}
    for group, members in groups.items():
        produce("confluent-kafka", muster.kafka, group, PARTITIONS, sorted(expected))
        wait_until(f"{group} has read what is {name}", lambda m=members: expected <= values(m).keys())
    for group, members in groups.items():
        wait_until(
            f"{group} has committed what is {name}",
            lambda m=members: sum(len(one.done) for one in m) >= sum(values(m).values()),
        )


def beats(muster: Muster, protocol: str) -> bool:
    """Whether the members have beaten since the server's start, as often as makes sure that all of them do."""
    members = sum(len(clients) for group, clients in GROUPS.items() if (group == "newer") == (protocol == "consumer"))
    api = "ConsumerGroupHeartbeat" if protocol == "consumer" else "Heartbeat"
    return muster.metric("muster_requests_total", api=api) >= BEATS * members


def generations(muster: Muster) -> dict[str, float]:
    return {group: muster.metric("muster_group_generation", group=group) for group in GROUPS}


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_within_the_session_rebalances_nobody(muster: Muster, how: str) -> None:
    """R5: as Kafka's own system test bounces a broker and wants no unexpected rebalance."""
    with ExitStack() as stack:
        groups = joined(muster, stack)
        consumes(muster, groups, "before")
        assigned = {group: [list(member.assigned) for member in members] for group, members in groups.items()}
        before = generations(muster)
        assert min(before.values()) > 0
        assert muster.metric("muster_requests_total", api="JoinGroup") > 0
        assert muster.metric("muster_rebalances_total") > 0, "they are counted from the start of the server on"
        if how == "killed":
            muster.kill()
        else:
            assert muster.stop() == 0
        muster.start()
        consumes(muster, groups, "after")
        for protocol in ("classic", "consumer"):
            wait_until(f"the members of {protocol} groups beat", lambda one=protocol: beats(muster, one))
        consumes(muster, groups, "later")
        assert muster.metric("muster_requests_total", api="JoinGroup") == 0
        assert muster.metric("muster_rebalances_total") == 0
        assert generations(muster) == before
        for group, members in groups.items():
            assert [member.assigned for member in members] == assigned[group], group
            assert set(values(members).values()) == {1}, f"{group} has read something twice"
        assert {group: muster.metric("muster_group_members", group=group) for group in GROUPS} == {
            group: len(members) for group, members in groups.items()
        }, "nobody was thrown out"
