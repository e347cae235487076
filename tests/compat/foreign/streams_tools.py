"""Kafka's own StreamsGroupCommand and GroupsCommand, run against Kafka and against the server: both print the same.

Both are given the same topics, records and streams groups, whose two members speak the protocol themselves and beat
before every command: a group with live members, one that waits for a topic, and two that are empty and have offsets.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator.client import Client
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from tests.cli.command import classic_member, consumer_member, records
from tests.compat.foreign.report import Report
from tests.compat.foreign.tools import difference, said
from tests.conformance import kafka
from tests.live import Muster
from tests.requests import commit

STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.session.timeout.ms": "60000",
    "group.consumer.session.timeout.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
}
SETTLED_S = 30
GROUPS_MADE = ("done", "old", "counts", "unready")
COMMANDS = tuple(
    line.split()
    for line in """
    groups --list
    groups --list --streams
    groups --list --consumer
    groups --list --share
    groups --list --group-type streams
    groups --list --protocol streams
    groups --list --group-type streams --protocol consumer
    groups --list --streams --consumer
    groups --list --group-type flows
    streams --list
    streams --list --state
    streams --list --state Stable
    streams --list --state NotReady,Empty
    streams --list --state Dancing
    streams --describe --group counts
    streams --describe --group counts --verbose
    streams --describe --group counts --offsets
    streams --describe --group counts --offsets --verbose
    streams --describe --group counts --members
    streams --describe --group counts --members --verbose
    streams --describe --group counts --state
    streams --describe --group counts --state --verbose
    streams --describe --group unready
    streams --describe --group unready --members --verbose
    streams --describe --group unready --state
    streams --describe --group done
    streams --describe --group done --members
    streams --describe --group done --state --verbose
    streams --describe --group nobody
    streams --describe --group shop
    streams --describe --all-groups --state
    streams --describe --group counts --members --state
    streams --describe
    streams --list --describe
    streams --reset-offsets --group done --input-topic lines --to-earliest --dry-run
    streams --reset-offsets --group done --all-input-topics --to-earliest --execute
    streams --describe --group done
    streams --reset-offsets --group done --input-topic lines:0,1 --shift-by 2 --execute
    streams --reset-offsets --group done --all-input-topics --to-datetime 1970-01-01T03:30:00.000 --execute
    streams --reset-offsets --group done --all-input-topics --to-latest --execute --export
    streams --reset-offsets --group done --all-input-topics --to-current --dry-run
    streams --reset-offsets --group done --all-input-topics --to-offset 3 --execute
    streams --reset-offsets --group counts --all-input-topics --to-earliest --execute
    streams --reset-offsets --group nobody --all-input-topics --to-earliest --execute
    streams --reset-offsets --group done --all-input-topics
    streams --reset-offsets --group done --all-input-topics --to-earliest --execute --delete-internal-topic done-words-repartition
    streams --reset-offsets --group old --all-input-topics --to-earliest --execute --delete-all-internal-topics
    streams --describe --group old
    streams --delete-offsets --group done --input-topic lines:0
    streams --delete-offsets --group done --input-topic absent
    streams --delete-offsets --group counts --input-topic lines
    streams --delete-offsets --group nobody --input-topic lines
    streams --delete-offsets --group done --all-input-topics
    streams --describe --group done
    streams --delete --group counts
    streams --delete --group nobody
    streams --delete --group done
    streams --delete --group old --delete-all-internal-topics
    streams --list
    """.strip().splitlines()
)
MEANT = {
    "--list --state NotReady,Empty": ["unready NotReady"],
}
"""Lines that are printed here alone: the filter of ListGroups finds the state by its own name (docs/differences.md)."""
TOOLS = {"groups": GROUPS, "streams": STREAMS}


def run(report: Report, only: str = "") -> None:
    """Compare all commands; those with `only` in them, where it is given."""
    with (
        tempfile.TemporaryDirectory() as folder,
        kafka.running({**SETTINGS, "num.partitions": "1"}) as port,
        Muster(Path(folder), *(f"--set={name}={value}" for name, value in SETTINGS.items())) as muster,
        prepared(f"127.0.0.1:{port}") as theirs,
        prepared(muster.kafka) as ours,
    ):
        for tool, *words in COMMANDS:
            line = f"kafka-{tool.replace('streams', 'streams-groups')} {' '.join(words)}"
            if only in line:
                with report.check(line):
                    expected, printed = theirs.say(tool, words), ours.say(tool, words)
                    expected = sorted(expected + MEANT.get(" ".join(words), []))
                    assert printed == expected, difference(printed, expected)


class Member:
    """A member of a streams group: it takes what it is told, and says so."""

    def __init__(self, client: Client, group: str, name: str, topology: StreamsGroupHeartbeatRequestTopology) -> None:
        self._client, self.group, self.name, self._topology = client, group, name, topology
        self.epoch = 0
        self._tasks: list[Any] = [(), (), ()]

    def beat(self) -> bool:
        """Return whether there was news."""
        is_joining = self.epoch == 0
        request = StreamsGroupHeartbeatRequest(
            self.group, self.name, self.epoch, rebalance_timeout_ms=60_000 if is_joining else -1,
            topology=self._topology if is_joining else None, process_id=f"process-of-{self.name}",
            active_tasks=self._tasks[0], standby_tasks=self._tasks[1], warmup_tasks=self._tasks[2],
        )  # fmt: skip
        answer = self._client.ask(request)
        assert not answer.error_code, answer
        before, self.epoch = self.epoch, answer.member_epoch
        if answer.active_tasks is not None:
            self._tasks = [
                tuple(StreamsGroupHeartbeatRequestTaskIds(each.subtopology_id, each.partitions) for each in listed)
                for listed in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            ]
        waits = any(each.status_code != 1 for each in answer.status)  # not for a source that nobody creates
        return before != self.epoch or answer.active_tasks is not None or waits

    def leave(self) -> None:
        self._client.ask(StreamsGroupHeartbeatRequest(self.group, self.name, -1))


class Prepared:
    """A broker with groups, whose members stay."""

    def __init__(self, bootstrap: str, client: Client) -> None:
        self._bootstrap, self._client = bootstrap, client
        self.members: list[Member] = []

    def group(self, group: str, source: str, *names: str) -> None:
        """A group whose members have what they shall have."""
        members: list[Member] = []
        until = time.monotonic() + SETTLED_S
        for name in names:  # one after the other: how soon topics are created decides no epoch
            members.append(Member(self._client, group, name, word_count(group, source)))
            while [member for member in members if member.beat()]:
                assert time.monotonic() < until, f"group {group} does not settle"
                time.sleep(0.1)
        self.members += members

    def leave(self, group: str) -> None:
        for member in self.members:
            if member.group == group:
                member.leave()
        self.members = [member for member in self.members if member.group != group]

    def say(self, tool: str, words: list[str]) -> list[str]:
        """Return what a tool prints, while the members are there."""
        for member in self.members:
            member.beat()
        return [_in_order(line) for line in said(self._bootstrap, words, TOOLS[tool])]


def _in_order(line: str) -> str:
    """Sort what the tool prints of a set, which has no order."""
    text, colon, listed = line.partition("Valid states are: ")
    return text + colon + ", ".join(sorted(listed.split(", ")))


def word_count(group: str, source: str) -> StreamsGroupHeartbeatRequestTopology:
    """A topology with a repartition topic and a store."""
    words = f"{group}-words-repartition"
    info, part = StreamsGroupHeartbeatRequestTopicInfo, StreamsGroupHeartbeatRequestSubtopology
    return StreamsGroupHeartbeatRequestTopology(
        0,
        (
            part("0", (source,), repartition_sink_topics=(words,)),
            part(
                "1",
                state_changelog_topics=(info(f"{group}-counts-changelog"),),
                repartition_source_topics=(info(words, 2),),
            ),
        ),
    )


@contextmanager
def prepared(bootstrap: str) -> Iterator[Prepared]:
    """Topics with records; streams groups with members, without, and with a topic missing; groups of other types."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    kept = {"retention.ms": "-1"}  # the records are of 1970
    for made in admin.create_topics([NewTopic("lines", 3, 1, config=kept), NewTopic("orders", 3, 1)]).values():
        made.result(30)
    records(bootstrap, "lines", {0: 10, 1: 4})
    # The first question makes Kafka create its topic of offsets, and takes as long as that.
    said(bootstrap, ["--reset-offsets", "--group", "plain", "--topic", "orders", "--to-offset", "0", "--execute"])
    with Client.to(bootstrap, client_id="app") as client:
        classic_member(client, "shop", {"orders": (0, 1)}, instance="till-1")
        consumer_member(client, "modern", "member-1")
        found = Prepared(bootstrap, client)
        for group in ("done", "old"):
            found.group(group, "lines", "solo")
            found.leave(group)
            answer = client.ask(commit(group, {"lines": {0: 1, 1: 2, 2: 0}}), 9)
            assert not any(one.error_code for topic in answer.topics for one in topic.partitions), answer
        found.group("counts", "lines", "member-a", "member-b")
        found.group("unready", "absent", "alone")
        yield found
