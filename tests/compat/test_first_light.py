"""Real clients consume through Muster: sharing, leaving, a server that is killed, a consumer that falls silent."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator.client import Client
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.compat.consumers import STOPS, Member, produce, share, wait_until
from tests.live import Muster

PARTITIONS = 4


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    with Muster(tmp_path, "--topic", f"orders:{PARTITIONS}", "--set", "group.min.session.timeout.ms=1000") as server:
        yield server


def committed(muster: Muster, group: str) -> dict[int, int]:
    """The group's offsets in `orders` by partition, as the server answers them."""
    with Client.to(muster.kafka) as client:
        answer = client.ask(
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)), version=8
        )
    (group_answer,) = answer.groups
    return {one.partition_index: one.committed_offset for topic in group_answer.topics for one in topic.partitions}


@pytest.mark.parametrize("client", [pytest.param("kafka-python", marks=STOPS), "confluent-kafka", "aiokafka"])
def test_a_group_lives_through_all_that_happens_to_groups(muster: Muster, client: str) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(Member(client, muster.kafka, "shop", "orders")) for _ in range(3)]
        a, b, c = members
        wait_until(
            "three members share four partitions",
            lambda: share(members, PARTITIONS) and all(m.assigned for m in members),
        )

        produce(client, muster.kafka, "orders", PARTITIONS, (f"first-{n}" for n in range(1_000)))
        wait_until("all records are consumed", lambda: sum(len(member.got) for member in members) >= 1_000)
        seen = Counter(value for member in members for _, _, value in member.got)
        assert seen == Counter(f"first-{n}" for n in range(1_000)), "each record once"
        wait_until("all is committed", lambda: committed(muster, "shop") == dict.fromkeys(range(PARTITIONS), 250))

        c.leave()
        wait_until("the two others take over", lambda: share((a, b), PARTITIONS))

        produce(client, muster.kafka, "orders", PARTITIONS, (f"second-{n}" for n in range(100)))
        wait_until("the next are consumed", lambda: len(a.got) + len(b.got) + len(c.got) >= 1_100)
        wait_until("and committed", lambda: committed(muster, "shop") == dict.fromkeys(range(PARTITIONS), 275))
        muster.kill()
        muster.start()
        assert committed(muster, "shop") == dict.fromkeys(range(PARTITIONS), 275), "what was acknowledged is there"
        produce(client, muster.kafka, "orders", PARTITIONS, (f"third-{n}" for n in range(100)))
        wait_until(
            "they go on as if nothing had been",
            lambda: {value for m in (a, b) for _, _, value in m.got} >= {f"third-{n}" for n in range(100)},
        )
        again = Counter(value for member in members for _, _, value in member.got)
        assert max(again.values()) == 1, "nothing was consumed twice"
        assert share((a, b), PARTITIONS)

        b.freeze()
        wait_until("who is silent loses its partitions", lambda: share((a,), PARTITIONS))

        d = stack.enter_context(Member(client, muster.kafka, "audit", "orders"))
        wait_until("another group reads from the beginning", lambda: len(d.got) >= 1_200)
        assert len({value for _, _, value in d.got}) == 1_200
