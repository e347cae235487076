"""The commands as a shell calls them, and groups and records for them to work on."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from coordinator.cli import main
from coordinator.client import Client
from tests.members import ClassicMember, ConsumerMember
from tests.requests import share

HOUR_MS = 3_600_000
SESSION_MS = 300_000


class Command:
    """`muster` run to its end against one server: exit code, lines, complaint."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._bootstrap = bootstrap
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, list[str], str]:
        self._capsys.readouterr()
        code = main([*words, "--bootstrap-server", self._bootstrap])
        said = self._capsys.readouterr()
        return code, said.out.splitlines(), said.err

    def lines(self, *words: str) -> list[str]:
        """What is printed, blanks squeezed so that columns need not be counted."""
        code, lines, complaint = self(*words)
        assert (code, complaint) == (0, "")
        return [squeeze(line) for line in lines]

    def json(self, *words: str) -> Any:
        code, lines, complaint = self(*words, "--json")
        assert (code, complaint) == (0, "")
        return json.loads("\n".join(lines))


def squeeze(line: str) -> str:
    """A line with single blanks, so that columns need not be counted."""
    return " ".join(line.split())


def records(bootstrap: str, topic: str, counts: Mapping[int, int]) -> None:
    """So many records in each partition, an hour apart; the first at 1:00 on the first day of 1970."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, b"x", partition=partition, timestamp=(1 + number) * HOUR_MS)
    assert producer.flush(20) == 0


def classic_member(
    client: Client, group: str, assignment: Mapping[str, tuple[int, ...]], instance: str | None = None
) -> str:
    """A stable group of one; its member id. Without a heartbeat it stays for the session, five minutes."""
    member = ClassicMember(client, group, instance=instance, topics=assignment)
    assert member.join(SESSION_MS, SESSION_MS).error_code == 0
    assert member.sync(share(member.member_id, assignment)).error_code == 0
    return member.member_id


def consumer_member(client: Client, group: str, name: str) -> None:
    """A KIP-848 member that owns all of the topic "orders"."""
    member = ConsumerMember(client, name, group)
    assert (member.own().error_code, member.own().error_code) == (0, 0)
