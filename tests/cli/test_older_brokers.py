"""Commands against brokers of every age: they do and print the same in whatever versions a broker has the APIs.

No broker offers less than Kafka 2.0 did; what came later may be missing.
"""

import re
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from coordinator.cli import offset_transfer
from coordinator.client import Client
from protocol.apis import API
from tests.commands import Shell, shell_fixture
from tests.dataplane.broker import batch
from tests.live import Muster, server_fixture
from tests.members import ClassicMember
from tests.requests import create_topics, produce, share

server = server_fixture("--ephemeral", "--compat", "3.9")
shell = shell_fixture()

OF_KAFKA_2_0: Final = {
    "Produce": 6, "Fetch": 8, "ListOffsets": 3, "Metadata": 6, "OffsetCommit": 4, "OffsetFetch": 4, "FindCoordinator": 2,
    "DescribeGroups": 2, "ListGroups": 2, "CreateTopics": 3, "DeleteTopics": 2, "InitProducerId": 1,
    "AddOffsetsToTxn": 1, "EndTxn": 1, "TxnOffsetCommit": 1, "DescribeConfigs": 2, "CreatePartitions": 1, "DeleteGroups": 1,
    "CreateAcls": 1, "DescribeAcls": 1, "DeleteAcls": 1,
}  # fmt: skip
LATER: Final = ("ConsumerGroupDescribe", "StreamsGroupDescribe", "ShareGroupDescribe")
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Age:
    """The newest versions that a broker has, drawn by chance; a later API may be missing."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.newest: dict[str, int] = {}
        self.common = Client._common

    def limit(self, client: Client, api: API) -> range:
        """Return the versions that a client finds."""
        offered = self.common(client, api)
        if api.name not in self.newest:
            oldest = OF_KAFKA_2_0.get(api.name, 0)
            choices = [version for version in offered if version >= oldest] + [-1] * (api.name in LATER)
            self.newest[api.name] = self.dice.choice(choices)
        return range(offered.start, min(self.newest[api.name] + 1, offered.stop))

    def check_filters(self, shell: Shell, name: str) -> None:
        """A broker that does not know a filter would list all groups."""
        listing = ("groups", "list")
        assert f"{name}-busy" in shell(0, *listing)
        version = self.newest["ListGroups"]
        for since, old, words, others in (
            (4, "2.6 and cannot list groups by state", ("--state", "Stable"), ("--state", "Empty")),
            (5, "3.8 and cannot list groups by type", ("--type", "classic"), ("--type", "share")),
        ):
            if version < since:
                assert shell(1, *listing, *words) == f"muster groups: the broker is older than Kafka {old}\n"
            else:
                assert f"{name}-busy" in shell(0, *listing, *words)
                assert f"{name}-busy" not in shell(0, *listing, *others)

    def check_removal(self, shell: Shell, name: str) -> None:
        """Members of others are removed by what came with KIP-345."""
        words = ("groups", "remove-members", f"{name}-busy", "--all")
        self.newest["LeaveGroup"] = 2
        assert "the broker is older than Kafka 2.4 and cannot remove members" in shell(1, *words)
        self.newest["LeaveGroup"] = self.dice.choice([3, 4, 5])
        assert "removed" in shell(0, *words)
        assert shell(1, *words) == f"muster groups: {name}-busy has no members\n"


class Scene:
    """A topic with records, a group with a member and one with offsets, of which all names begin alike."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        client.ask(create_topics({f"{name}-orders": 3}), up_to=5)
        for partition, count in enumerate((4, 0, 2)):
            for at in range(count):
                client.ask(produce(f"{name}-orders", {partition: batch(f"{at}", at_ms=1_000 * at)}), up_to=9)
        member = ClassicMember(client, f"{name}-busy", topics=(f"{name}-orders",))
        assert member.join(300_000, 300_000).error_code == 0
        assert member.sync(share(member.member_id, {f"{name}-orders": (0, 2)})).error_code == 0

    def run(self, shell: Shell, folder: Path) -> dict[str, Any]:
        """Return what the commands print, with the names of the scene left out."""
        told: dict[str, Any] = {}

        def run(*words: str, code: int = 0) -> Any:
            text = shell(code, *(word.replace("~", self.name) for word in words))
            told[" ".join(words)] = UUID.sub("UUID", text.replace(self.name, "~"))
            return text

        run("offsets", "set", "~-g", "~-orders:0=3", "~-orders:2=1", "--metadata", "é")
        exported = folder / f"{self.name}.json"
        exported.write_text(run("offsets", "export", "~-g"))
        run("offsets", "show", "~-g")
        run("offsets", "delete", "~-g", "~-orders:2")
        run("groups", "describe", "~-g", "~-busy", "~-none", code=1)
        run(
            "groups", "reset-offsets", "~-g", "--topic", "~-orders", "--to-datetime", "1970-01-01T00:00:02", "--execute"
        )
        shell(0, "offsets", "import", str(exported))  # as AT_ONCE is set, in a transaction
        run("offsets", "show", "~-g", "~-orders")
        run("consume", "~-orders", "--partition", "0", "--from", "1", "--show", "offset,timestamp,value", "--committed")
        run("topics", "create", "~-new", "~-orders", "--partitions", "2", "--replicas", "1", code=1)
        run("topics", "alter", "~-new", "--partitions", "3", "--set", "retention.ms=5")
        run("topics", "describe", "~-new", "~-orders", "~-none", code=1)
        run("topics", "delete", "~-new", "~-none", code=1)
        run("groups", "delete", "~-g", "~-busy", "~-none", code=1)
        return told


@pytest.mark.parametrize("seed", range(6))
def test_commands_do_the_same_in_any_versions(
    seed: int, server: Muster, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", server.kafka)
    monkeypatch.setattr(offset_transfer, "AT_ONCE", 3)
    with Client.to(server.kafka) as client:
        new, old = Scene(client, f"new-{seed}"), Scene(client, f"old-{seed}")
    expected = new.run(shell, tmp_path)
    age = Age(seed)
    monkeypatch.setattr(Client, "_common", lambda client, api: age.limit(client, api))
    told = old.run(shell, tmp_path)
    for words, text in expected.items():
        assert told[words] == text, age.newest
    age.check_filters(shell, old.name)
    age.check_removal(shell, old.name)
