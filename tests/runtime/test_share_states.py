"""The share coordinator of a node: its topic, what a start and a move find, and what a full log loses."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coordinator.control.inputs import Kind
from coordinator.core.catalog.catalog import TOPIC
from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from coordinator.core.catalog.records import CatalogRecord, ConfigKey, ConfigValue
from coordinator.core.moves import StartBroker, StopBroker
from coordinator.core.result import BeginShareStates, Call, Result
from coordinator.core.share_state.keys import coordinator_key, read_coordinator_key
from coordinator.core.share_state.values import ShareState, StateBatch, StateKey, StateUpdate
from coordinator.runtime import share_groups, share_states
from coordinator.runtime.janitor import Janitor
from coordinator.runtime.share_state_requests import write_share_group_state
from protocol.errors import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateRequestReadStateData,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateRequestStateBatch,
    WriteShareGroupStateRequestWriteStateData,
)
from storage import cleaner
from storage.files import StorageError
from tests.requests import alter_configs, fetch
from tests.server.in_memory import DATA_DIR, WALL_MS, InMemory, Peer
from tests.steps import count_steps, finish
from tests.storage.crashing_disk import CrashingDisk

PRUNE_MS = 300_000
COLD_MS = 300_000  # share.coordinator.cold.partition.snapshot.interval.ms


def key_in(server: InMemory, partition: int = 0, group: str = "g") -> StateKey:
    return StateKey(group, server.node.world.ledger.catalog.topics["orders"].id, partition)


def acknowledge(server: InMemory, first: int, last: int | None = None, partition: int = 0) -> ErrorCode:
    """Write that records were accepted."""
    update = StateUpdate(-1, -1, 0, -1, (StateBatch(first, first if last is None else last, 2, 1),))
    return server.node.engine.share_states.write(key_in(server, partition), update, WALL_MS)


def begun(files: Any = None, **settings: Any) -> InMemory:
    """A server with the state of a share partition."""
    server = InMemory(files, **settings)
    assert server.node.engine.share_states.initialize(key_in(server), 0, 0, WALL_MS) == ErrorCode.NONE
    server.node.engine.flush()
    return server


def state_of(server: InMemory, partition: int = 0) -> ShareState:
    found = server.node.engine.share_states.read(key_in(server, partition), -1, WALL_MS)
    assert isinstance(found, ShareState), found
    return found


def read_request(server: InMemory, partition: int = 0) -> ReadShareGroupStateRequest:
    key = key_in(server, partition)
    one = ReadShareGroupStateRequestPartitionData(partition, -1)
    return ReadShareGroupStateRequest("g", (ReadShareGroupStateRequestReadStateData(key.topic_id, (one,)),))


def code_of(peer: Peer, server: InMemory, partition: int = 0) -> int:
    answer = peer.ask(read_request(server, partition), 0)
    code: int = answer.results[0].partitions[0].error_code
    return code


def test_a_restart_finds_what_was_written() -> None:
    server = begun()
    for first in range(0, 20, 2):
        assert acknowledge(server, first) == ErrorCode.NONE
    before = state_of(server)
    server.node.engine.flush()
    again = InMemory(server.files)
    assert state_of(again) == before
    assert len(before.batches) == 10


@pytest.mark.parametrize("is_synced", [False, True])
def test_after_a_crash_all_is_there_that_was_answered(is_synced: bool) -> None:
    """Killed at any moment, and with --fsync without power; what was not answered may be there or not."""
    disk = CrashingDisk()
    server = begun(disk, is_synced=is_synced)
    server.node.engine.append()
    for first in range(8):
        acknowledge(server, first)
        server.node.engine.append()
        acknowledge(server, 100 + first)  # nobody is told of this one
        for name, found in disk.crashes():
            if not is_synced and name != "killed":
                continue
            there = state_of(InMemory(found))
            offsets = {at for batch in there.batches for at in range(batch.first_offset, batch.last_offset + 1)}
            assert set(range(first + 1)) <= offsets, name
        server.node.engine.append()


def test_a_broker_that_stops_hands_its_states_over() -> None:
    server = begun(virtual_brokers=2, share_coordinator_state_topic_num_partitions=4)
    acknowledge(server, 3)
    before = state_of(server)
    states, coordinators = server.node.engine.share_states, server.node.world.coordinators
    index = states.partition_of(key_in(server))
    leader = coordinators.of_share_states[index]
    old, new = server.connect(broker=leader), server.connect(broker=1 - leader)
    assert (code_of(old, server), code_of(new, server)) == (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)

    server.node.command(StopBroker(leader, load_ms=1_000), server.clock.now_ms(), str)
    assert (code_of(old, server), code_of(new, server)) == (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    assert acknowledge(server, 4) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    told: list[int] = []
    states.call_when_served(key_in(server), told.append)
    server.rest()
    server.advance(0.9)
    assert not told
    server.advance(0.2)
    assert len(told) == 1 and code_of(new, server) == ErrorCode.NONE
    assert state_of(server) == before and acknowledge(server, 4) == ErrorCode.NONE


def test_without_a_broker_no_state_is_available() -> None:
    server = begun()
    server.node.command(StopBroker(0), server.clock.now_ms(), str)
    server.rest()
    assert acknowledge(server, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    server.node.command(StartBroker(0), server.clock.now_ms(), str)
    server.rest()
    server.advance(0.1)
    assert acknowledge(server, 1) == ErrorCode.NONE


def test_a_client_that_asks_for_the_coordinator_makes_the_topic() -> None:
    server = InMemory()
    peer = server.connect()
    wanted = FindCoordinatorRequest(key_type=2, coordinator_keys=(coordinator_key(key_in(server)),))
    codes = [peer.ask(wanted, 6).coordinators[0].error_code for _ in range(2)]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]
    (topic,) = peer.ask(MetadataRequest((MetadataRequestTopic(name=SHARE_STATE_TOPIC),)), 12).topics
    assert topic.is_internal and len(topic.partitions) == 50
    resource = DescribeConfigsRequestResource(2, SHARE_STATE_TOPIC, ("retention.ms", "cleanup.policy"))
    configs = peer.ask(DescribeConfigsRequest((resource,)), 4).results[0].configs
    assert {one.name: one.value for one in configs} == {"retention.ms": "-1", "cleanup.policy": "delete"}


def test_clients_may_read_the_log_of_states() -> None:
    server = begun()
    index = server.node.engine.share_states.partition_of(key_in(server))
    answer = server.connect().ask(fetch(SHARE_STATE_TOPIC, index), 12)
    assert answer.responses[0].partitions[0].high_watermark == 1


def test_records_that_no_share_partition_needs_are_deleted() -> None:
    server = begun(share_coordinator_snapshot_update_records_per_snapshot=10)
    for first in range(0, 50, 2):
        acknowledge(server, first)
    server.node.engine.flush()
    states, dataplane = server.node.engine.share_states, server.node.world.dataplane
    source = dataplane.open_state(states.partition_of(key_in(server)))
    noted: list[Kind] = []
    server.node.world.set_note_input(lambda kind, value: noted.append(kind))
    janitor = Janitor(server.node, WALL_MS)
    list(janitor.round(WALL_MS + PRUNE_MS - 1))
    assert source.start_offset == 0
    list(janitor.round(WALL_MS + PRUNE_MS))
    server.rest()
    assert Kind.PRUNE in noted
    assert source.start_offset == source.end_offset - 1, "what had not changed for long has a snapshot of its own"
    before = state_of(server)
    assert state_of(InMemory(server.files)) == before and len(before.batches) == 25


LOSING: Any = {
    "retention.ms": "1",
    "retention.bytes": "1",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0",
}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_no_setting_of_a_topic_or_the_broker_lets_states_go(policy: str) -> None:
    """An update says what has changed, so an older one of the same key counts as well, and so does one of any age."""
    settings = {"share_coordinator_state_topic_num_partitions": 1, "log_retention_bytes": 1}
    server = begun(**settings, share_coordinator_cold_partition_snapshot_interval_ms=10**9)
    peer, topic = server.connect(), SHARE_STATE_TOPIC
    for values, code in (
        ({"cleanup.policy": policy}, ErrorCode.INVALID_CONFIG),
        ({"cleanup.policy": "delete"}, ErrorCode.NONE),
        (LOSING, ErrorCode.NONE),
        ({"cleanup.policy": None}, ErrorCode.NONE),  # which leaves Kafka's default
    ):
        assert peer.ask(alter_configs(TOPIC, topic, values), 1).responses[0].error_code == code
    for first in range(0, 100, 2):
        acknowledge(server, first)
        server.node.engine.flush()
    before = state_of(server)
    janitor = Janitor(server.node, WALL_MS, rest_rounds=0)
    for now_ms in range(WALL_MS, WALL_MS + 10**9, 3 * 10**8):
        list(janitor.round(now_ms))
        server.rest()
    assert state_of(InMemory(server.files, **settings)) == before


def test_a_segment_of_states_is_as_old_as_its_first_record() -> None:
    """It ends after `segment.ms`, a week, as that of any topic, so that what is pruned can go."""
    server, day_ms = begun(share_coordinator_state_topic_num_partitions=1), 86_400_000
    bases = []
    for day in range(20):
        update = StateUpdate(-1, -1, 0, -1, (StateBatch(day, day, 2, 1),))
        server.node.engine.share_states.write(key_in(server), update, WALL_MS + day * day_ms)
        server.node.engine.flush()
        logs = server.files.list(f"{DATA_DIR}/{SHARE_STATE_TOPIC}-0")
        bases.append(sum(name.endswith(".log") for name in logs))
    assert bases == [1] * 8 + [2] * 8 + [3] * 4


def test_states_outlive_a_setting_that_an_earlier_version_has_taken() -> None:
    server = begun(share_coordinator_state_topic_segment_bytes=1_024, share_coordinator_state_topic_num_partitions=1)
    key = ConfigKey(TOPIC, SHARE_STATE_TOPIC, "cleanup.policy")
    server.node.engine.record(Result(records=(CatalogRecord(key, ConfigValue("compact")),)), WALL_MS)
    for first in range(0, 100, 2):
        acknowledge(server, first)
        server.node.engine.flush()
    before = state_of(server)
    for log in server.node.compacted_logs():
        list(cleaner.compact(log, WALL_MS))
    assert state_of(InMemory(server.files, share_coordinator_state_topic_num_partitions=1)) == before


@pytest.mark.parametrize("is_synced", [False, True])
def test_whenever_it_crashes_no_group_has_states_that_are_not_there(*, is_synced: bool) -> None:
    """They are begun, and deleted in the end. Killed, and with --fsync without power: of each file then something else is
    left."""
    disk, after = CrashingDisk(), list[CrashingDisk]()
    server = InMemory(disk, is_synced=is_synced, offsets_topic_num_partitions=1)

    def crash(_operation: str, _path: str) -> None:
        after.extend(left for how, left in disk.crashes() if is_synced or how == "killed")

    disk.after_call = crash
    beat(server, 0, "orders")
    beat(server, -1)
    deleting = DeleteShareGroupOffsetsRequest("g", (DeleteShareGroupOffsetsRequestTopic("orders"),))
    assert server.connect().ask(deleting, 0).error_code == ErrorCode.NONE
    server.rest()
    assert not list(server.node.engine.share_states.states())
    counts = set[int]()
    for left in after[:: 4 if is_synced else 1]:
        again = InMemory(left, offsets_topic_num_partitions=1)
        groups = [one.shard.groups["g"] for one in again.node.world.partitions if "g" in one.shard.groups]
        begun_states = {key.partition for key, _ in again.node.engine.share_states.states()}
        initialized = {index for group in groups for held in group.initialized.values() for index in held.partitions}
        assert initialized <= begun_states
        counts.add(len(initialized))
    assert counts == {0, 4}


@pytest.mark.parametrize("seed", range(4))
def test_a_start_knows_which_records_are_needed(seed: int) -> None:
    """As its writer did, however many records a batch of the log has: what it then deletes nobody misses."""
    dice, settings = Random(seed), {"share_coordinator_snapshot_update_records_per_snapshot": 5}
    server = begun(share_coordinator_state_topic_num_partitions=1, **settings)
    for partition in (1, 2):
        server.node.engine.share_states.initialize(key_in(server, partition), 0, 0, WALL_MS)
    for first in range(0, 80, 2):
        acknowledge(server, first, partition=dice.randrange(3))
        if dice.random() < 0.2:
            server.node.engine.flush()
    server.node.engine.flush()
    before = {partition: state_of(server, partition) for partition in range(3)}
    again = InMemory(server.files, share_coordinator_state_topic_num_partitions=1, **settings)
    (here,), (there,) = server.node.engine.share_states._logs, again.node.engine.share_states._logs
    assert there.machine.needed_offset == here.machine.needed_offset > 0
    list(again.node.engine.share_states.prune(WALL_MS))
    last = InMemory(again.files, share_coordinator_state_topic_num_partitions=1, **settings)
    assert {partition: state_of(last, partition) for partition in range(3)} == before


def _forget_some(server: InMemory) -> None:
    for partition in range(0, 8, 2):
        assert server.node.engine.share_states.delete(key_in(server, partition), WALL_MS) == ErrorCode.NONE


def _begin_anew(server: InMemory) -> None:
    _forget_some(server)
    for partition in range(0, 8, 4):
        assert server.node.engine.share_states.initialize(key_in(server, partition), 3, 70, WALL_MS) == ErrorCode.NONE


def _move_and_go_on(server: InMemory) -> None:
    states = server.node.engine.share_states
    leader = server.node.world.coordinators.of_share_states[0]
    server.node.command(StopBroker(leader), server.clock.now_ms(), str)
    while not states.is_served:  # the rest of the pruning is done by this test, later
        server.node.engine.long_requests.step()
        server.node.engine.fire(server.clock.now_ms())
    for partition in range(8):
        assert acknowledge(server, 20, partition=partition) == ErrorCode.NONE


@pytest.mark.parametrize("meanwhile", [_forget_some, _begin_anew, _move_and_go_on])
@pytest.mark.parametrize("steps", [1, 4, 7])
def test_what_happens_to_states_while_snapshots_of_them_are_written_counts(
    meanwhile: Callable[[InMemory], None], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot of what a state was before would bring back what was deleted, and undo what was acknowledged."""
    monkeypatch.setattr(share_states, "PRUNED_AT_ONCE", 1)
    settings = {"share_coordinator_state_topic_num_partitions": 1, "virtual_brokers": 2}
    server = InMemory(topics={"orders": 8}, **settings)
    states = server.node.engine.share_states
    for partition in range(8):
        assert states.initialize(key_in(server, partition), 2, 0, WALL_MS) == ErrorCode.NONE
        acknowledge(server, 5 + partition, partition=partition)
    server.node.engine.flush()
    pruning = states.prune(WALL_MS + COLD_MS)
    for _ in range(steps):
        next(pruning)
    meanwhile(server)
    server.node.engine.flush()
    expected = _progress(server)
    for _ in pruning:
        pass
    server.node.engine.flush()
    assert _progress(server) == expected
    memory = server.node.engine.memory
    assert memory.states_bytes == sum(one.machine.bytes for one in states._logs) > 0
    assert _progress(InMemory(server.files, topics={"orders": 8}, **settings)) == expected


def _progress(server: InMemory) -> dict[int, tuple[int, int, tuple[StateBatch, ...]]]:
    """Return how far each share partition is."""
    return {
        key.partition: (state.state_epoch, state.start_offset, state.batches)
        for key, state in server.node.engine.share_states.states()
    }


def test_a_coordinator_that_moves_has_written_what_it_has_decided() -> None:
    server = begun(virtual_brokers=2)
    acknowledge(server, 3)
    states = server.node.engine.share_states
    leader = server.node.world.coordinators.of_share_states[states.partition_of(key_in(server))]
    states.unload(states.partition_of(key_in(server)))
    server.node.command(StopBroker(leader, load_ms=1_000), server.clock.now_ms(), str)
    server.rest()
    server.advance(1.1)
    assert [batch.first_offset for batch in state_of(server).batches] == [3]


def test_states_of_a_topic_that_went_while_they_were_loaded_go_as_well() -> None:
    server = begun(virtual_brokers=2)
    states = server.node.engine.share_states
    leader = server.node.world.coordinators.of_share_states[states.partition_of(key_in(server))]
    server.node.command(StopBroker(leader, load_ms=1_000), server.clock.now_ms(), str)
    server.rest()
    server.connect(broker=1 - leader).ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("orders"),)), 6)
    server.advance(1.1)
    assert not list(states.states())


def beat(server: InMemory, epoch: int, *topics: str) -> None:
    """Let the one member of a group join, with topics, or leave, at epoch -1."""
    request = ShareGroupHeartbeatRequest("g", "m", epoch, subscribed_topic_names=topics or None)
    assert server.connect().ask(request, 1).error_code == ErrorCode.NONE
    server.rest()


def test_of_states_that_cannot_be_begun_the_group_hears_though_others_are_being_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither waits for the other: both are asked for again at the next heartbeat."""
    server = begun(share_coordinator_state_topic_num_partitions=4)
    states = server.node.engine.share_states
    homes = [states.partition_of(key_in(server, index)) for index in range(4)]
    loading = next(index for index in (1, 2, 3) if homes.count(homes[index]) == 1)
    failing = next(index for index in (1, 2, 3) if index != loading)
    initialize, wrong = states.initialize, key_in(server, failing)
    states.unload(homes[loading])
    monkeypatch.setattr(
        states, "initialize", lambda key, *rest: ErrorCode.INVALID_REQUEST if key == wrong else initialize(key, *rest)
    )
    beat(server, 0, "orders")
    group = server.node.world.partitions.owner("g").shard.groups["g"]
    left = tuple([index for index in range(4) if index not in (loading, failing)])
    assert [one.partitions for one in group.initialized.values()] == [left]
    assert not group.initializing


def test_a_state_that_cannot_be_begun_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = InMemory()
    states = server.node.engine.share_states
    initialize = states.initialize

    def fail_for_one(key: StateKey, *rest: int) -> ErrorCode:
        return ErrorCode.INVALID_REQUEST if key.partition == 2 else initialize(key, *rest)

    monkeypatch.setattr(states, "initialize", fail_for_one)
    beat(server, 0, "orders")
    groups = server.node.world.partitions.owner("g").shard.groups
    assert [one.partitions for one in groups["g"].initialized.values()] == [(0, 1, 3)]
    monkeypatch.undo()
    beat(server, 2)
    group = groups["g"]
    assert [one.partitions for one in group.initialized.values()] == [(0, 1, 2, 3)]
    assert not group.initializing


@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("away", [("orders",), ("other",), ("orders", "other"), ()])
def test_states_that_cannot_be_deleted_stay_noted_until_they_are(away: tuple[str, ...], at: int) -> None:
    """Some of their coordinators are loading: the group forgets the topics whose states are gone, and no others."""
    server = InMemory(topics={"orders": 4, "other": 2})
    beat(server, 0, "orders", "other")
    beat(server, -1)
    states, topics = server.node.engine.share_states, server.node.world.ledger.catalog.topics
    homes = {name: [states.partition_of(StateKey("g", topics[name].id, index)) for index in range(count)]
             for name, count in (("orders", 4), ("other", 2))}  # fmt: skip
    unloaded = {homes[name][at] for name in away}
    failing = {name for name, found in homes.items() if unloaded & set(found)}
    assert failing >= set(away)
    for index in unloaded:
        states.unload(index)
    (group,) = [one.shard.groups for one in server.node.world.partitions if "g" in one.shard.groups]

    def delete(*names: str) -> dict[str, int]:
        request = DeleteShareGroupOffsetsRequest("g", tuple(map(DeleteShareGroupOffsetsRequestTopic, names)))
        return {one.topic_name: one.error_code for one in server.connect().ask(request, 0).responses}

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert delete(*homes) == {name: loading if name in failing else 0 for name in homes}
    assert set(group["g"].deleting.values()) == failing
    for index in unloaded:
        list(states.replay(index))
        states.serve(index, WALL_MS)
    assert delete(*failing) == dict.fromkeys(failing, 0), "what was begun can be repeated"
    assert not group["g"].deleting and not list(states.states())


@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0), (0, 1, 2, 3), (3, 1, 0, 2)])
def test_states_that_a_join_cannot_begin_are_begun_when_they_are_served(order: tuple[int, ...]) -> None:
    """Whichever of them are being loaded, and in whichever order that ends; then the member gets its partitions."""
    server = begun(share_coordinator_state_topic_num_partitions=8)
    states, topic_id = server.node.engine.share_states, key_in(server).topic_id
    homes = [states.partition_of(key_in(server, partition)) for partition in order]
    for index in dict.fromkeys(homes):
        states.unload(index)
    member = server.connect()
    joined = member.ask(ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("orders",)), 1)
    server.rest()
    shard = server.node.world.partitions.owner("g").shard
    for index in dict.fromkeys(homes):
        assert topic_id not in shard.groups["g"].initialized
        list(states.replay(index))
        states.serve(index, WALL_MS)
        server.rest()
    assert shard.groups["g"].initialized[topic_id].partitions == (0, 1, 2, 3)
    assert {key.partition for key, _ in states.states()} == {0, 1, 2, 3}
    assert not states._waiting
    server.advance(5.0)
    answer = member.ask(ShareGroupHeartbeatRequest("g", "m", joined.member_epoch), 1)
    assert [one.partitions for one in answer.assignment.topic_partitions] == [(0, 1, 2, 3)]


def test_a_join_whose_group_has_moved_begins_nothing_when_states_are_served() -> None:
    """The next heartbeat asks again, of the coordinator that the group has by then."""
    server = begun(virtual_brokers=2, share_coordinator_state_topic_num_partitions=1)
    states, owner = server.node.engine.share_states, server.node.world.partitions.owner("g")
    states.unload(0)
    leader = server.node.world.coordinators.of_groups[owner.index]
    member = server.connect(broker=leader)
    member.ask(ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("orders",)), 1)
    server.rest()
    server.node.command(StopBroker(leader, load_ms=60_000), server.clock.now_ms(), str)
    server.rest()
    if states._logs[0].served_by < 0:
        list(states.replay(0))
        states.serve(0, WALL_MS)
    server.rest()
    assert {key.partition for key, _ in states.states()} == {0}, "what was there before"
    assert not server.node.world.edge.failures


@pytest.mark.parametrize("away", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_an_administrator_hears_of_each_state_whether_it_was_begun(away: tuple[int, ...]) -> None:
    """Of partitions and topics that are not there as well."""
    server = begun(share_coordinator_state_topic_num_partitions=8, topics={"orders": 4, "other": 1})
    states = server.node.engine.share_states
    homes = {states.partition_of(key_in(server, partition)) for partition in away}
    for index in homes:
        states.unload(index)
    lost = {partition for partition in range(4) if states.partition_of(key_in(server, partition)) in homes}
    other = StateKey("g", server.node.world.ledger.catalog.topics["other"].id, 0)
    wanted = {"orders": (0, 1, 2, 3, 4), "other": (0,), "nowhere": (0, 1)}
    topics = tuple(
        AlterShareGroupOffsetsRequestTopic(
            name, tuple(AlterShareGroupOffsetsRequestPartition(partition, 10 + partition) for partition in partitions)
        )
        for name, partitions in wanted.items()
    )
    answer = server.connect().ask(AlterShareGroupOffsetsRequest("g", topics), 0)
    codes = {
        (topic.topic_name, one.partition_index): (one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    }
    loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator is loading and hence can't process requests.")
    missing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    other_code = loading if states.partition_of(other) in homes else (0, None)
    assert codes == {
        **{("orders", partition): loading if partition in lost else (0, None) for partition in range(4)},
        ("orders", 4): missing, ("other", 0): other_code, ("nowhere", 0): missing, ("nowhere", 1): missing,
    }  # fmt: skip
    begun_at = {key.partition: state.start_offset for key, state in states.states() if key != other}
    assert begun_at == {partition: 10 + partition for partition in range(4) if partition not in lost}
    group = server.node.world.partitions.owner("g").shard.groups["g"]
    is_done = not lost and not other_code[0]
    assert set(group.initialized) == ({key_in(server).topic_id, other.topic_id} if is_done else set())
    assert not states._waiting, "the administrator tries again"


def test_an_administrator_whose_group_moves_meanwhile_tries_again() -> None:
    server = begun(virtual_brokers=2)
    partition = server.node.world.partitions.owner("g")
    topic_id = key_in(server).topic_id
    rows = [AlterShareGroupOffsetsResponsePartition(index) for index in range(2)]
    rows.append(AlterShareGroupOffsetsResponsePartition(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no"))
    response = AlterShareGroupOffsetsResponse(
        responses=(
            AlterShareGroupOffsetsResponseTopic("orders", topic_id, tuple(rows)),
            AlterShareGroupOffsetsResponseTopic("nowhere", bytes(16), (rows[2],)),
        )
    )
    effect = BeginShareStates("g", {topic_id: {0: 5, 1: 6}}, 1, WALL_MS, response)
    begins = share_groups.perform(server.node.engine, partition, effect, None).steps
    leader = server.node.world.coordinators.of_groups[partition.index]
    server.node.command(StopBroker(leader, load_ms=60_000), server.clock.now_ms(), str)
    assert not partition.is_loaded
    answer = finish(begins).response
    assert [[one.error_code for one in topic.partitions] for topic in answer.responses] == [
        [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert not server.node.world.edge.failures


@pytest.mark.parametrize("by", ["join", "administrator"])
def test_only_an_administrator_begins_a_state_anew(by: str) -> None:
    """The record of the group that says that the state is there may be lost in a power cut."""
    server = InMemory()
    states = server.node.engine.share_states
    assert states.initialize(key_in(server), 1, 0, WALL_MS) == ErrorCode.NONE
    acknowledge(server, 3)
    before = state_of(server)
    if by == "join":
        beat(server, 0, "orders")
        assert state_of(server) == before
        assert len(list(states.states())) == 4, "the others are begun"
    else:
        topic = AlterShareGroupOffsetsRequestTopic("orders", (AlterShareGroupOffsetsRequestPartition(0, 2),))
        answer = server.connect().ask(AlterShareGroupOffsetsRequest("g", (topic,)), 0)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert (state_of(server).start_offset, state_of(server).batches) == (2, ())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_that_wait_for_a_state_go_on_when_it_is_served(count: int) -> None:
    """Each once, in the order in which they came, whatever one of them meets."""
    server, told = begun(), list[int]()
    states = server.node.engine.share_states
    home = states.partition_of(key_in(server))
    states.unload(home)

    def go_on(number: int) -> None:
        told.append(number)
        if number == 0 and count > 1:
            raise RuntimeError("of one alone")

    for number in range(count):
        states.call_when_served(key_in(server), lambda _at_ms, number=number: go_on(number))
    for _ in range(2):
        list(states.replay(home))
        states.serve(home, WALL_MS)
    assert told == list(range(count))


def test_states_go_with_their_topic() -> None:
    server = begun()
    acknowledge(server, 1)
    server.connect().ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("orders"),)), 6)
    server.node.engine.flush()
    assert not list(server.node.engine.share_states.states())
    assert not list(InMemory(server.files, topics={}).node.engine.share_states.states())


def test_a_log_that_cannot_be_written_ends_the_process() -> None:
    disk = CrashingDisk()
    server = begun(disk)
    acknowledge(server, 1)
    disk.refuse = lambda operation, path: 5 if SHARE_STATE_TOPIC in path and operation == "append to" else 0
    with pytest.raises(StorageError):
        server.node.engine.flush()


def test_a_log_that_cannot_be_synced_ends_the_process() -> None:
    disk = CrashingDisk()
    server = begun(disk, is_synced=True)
    server.node.engine.append()
    acknowledge(server, 1)
    disk.refuse = lambda operation, path: 5 if SHARE_STATE_TOPIC in path and operation == "sync" else 0
    with pytest.raises(StorageError):
        server.node.engine.append()


def test_a_request_about_very_many_partitions_is_decided_in_steps() -> None:
    server = begun()
    batch = WriteShareGroupStateRequestStateBatch(0, 0, 2, 1)
    each = tuple([WriteShareGroupStateRequestPartitionData(index, -1, -1, -1, -1, (batch,)) for index in range(1_000)])
    topic = WriteShareGroupStateRequestWriteStateData(key_in(server).topic_id, each)
    request = WriteShareGroupStateRequest("g", (topic,))
    call = Call(1, WALL_MS, 1, "c", "/h", str)
    steps, done = count_steps(write_share_group_state(server.node.engine, request, call, server.listener.where).steps)
    assert steps == 6
    codes = [one.error_code for one in done.response.results[0].partitions]
    assert codes[:2] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST] and len(codes) == 1_000


def test_a_name_of_a_share_partition_is_read_as_it_is_written() -> None:
    dice = Random(7)
    for group in ("g", "a:b", "ü", "x" * 300):
        key = StateKey(group, dice.randbytes(16), dice.randrange(-5, 100))
        assert read_coordinator_key(coordinator_key(key)) == key
