"""`muster groups reset-offsets` beside a plain count, in partitions that are empty, begin later, or have no offset."""

import json
from datetime import UTC, datetime
from random import Random

import pytest

from coordinator.client import Client
from tests.commands import Shell, shell_fixture
from tests.dataplane.broker import batch
from tests.live import Muster, server_fixture
from tests.requests import commit, create_topics, delete_records, produce

PARTITIONS = 4
server = server_fixture("--ephemeral")
shell = shell_fixture()


class Topic:
    """The times of the records of each partition, where it begins, and what a group has committed of it."""

    def __init__(self, client: Client, name: str, dice: Random) -> None:
        self.name = name
        client.ask(create_topics({name: PARTITIONS}), up_to=5)
        self.times = [sorted(1_000 * dice.randrange(1, 9) for _ in range(dice.randrange(6))) for _ in range(PARTITIONS)]
        for partition, times in enumerate(self.times):
            for at_ms in times:
                client.ask(produce(name, {partition: batch("a", at_ms=at_ms)}), up_to=9)
        self.starts = [dice.choice([0, 0, dice.randint(0, len(times))]) for times in self.times]
        client.ask(delete_records(name, {at: start for at, start in enumerate(self.starts) if start}), up_to=2)
        places = dice.sample(range(PARTITIONS), dice.randrange(1, PARTITIONS + 1))
        self.committed = {at: dice.randint(0, len(self.times[at])) for at in places}
        client.ask(commit(f"of-{name}", {name: self.committed}), up_to=7)

    def bound(self, partition: int, wanted: int) -> int:
        return min(max(wanted, self.starts[partition]), len(self.times[partition]))

    def at_time(self, partition: int, at_ms: int) -> int:
        """The first record that is there and not from before a time; where there is none, the end."""
        found = [offset for offset, ms in enumerate(self.times[partition]) if ms >= at_ms]
        return next((offset for offset in found if offset >= self.starts[partition]), len(self.times[partition]))


@pytest.mark.parametrize("seed", range(6))
def test_each_way_leads_to_the_offset_that_it_names(
    seed: int, server: Muster, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", server.kafka)
    dice = Random(seed)
    with Client.to(server.kafka) as client:
        topic = Topic(client, f"moved-{seed}", dice)
    every = range(PARTITIONS)
    ways: list[tuple[list[str], dict[int, int]]] = [
        (["--to-earliest"], {at: topic.starts[at] for at in every}),
        (["--to-latest"], {at: len(topic.times[at]) for at in every}),
    ]
    for offset in (0, dice.randrange(7)):
        ways.append((["--to-offset", str(offset)], {at: topic.bound(at, offset) for at in every}))
    for seconds in (0, dice.randrange(1, 9), 9):
        time = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        ways.append((["--to-datetime", time], {at: topic.at_time(at, 1_000 * seconds) for at in every}))
    words = ("groups", "reset-offsets", f"of-{topic.name}", "--json")
    for way, after in ways:
        of_topic = shell(0, *words, "--topic", topic.name, *way)
        assert json.loads(of_topic)["offsets"] == [
            {"topic": topic.name, "partition": at, "before": topic.committed.get(at), "after": after[at]}
            for at in every
        ]
        of_group = json.loads(shell(0, *words, "--all-topics", *way))["offsets"]
        assert {one["partition"]: one["after"] for one in of_group} == {at: after[at] for at in topic.committed}
    by = dice.randrange(-3, 4)
    shifted = json.loads(shell(0, *words, "--all-topics", f"--shift-by={by}", "--execute"))["offsets"]
    expected = {at: topic.bound(at, offset + by) for at, offset in topic.committed.items()}
    assert {one["partition"]: one["after"] for one in shifted} == expected
    now = json.loads(shell(0, *words, "--all-topics", "--to-earliest"))["offsets"]
    assert {one["partition"]: one["before"] for one in now} == expected
