"""Whatever an operator does: cut off at any call to the disk, by a kill or by a disk that fails, a server starts, and each
group, topic and offset is as it was or as it was to be. (Kills at random times: `tests/admin/operation_kills.py`.)"""

import errno
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
import trio

from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import State
from protocol import record_batch
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records import Record
from protocol.steps import finish_steps
from storage import replacement
from storage.files import StorageError
from tests.control.cluster import Cluster
from tests.control.steered import SteeredNode
from tests.requests import commit, commit_in_transaction, produce
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

TOPICS = {"orders": 4, "other": 2}
EARLIER = State(TOPICS, {"g": {"orders": {"0": 1}}, "h": {"orders": {"0": 2, "1": 2}, "other": {"0": 2}}})
BEFORE = State(TOPICS, {"g": {"orders": {"0": 3}}, "h": {"orders": {"0": 4, "1": 4}, "other": {"0": 4}}})
AFTER = State(TOPICS, {"g": {"orders": {"0": 5}}, "h": {"orders": {"0": 6, "1": 6}, "other": {"0": 6}}})


def seed_state(server: Cluster) -> None:
    server.operator.state.seed(AFTER)


def delete_a_topic(server: Cluster) -> None:
    server.connect("tool").ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("other"),)), 6)
    server.rest()


def delete_a_group(server: Cluster) -> None:
    server.ask_coordinator("h", DeleteGroupsRequest(("h",)), 2)
    server.rest()


def forget_groups(server: Cluster) -> None:
    server.operator.groups.forget_all("h")


def commit_in_one_transaction(server: Cluster, *groups: str) -> None:
    peer = server.connect("tool", broker=server.at("import", "transaction"))
    producer = peer.ask(InitProducerIdRequest("import", 60_000), 3)
    named = ("import", producer.producer_id, producer.producer_epoch)
    for group in groups:
        peer.ask(AddOffsetsToTxnRequest(*named, group), 3)
        for topic, offsets in AFTER.offsets[group].items():
            part = {topic: {int(partition): offset for partition, offset in offsets.items()}}
            server.ask_coordinator(group, commit_in_transaction("import", group, named[1:], part), 3)
    peer.ask(EndTxnRequest(*named, committed=True), 3)
    server.rest()


def import_offsets(server: Cluster) -> None:
    """As `muster offsets import` does: all offsets of a group, or none."""
    commit_in_one_transaction(server, "h")


def commit_offsets_of_two_groups(server: Cluster) -> None:
    """In one transaction, whose ends are in two logs."""
    assert server.node.world.partitions.owner("g") is not server.node.world.partitions.owner("h")
    commit_in_one_transaction(server, "g", "h")


def commit_offsets(server: Cluster) -> None:
    server.ask_coordinator("g", commit("g", {"orders": {0: 5}}), 8)


def lose_commits(server: Cluster) -> None:
    server.operator.brokers.move_group("h", (server.at("h") + 1) % 3, lose_last_commits=2)


def restart_brokers(server: Cluster) -> None:
    trio.run(server.operator.brokers.restart_all, trio.lowlevel.checkpoint)


def take_a_snapshot(server: Cluster) -> None:
    server.operator.state.take_snapshot("other")


def restore_a_snapshot(server: Cluster) -> None:
    server.operator.state.restore("after")


def reset(server: Cluster) -> None:
    server.operator.state.reset()


def reset_a_prefix(server: Cluster) -> None:
    """All but one topic: two groups and the other topic, in several logs."""
    finish_steps(server.operator.state.reset_prefix_in_steps("", ("orders",)))


class Operation(NamedTuple):
    do: Callable[[Cluster], None]
    is_whole: tuple[str, ...] = ()  # groups whose offsets are all as they were, or all as they were to be
    is_all: bool = False  # whether everything is as it was, or everything as it was to be


OPERATIONS = {
    one.do.__name__: one
    for one in (
        Operation(seed_state),
        Operation(delete_a_topic),
        Operation(delete_a_group, ("g",)),
        Operation(forget_groups, ("g",)),
        Operation(import_offsets, is_all=True),
        Operation(commit_offsets_of_two_groups, is_all=True),
        Operation(commit_offsets, ("g", "h")),
        Operation(lose_commits),
        Operation(restart_brokers, is_all=True),
        Operation(take_a_snapshot, is_all=True),
        Operation(restore_a_snapshot, is_all=True),
        Operation(reset, is_all=True),
        Operation(reset_a_prefix, is_all=True),
    )
}


def start(disk: CrashingDisk, *, is_synced: bool = False) -> Cluster:
    replacement.finish(disk, "data")
    return Cluster(files=disk, topics={"orders": 4}, is_synced=is_synced)


def prepare(*, is_synced: bool = False) -> tuple[Cluster, CrashingDisk]:
    disk = CrashingDisk()
    disk.make_directory("data")
    disk.sync_directory("")
    server = start(disk, is_synced=is_synced)
    server.operator.state.seed(AFTER)
    server.connect("producer").ask(produce("other", {0: record_batch.encode([Record(None, b"a")])}), 9)
    server.operator.state.take_snapshot("after")
    for state in (EARLIER, BEFORE):
        server.operator.state.seed(state)
    return server, disk


def flat(state: State) -> dict[Any, int]:
    found: dict[Any, int] = dict(state.topics)
    for group, topics in state.offsets.items():
        found |= {(group, topic, at): offset for topic, offsets in topics.items() for at, offset in offsets.items()}
    return found


def check(name: str, found: State, after: State) -> None:
    operation = OPERATIONS[name]
    if operation.is_all:
        assert found in (BEFORE, after)
    for group in operation.is_whole:
        assert found.offsets.get(group) in (BEFORE.offsets.get(group), after.offsets.get(group)), f"a part of {group}"
    now, was, to_be = flat(found), flat(BEFORE), flat(after)
    earlier = flat(EARLIER) if operation.do is lose_commits else {}
    for key in now.keys() | was.keys() | to_be.keys():
        known = {was.get(key), to_be.get(key)} | ({earlier[key]} if key in earlier else set())
        assert now.get(key) in known, f"{key} is {now.get(key)}, not one of {known}"


def outcomes(name: str, *, is_synced: bool = False) -> tuple[State, range]:
    """What the operation leads to, and its calls to the disk."""
    server, disk = prepare(is_synced=is_synced)
    assert server.operator.state.contents() == BEFORE
    first = disk.calls
    OPERATIONS[name].do(server)
    after, last = server.operator.state.contents(), disk.calls
    assert start(disk.copy()).operator.state.contents() == after, "it is durable"
    return after, range(first + 1, last + 1)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_server_that_was_killed_starts_with_what_was_or_was_to_be(name: str) -> None:
    after, calls = outcomes(name)
    for number in calls:
        server, disk = prepare()
        disk.killed_at = number
        with pytest.raises(ProcessKill):
            OPERATIONS[name].do(server)
        check(name, start(disk.copy()).operator.state.contents(), after)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_start_that_is_killed_as_well_is_done_by_the_next_one(name: str) -> None:
    after, calls = outcomes(name)
    for number in calls[:: max(1, len(calls) // 5)]:
        server, disk = prepare()
        disk.killed_at = number
        with pytest.raises(ProcessKill):
            OPERATIONS[name].do(server)
        whole = disk.copy()
        first = whole.calls + 1
        start(whole)
        for again in (first, *range(max(first + 1, whole.calls - 8), whole.calls + 1)):  # the last do what was left
            cut_off = disk.copy()
            cut_off.killed_at = again
            with pytest.raises(ProcessKill):
                start(cut_off)
            check(name, start(cut_off.copy()).operator.state.contents(), after)


@pytest.mark.parametrize("name", OPERATIONS)
def test_after_a_power_cut_with_fsync_there_is_what_was_or_was_to_be(name: str) -> None:
    after, calls = outcomes(name, is_synced=True)
    for number in calls:
        server, disk = prepare(is_synced=True)
        disk.killed_at = number
        with pytest.raises(ProcessKill):
            OPERATIONS[name].do(server)
        for seed in range(3):
            again = start(disk.crash(Random(seed)))
            check(name, again.operator.state.contents(), after)
            assert not again.node.world.dataplane.closed_partitions, "the log of each topic that is there"


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_at_one_call_leaves_what_was_or_was_to_be(name: str) -> None:
    after, calls = outcomes(name)
    for number in calls:
        server, disk = prepare()
        disk.fail = {number: (errno.ENOSPC, errno.EIO, errno.EROFS)[number % 3]}
        failure = attempt(server, OPERATIONS[name].do)
        disk.fail = {}
        found = start(disk.copy()).operator.state.contents()
        check(name, found, after)
        if failure is None or isinstance(failure, Refusal):  # else the process has ended
            shown = server.operator.state.contents()
            assert shown == found, "what it shows is durable"
            error = server.commit("g", 9)
            assert (server.offsets("g") == {0: 9}) == (not error)
            shown = server.operator.state.contents()
            assert start(disk.copy()).operator.state.contents() == shown, "it goes on"


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_is_full_from_one_call_on_leaves_what_was_or_was_to_be(name: str) -> None:
    after, calls = outcomes(name)
    for number in calls:
        server, disk = prepare()
        disk.fail = dict.fromkeys(range(number, number + 10_000), errno.ENOSPC)
        attempt(server, OPERATIONS[name].do)
        disk.fail = {}
        check(name, start(disk.copy()).operator.state.contents(), after)


def attempt(server: SteeredNode, do: Callable[[Any], None]) -> Exception | None:
    try:
        do(server)
    except (Refusal, StorageError) as failure:
        return failure
    return None
