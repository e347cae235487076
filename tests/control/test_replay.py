"""A journal leads another node to the same responses, events and logs, byte by byte."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from coordinator import cli
from coordinator.control.inputs import Kind
from coordinator.control.journal_file import JournalError, read_journal, write_journal
from coordinator.runtime.janitor import Janitor
from coordinator.runtime.replay import _PERFORM, Replay
from coordinator.runtime.snapshot import read_logs
from coordinator.runtime.steps import Endless
from coordinator.server.verbs.clock import keep_everybody
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from storage.memory_files import MemoryFiles
from tests import requests
from tests.commands import Shell, shell_fixture
from tests.control.recorded_sequences import RecordedSequence
from tests.control.steered import SteeredNode, stable_group
from tests.dataplane.broker import batch
from tests.members import ClassicMember
from tests.requests import commit, fetch

REQUESTS = 150
SEEDS = range(10)  # 0 is a seed of a server like any other
EARLIEST = -2


def replay(journal: bytes) -> tuple[Replay, MemoryFiles]:
    """Replay a journal. Returns the replay and the files that it wrote."""
    files = MemoryFiles()
    found = Replay(read_journal(journal), files, "again")
    differences = found.run()
    assert not differences, cli.load_module("replay")._describe(differences[0].entry, differences[0].response)
    return found, files


def play_and_compare(seed: int, *, is_synced: bool = False) -> None:
    sequence = RecordedSequence(seed, is_synced=is_synced)
    sequence.play(REQUESTS)
    if is_synced:
        sequence.server.node.engine.append()
    journal = sequence.journal()
    again, files = replay(journal)
    assert again.requests > REQUESTS / 2
    assert again.compared > REQUESTS / 3
    assert [encode(event) for event in again.events] == [encode(event) for event in sequence.server.events]
    assert read_logs(files, "again") == sequence.server.take_snapshot()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_and_verbs_are_replayed(seed: int) -> None:
    play_and_compare(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_decided_while_the_disk_syncs_is_replayed(seed: int) -> None:
    play_and_compare(seed, is_synced=True)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_hundred_sequences_are_replayed() -> None:
    for seed in range(1_000, 1_500):
        play_and_compare(seed)


def lines_of(server: SteeredNode) -> list[dict[str, Any]]:
    return [json.loads(line) for line in write_journal(server.operator.requests.journal).splitlines()]


def to_file(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def stable_server(**values: Any) -> SteeredNode:
    """A server whose journal has a group that joined, and its heartbeats."""
    server = SteeredNode(journal_bytes=16_777_216, offsets_topic_num_partitions=2, **values)
    members = stable_group(server, "a", "b")
    for member in members:
        member.beat()
    return server


muster_replay = shell_fixture("replay")


def test_the_command_says_that_nothing_differs(tmp_path: Path, muster_replay: Shell) -> None:
    server = stable_server()
    file = tmp_path / "run.jsonl"
    file.write_bytes(to_file(lines_of(server)))
    again = ("--data-dir", tmp_path / "again")
    assert muster_replay(0, file, *again) == "replayed 6 requests: 0 of 6 responses differ\n"
    for path, content in server.take_snapshot().items():
        if path.endswith(".log"):
            assert (tmp_path / "again" / path).read_bytes() == content
    assert "expected a directory that is new, or empty" in muster_replay(2, file, *again)


def test_a_planted_difference_is_found_and_named(tmp_path: Path, muster_replay: Shell) -> None:
    """The server of the journal waited for less time than this one: nobody is answered when the others were."""
    server = stable_server()
    lines = lines_of(server)
    lines[0]["origin"]["settings"]["group.initial.rebalance.delay.ms"] = 60_000
    file = tmp_path / "run.jsonl"
    file.write_bytes(to_file(lines))
    out = muster_replay(1, file)
    assert "request 1: JoinGroup 3 of 'a': not answered, expected a response" in out
    assert "request 3: SyncGroup 3 of 'a': response.error_code is 22, expected 0" in out
    told = json.loads(muster_replay(1, file, "--json", "--show", 1))
    assert (told["requests"], told["differences"], len(told["shown"])) == (6, 6, 1)


def test_another_seed_is_found_out(tmp_path: Path, muster_replay: Shell) -> None:
    lines = lines_of(stable_server())
    lines[0]["origin"]["seed"] = 8
    file = tmp_path / "run.jsonl"
    file.write_bytes(to_file(lines))
    assert "request 1: JoinGroup 3 of 'a': response." in muster_replay(1, file)


def test_a_reset_begins_a_journal_anew() -> None:
    server = stable_server()
    server.operator.state.reset()
    assert server.operator.requests.journal.origin is not None
    stable_group(server, "c")
    again, files = replay(to_file(lines_of(server)))
    assert again.requests == 2
    assert read_logs(files, "again") == server.take_snapshot()


def test_a_journal_that_was_turned_on_later_begins_with_a_reset() -> None:
    server = SteeredNode()
    server.operator.requests.set_journal(1_000_000)
    with pytest.raises(JournalError, match="was turned on later than the server: reset it"):
        read_journal(to_file(lines_of(server)))
    server.operator.state.reset()
    stable_group(server, "a")
    assert replay(to_file(lines_of(server)))[0].requests == 2


def test_a_journal_without_its_beginning_cannot_be_replayed() -> None:
    server = stable_server()
    journal = server.operator.requests.journal
    server.operator.requests.set_journal(20_000)
    server.operator.state.reset()
    (member,) = stable_group(server, "a")
    journal = server.operator.requests.journal
    while journal.origin is not None:
        member.beat()
    assert not journal.inputs, "what cannot be replayed takes no room"
    assert journal.bytes <= 20_000
    with pytest.raises(JournalError, match=r"its first requests are gone: a larger journal\.max\.bytes than 20000"):
        read_journal(to_file(lines_of(server)))


def test_a_journal_of_a_restored_snapshot_cannot_be_replayed() -> None:
    server = stable_server()
    server.operator.state.take_snapshot("s")
    server.operator.state.restore("s")
    with pytest.raises(JournalError, match="the server has begun with logs"):
        read_journal(to_file(lines_of(server)))


def test_idle_turns_are_not_kept() -> None:
    server = stable_server()
    before = len(server.operator.requests.journal.inputs)
    for _ in range(50):
        server.turn()
    assert len(server.operator.requests.journal.inputs) == before


@pytest.mark.parametrize(
    ("line", "text", "sentence"),
    [
        (0, "{}", "invalid line 1: expected the head of a journal of Muster"),
        (0, '{"muster_journal": 3, "version": "", "latest": 0, "obstacle": ""}', "invalid format 3: expected 2"),
        (1, '{"input": "fire", "value": "soon"}', "invalid line 2: invalid value of fire: expected a number"),
        (1, '{"input": "fire", "value": null}', "invalid line 2: invalid value of fire: expected a number"),
        (1, '{"input": "flush", "value": 1}', "invalid line 2: invalid value of flush: expected null"),
        (1, '{"input": "sing", "value": 1}', "invalid line 2: Invalid enum value 'sing'"),
        (1, '{"input": "verb", "value": {"name": "Sing", "fields": {}, "now_ms": 1}}', "invalid line 2: 'Sing'"),
        (2, "not JSON", "invalid line 3: "),
    ],
)
def test_a_file_that_is_no_journal_is_refused(line: int, text: str, sentence: str) -> None:
    lines = to_file(lines_of(stable_server())).splitlines()
    lines[line] = text.encode()
    with pytest.raises(JournalError, match=sentence):
        read_journal(b"\n".join(lines))


def test_a_request_that_cannot_be_read_is_refused(tmp_path: Path, muster_replay: Shell) -> None:
    lines = lines_of(stable_server())
    first = next(line for line in lines if "frame" in line)
    first["frame"] = "AAAA"
    file = tmp_path / "run.jsonl"
    file.write_bytes(to_file(lines))
    assert "request 1 cannot be read" in muster_replay(2, file)
    muster_replay(2, tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "settings",
            {"group.max.size": "many"},
            "invalid group.max.size 'many' (the journal): expected a whole number",
        ),
        ("settings", {"group.max.size": [1]}, "invalid group.max.size [1] (the journal): expected a whole number"),
        ("settings", {"of.a.later.version": 1}, "unknown setting of.a.later.version (the journal)"),
        ("topics", {"orders": 1 << 70}, "expected the head of a journal of Muster"),
    ],
)
def test_a_beginning_that_no_node_can_have_is_refused(
    name: str, value: dict[str, object], sentence: str, tmp_path: Path, muster_replay: Shell
) -> None:
    lines = lines_of(stable_server())
    lines[0]["origin"][name] = value
    file = tmp_path / "run.jsonl"
    file.write_bytes(to_file(lines))
    complaint = muster_replay(2, file, "--data-dir", tmp_path / "again")
    assert complaint.startswith(f"muster replay: {file}: ") and sentence in complaint


def test_every_kind_of_input_is_replayed() -> None:
    assert set(_PERFORM) == set(Kind)


def test_a_client_that_leaves_while_it_waits() -> None:
    server = stable_server()
    late = ClassicMember(server.connect("late"))
    late.join()
    server.frontend.disconnect(late.peer.connection)
    server.operator.clock.advance(400_000, keep_everybody)
    again, _ = replay(to_file(lines_of(server)))
    assert again.requests == 7


def produce(server: SteeredNode, value: str, partition: int = 0) -> None:
    """Write a record of now into orders."""
    data = batch(value, at_ms=server.clock.now_ms())
    server.connect("producer").ask(requests.produce("orders", {partition: data}), 9)


def test_long_polls_end_by_the_real_clock_of_the_journal() -> None:
    """One ends when its time is up, another when there is a record, and a third when its client leaves."""
    server = stable_server()
    late, woken, gone = (server.connect(name) for name in ("late", "woken", "gone"))
    late.send((fetch("orders", 1, max_wait_ms=500), 12))
    for peer in (woken, gone):
        peer.send((fetch("orders", 0, max_wait_ms=60_000), 12))
    server.turn()
    server.frontend.disconnect(gone.connection)
    server.advance(0.4)
    assert not late.answers
    server.advance(0.2)
    assert late.answers
    produce(server, "one")
    assert woken.answers[0][1].responses[0].partitions[0].records
    again, files = replay(to_file(lines_of(server)))
    assert again.compared == 6 + 3
    assert read_logs(files, "again") == server.take_snapshot()


def test_retention_is_replayed() -> None:
    server = stable_server()
    for partition in range(4):  # a step each
        produce(server, "old", partition)
    janitor = Janitor(server.node, server.clock.now_ms())
    server.operator.clock.advance(8 * 86_400_000, keep_everybody)
    for _ in janitor.round(server.clock.now_ms()):
        server.turn()
    found = server.connect("tool").ask(requests.list_offsets("orders", {3: EARLIEST}), 5)
    assert found.topics[0].partitions[0].offset == 1, "the record is gone"
    _, files = replay(to_file(lines_of(server)))
    assert read_logs(files, "again") == server.take_snapshot()


class RandomMeter:
    """Ends steps as a processor would that is sometimes fast and sometimes slow."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)

    def begin(self) -> None:
        """Nothing is counted."""

    def is_over(self) -> bool:
        return self._dice.random() < 0.3


@pytest.mark.parametrize("seed", range(1, 6))
def test_steps_of_any_length_are_replayed(seed: int) -> None:
    """How far a step goes depends on the machine, and what is decided between two steps on that."""
    server = stable_server(topics={"orders": 3_000})
    server.node.engine.unfinished.meter = RandomMeter(seed)
    names = tuple(f"g{number}" for number in range(300))
    deleting, listing, committing = (server.connect() for _ in range(3))
    for name in names:
        committing.ask(commit(name, {"orders": {0: 1}}), 8)
    listing.send((ListGroupsRequest(), 4))
    committing.send((commit("many", {"orders": dict.fromkeys(range(3_000), 7)}), 8))
    deleting.send((DeleteGroupsRequest(names), 2))
    listing.send((OffsetFetchRequest(groups=(OffsetFetchRequestGroup("many"),)), 8))
    while server.frontend.has_work or len(listing.answers) < 2:
        server.turn()
    listed = {group.group_id for group in listing.answers[0][1].groups}
    journal = server.operator.requests.journal
    noted = [one.value for one in journal.inputs if one.kind is Kind.STEP]
    assert max(one.checkpoints for one in noted) > 2 > min(one.checkpoints for one in noted)
    replay(write_journal(journal))
    assert listed <= {"g", "many", *names}


def test_a_journal_that_says_nothing_of_checkpoints_is_replayed() -> None:
    """Such a journal was written when the steps of a request were its own affair: it is decided at once."""
    server = stable_server()
    server.node.engine.unfinished.meter = Endless()
    peer = server.connect()
    names = tuple(f"g{number}" for number in range(300))
    for name in names:
        peer.ask(commit(name, {"orders": {0: 1}}), 8)
    assert len(peer.ask(ListGroupsRequest(), 4).groups) > 300
    assert len(peer.ask(DeleteGroupsRequest(names), 2).results) == 300
    lines = [line for line in lines_of(server) if line.get("input") != "step"]
    lines[0]["muster_journal"] = 1
    lines.insert(-1, {"input": "step", "value": None})
    replay(to_file(lines))


_PLAIN = st.recursive(
    st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["", "x"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.fixed_dictionaries({"a": inner, "b": inner})),
    max_leaves=6,
)


@given(_PLAIN, _PLAIN)
def test_of_responses_that_differ_a_field_is_named_where_they_do(before: Any, after: Any) -> None:
    change = cli.load_module("replay").find_change(before, after)
    assert (change is None) is (before == after)
    if change is not None:
        where = change.removeprefix("response").partition(" is ")[0]
        for step in re.findall(r"\.(\w)|\[(\d)\]", where):
            before, after = (one[step[0]] if step[0] else one[int(step[1])] for one in (before, after))
        assert before != after
