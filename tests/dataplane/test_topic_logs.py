"""Topics' logs over time: kept as long as settings say, gone with their topic, closed when damaged, bounded in number."""

import errno
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.dataplane import topic_logs
from protocol.apis import api_of
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestResource,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from storage import cleaner
from storage.files import StorageError
from storage.log import LogConfig
from tests.dataplane.broker import NODES, NOW, Broker, batch, call
from tests.requests import alter_configs, commit, create_topics, list_offsets
from tests.storage.crashing_disk import CrashingDisk

HOUR_MS = 3_600_000


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_old_records_go(broker: Broker) -> None:
    broker.create("t", retention_ms=str(HOUR_MS), segment_ms="1")
    for minutes in (0, 30, 60):
        broker.produce("t", 0, batch("a", at_ms=NOW + minutes * 60_000))
    list(broker.plane.tend(NOW + HOUR_MS))
    assert broker.fetch("t").log_start_offset == 0
    list(broker.plane.tend(NOW + HOUR_MS + 1))
    assert broker.fetch("t", offset=1).log_start_offset == 1
    list(broker.plane.tend(NOW + 3 * HOUR_MS))
    data = broker.fetch("t", offset=3)
    assert (data.log_start_offset, data.high_watermark) == (3, 3)


OTHERS = {"segment.bytes": "2097152", "delete.retention.ms": "7", "min.cleanable.dirty.ratio": "0.25"}
ALL = {"cleanup.policy": "compact", **OTHERS}
ALL_OF_T = AlterConfigsRequestResource(2, "t", tuple([AlterConfigsRequestAlterableConfig(*one) for one in ALL.items()]))


OF_ALL = {f"log.{name}": value for name, value in OTHERS.items() if name == "segment.bytes"} | {
    "log.cleaner.delete.retention.ms": "7",
    "log.cleaner.min.cleanable.ratio": "0.25",
}


@pytest.mark.parametrize("is_appended", [False, True])
@pytest.mark.parametrize(
    "altered", [alter_configs(2, "t", OTHERS), AlterConfigsRequest((ALL_OF_T,)), alter_configs(4, "", OF_ALL)]
)
def test_an_open_log_is_used_with_the_settings_of_its_topic_as_they_are(
    broker: Broker, altered: Any, is_appended: bool
) -> None:
    """To append to it, and to compact it."""
    logs = {}
    for topic in ("t", "u"):
        broker.create(topic, cleanup_policy="compact")
        broker.produce(topic, 0, batch("a", key="k"))
        logs[topic] = broker.plane._state.logs.log(topic, 0)
    before = logs["u"].config
    assert not broker.ask(altered).responses[0].error_code
    if is_appended:
        for topic in logs:
            broker.produce(topic, 0, batch("a", key="k"))
    else:
        assert [*broker.plane.compacted_logs()] == [*logs.values()]
    expected = LogConfig(2_097_152, delete_retention_ms=7, min_cleanable_dirty_ratio=0.25)
    assert logs["t"].config == expected
    assert logs["u"].config == (before if altered.resources[0].resource_name else expected)


@pytest.mark.parametrize("is_appended", [False, True])
@pytest.mark.parametrize("altered", [alter_configs(2, OFFSETS_TOPIC, OTHERS), alter_configs(4, "", OF_ALL)])
def test_the_logs_of_groups_are_used_with_the_settings_of_their_topic(altered: Any, is_appended: bool) -> None:
    """Those that are open, and those that are opened later or after a restart. The size of a segment it has of its own."""
    broker = Broker(offsets_topic_segment_bytes=5_000_000)
    partition = broker.node.world.partitions.owner("g")
    committed = commit("g", {"t": {0: 1}})
    broker.create("t")
    broker.ask(committed, version=9)
    assert (partition.log.end_offset, partition.log.config.segment_bytes) == (1, 5_000_000)
    assert not broker.ask(altered).responses[0].error_code
    if is_appended:
        broker.ask(committed, version=9)
    else:
        assert partition.log in [*broker.node.compacted_logs()]
    segment_bytes = 2_097_152 if altered.resources[0].resource_name else 5_000_000
    expected = LogConfig(segment_bytes, delete_retention_ms=7, min_cleanable_dirty_ratio=0.25)
    assert partition.log.config == expected
    broker.node.close()
    again = Broker(broker.files.copy(), offsets_topic_segment_bytes=5_000_000)
    again.ask(committed, version=9)
    assert again.node.world.partitions.owner("g").log.config == expected


def test_records_without_times_go_by_the_time_of_the_last_append(broker: Broker) -> None:
    broker.create("t", retention_ms=str(HOUR_MS))
    broker.produce("t", 0, batch("a", at_ms=-1))
    broker.produce("t", 0, batch("b", at_ms=-1), now_ms=NOW + 1000)
    list(broker.plane.tend(NOW + 1000 + HOUR_MS))
    assert broker.fetch("t").log_start_offset == 0
    list(broker.plane.tend(NOW + 1001 + HOUR_MS))
    assert broker.fetch("t", offset=2).log_start_offset == 2


def test_a_segment_that_begins_without_a_time_ends_a_while_after_it_was_begun(broker: Broker) -> None:
    """Not with the next batch that has a time, which is long after -1."""
    broker.create("t", segment_ms=str(NOW // 2))
    log = broker.plane._state.logs.log("t", 0)
    for at_ms, later_ms, segments in ((-1, 0, 1), (NOW, 0, 1), (-1, NOW // 2, 1), (-1, NOW // 2 + 1, 2)):
        broker.produce("t", 0, batch("a", at_ms=at_ms), now_ms=NOW + later_ms)
        assert len(log.segments) == segments
    broker.plane.close()
    after = Broker(broker.files.copy())
    again = after.plane._state.logs.log("t", 0)
    for later_ms, segments in ((9 * NOW, 2), (9 * NOW + NOW // 2, 2), (9 * NOW + NOW // 2 + 1, 3)):
        after.produce("t", 0, batch("a", at_ms=-1), now_ms=NOW + later_ms)
        assert len(again.segments) == segments


def test_no_log_is_opened_to_see_how_old_it_is(broker: Broker) -> None:
    """To open one is to read it. A step at a log, and only those that lose something are opened."""
    broker.create("t", partitions=5, retention_ms=str(HOUR_MS), segment_ms="1")
    for partition in range(5):
        for minutes in (0, 10 * partition, 60):
            broker.produce("t", partition, batch("a", at_ms=NOW + minutes * 60_000))
    broker.plane.close()
    after = Broker(broker.files.copy())
    logs = after.plane._state.logs
    assert len(list(after.plane.tend(NOW + HOUR_MS))) == 5
    assert logs.open_logs() == []
    opened = [len(logs.open_logs()) for _ in after.plane.tend(NOW + HOUR_MS + 1)]
    assert opened == [1, 2, 3, 4, 5]
    assert [log.start_offset for _, log in logs.open_logs()] == [2, 1, 1, 1, 1]


def test_a_topic_that_is_deleted_while_its_age_is_looked_at(broker: Broker) -> None:
    broker.create("t", partitions=2, retention_ms="1")
    for _ in range(4):
        broker.produce("t", 0, batch("a" * 100_000, at_ms=NOW))
        broker.produce("t", 1, batch("a", at_ms=NOW))
    broker.plane.close()
    for taken in range(1, 4):
        after = Broker(broker.files.copy())
        steps = after.plane.tend(NOW + HOUR_MS)
        assert len(list(islice(steps, taken))) == taken
        after.delete("t")
        list(steps)
        assert after.plane._state.logs.open_logs() == []


def test_what_is_too_much_goes_and_a_setting_that_changes_counts_at_once(broker: Broker) -> None:
    broker.create("t", segment_ms="1")
    for number in range(5):
        broker.produce("t", 0, batch("a" * 1000, at_ms=NOW + 2 * number))
    list(broker.plane.tend(NOW))
    assert broker.fetch("t").log_start_offset == 0
    broker.ask(alter_configs(2, "t", {"retention.bytes": "2500"}))
    list(broker.plane.tend(NOW))
    assert broker.fetch("t", offset=4).log_start_offset == 2  # what is there may be more than that by one segment


def test_a_compacted_topic_is_not_cut(broker: Broker) -> None:
    broker.create("latest", cleanup_policy="compact", retention_ms="1")
    broker.produce("latest", 0, batch("a", key="k"))
    list(broker.plane.tend(NOW + HOUR_MS))
    assert broker.values("latest") == ["a"]
    assert len(list(broker.plane.compacted_logs())) == 1


def test_an_idle_producers_sequence_is_forgotten(broker: Broker) -> None:
    broker.create("t")
    broker.produce("t", 0, batch("a", producer_id=1, producer_epoch=0, base_sequence=0))
    gap = batch("b", producer_id=1, producer_epoch=0, base_sequence=7)
    for after_ms in (0, HOUR_MS, 24 * HOUR_MS):
        list(broker.plane.tend(NOW + after_ms))
        assert broker.produce("t", 0, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    list(broker.plane.tend(NOW + 24 * HOUR_MS + 1))
    assert broker.produce("t", 0, gap).error_code == ErrorCode.NONE


@given(
    st.lists(st.tuples(st.sampled_from(["create", "produce", "delete", "close"]), st.integers(0, 1), st.integers(1, 5)))
)
@settings(max_examples=50)
def test_the_producers_that_may_be_remembered_are_counted_of_the_logs_that_are_there(
    acts: list[tuple[str, int, int]],
) -> None:
    broker = Broker()
    logs = broker.plane._state.logs
    for act, number, producer in acts:
        name, exists = f"t{number}", f"t{number}" in broker.ledger.catalog.topics_by_name
        if act == "create" and not exists:
            broker.create(name)
        elif act == "produce" and exists:
            broker.produce(name, 0, batch("a", producer_id=producer, producer_epoch=0, base_sequence=0))
        elif act == "delete" and exists:
            broker.delete(name)
        elif act == "close":
            failure = StorageError("read", name, errno.EMFILE, "too many open files")
            logs.close_failed_partition((name, 0), failure)
        remembered = [len(log.producers.items()) for _, log in logs.open_logs()]
        assert logs.producers.count == sum(remembered)


def test_a_damaged_log_is_told_of_and_stays_as_it_is(broker: Broker) -> None:
    broker.create("t", partitions=2)
    for _ in range(3):
        broker.produce("t", 0, batch("a"))
    files = broker.files.copy()
    path = "data/t-0/00000000000000000000.log"
    data = bytearray(files.contents()[path])
    data[len(data) // 2] ^= 1  # in the middle: no torn end
    files.put(path, bytes(data))
    after = Broker(files)
    before = files.contents()
    assert after.produce("t", 0, batch("b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert after.fetch("t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    answer = after.ask(list_offsets("t", {0: -1}))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    list(after.plane.tend(NOW))
    assert files.contents() == before
    assert after.produce("t", 1, batch("b")).error_code == ErrorCode.NONE  # its neighbour is well


def test_more_partitions_than_files_may_be_open(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_logs, "FILES_MAX", 3)
    broker.create("t", partitions=10)
    for turn in range(3):
        for partition in range(10):
            assert broker.produce("t", partition, batch(str(turn))).base_offset == turn
    assert all(broker.values("t", partition) == ["0", "1", "2"] for partition in range(10))
    assert sum(log.has_file_open for _, log in broker.plane._state.logs.open_logs()) == 3


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_upkeep_leaves_no_more_files_open(broker: Broker, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    """Where all records go, and where a log is compacted, a segment is begun: one file more for each idle partition."""
    monkeypatch.setattr(topic_logs, "FILES_MAX", 3)
    broker.create("t", partitions=10, retention_ms="1", cleanup_policy=policy)
    for partition in range(10):
        broker.produce("t", partition, batch("a", key="k"))
    list(broker.plane.tend(NOW + HOUR_MS))
    for log in broker.plane.compacted_logs():
        cleaner.run(log, NOW)
    logs = [log for _, log in broker.plane._state.logs.open_logs()]
    assert [log.segments[-1].base_offset for log in logs] == [1] * 10
    assert sum(log.has_file_open for log in logs) == 3


def test_directories_of_others_are_left_alone(broker: Broker) -> None:
    files = CrashingDisk()
    files.put("data/photos-0/cat.jpg", b"cat")
    files.put("data/t-0/notes.txt", b"not ours")
    Broker(files)
    assert files.contents()["data/photos-0/cat.jpg"] == b"cat"
    assert files.contents()["data/t-0/notes.txt"] == b"not ours"


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_topic_is_there_whole_or_gone_whatever_crashes(is_synced: bool) -> None:
    """Deleted and made anew: never half of its records, and never the old ones in the new one."""
    files = CrashingDisk()
    server = Broker(files, is_synced=is_synced)
    server.create("d", partitions=2)
    for partition in (0, 1):
        server.produce("d", partition, batch("old"))
    crashes = []

    def after_call(operation: str, path: str) -> None:
        for how, disk in files.crashes():
            if is_synced or how == "killed":
                crashes.append((f"{how} after {operation} {path}", disk))

    files.after_call = after_call
    server.delete("d")
    files.after_call = None
    assert len(crashes) > 3
    for how, disk in crashes:
        after = Broker(disk, is_synced=is_synced)
        if "d" in after.node.world.ledger.catalog.topics_by_name:
            assert [after.values("d", partition, committed=True) for partition in (0, 1)] == [["old"], ["old"]], how
        else:
            after.create("d", partitions=2)
            assert [after.values("d", partition, committed=True) for partition in (0, 1)] == [[], []], how
            after.produce("d", 0, batch("new"))
            assert after.values("d", 0, committed=True) == ["new"], how


def begin_compaction() -> tuple[Broker, cleaner.Steps]:
    broker = Broker()
    broker.create("latest", cleanup_policy="compact", segment_ms="1")
    for number in range(16):
        broker.produce("latest", 0, batch("a" * 500, key=str(number % 4), at_ms=NOW + 2 * number))
    (log,) = broker.plane.compacted_logs()
    return broker, cleaner.compact(log, NOW, step_bytes=600)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_topic_that_is_deleted_while_it_is_compacted(is_made_anew: bool) -> None:
    """At whichever step: the compaction ends, the server does not, and nothing comes back of what was deleted."""
    steps = len(list(begin_compaction()[1]))
    assert steps > 10
    for taken in range(steps + 1):
        broker, compaction = begin_compaction()
        (log,) = broker.plane.compacted_logs()
        assert len(list(islice(compaction, taken))) == taken
        broker.delete("latest")
        if is_made_anew:
            broker.create("latest", cleanup_policy="compact")
            broker.produce("latest", 0, batch("new", key="k"))
        list(compaction)
        assert not cleaner.is_due(log)
        left = ["00000000000000000000.log", "muster.checkpoint"] if is_made_anew else []
        assert broker.files.list("data/latest-0") == left
        assert not is_made_anew or broker.values("latest") == ["new"]


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("taken", [1, 2])
def test_a_topic_that_is_deleted_while_compacted_logs_are_looked_through_closes_no_partition(
    taken: int, is_made_anew: bool
) -> None:
    """Neither while it is its turn nor before that."""
    broker = Broker()
    for name in ("a", "b", "c"):
        broker.create(name, cleanup_policy="compact")
        broker.produce(name, 0, batch("old", key="k"))
    logs = broker.plane.compacted_logs()
    assert len(list(islice(logs, taken))) == taken
    broker.delete("b")
    if is_made_anew:
        broker.create("b", cleanup_policy="compact")
        broker.produce("b", 0, batch("new", key="k"))
    assert [log.directory for log in logs] == ["data/c-0"]
    assert not broker.plane.closed_partitions
    assert not is_made_anew or broker.values("b") == ["new"]


def test_a_deleted_topic_that_a_start_makes_anew_is_empty() -> None:
    """A crash right after the deletion was logged leaves all of its files, and `--topic` names it again."""
    server = Broker(CrashingDisk(), topics={"d": 1})
    server.produce("d", 0, batch("old"))
    before = server.files.copy()
    server.delete("d")
    crashed = server.files.copy()
    for path, data in before.contents().items():
        if path.startswith("data/d-0/"):
            crashed.put(path, data)
    after = Broker(crashed, topics={"d": 1})
    assert after.values("d", 0, committed=True) == []
    after.produce("d", 0, batch("new"))
    assert after.values("d", 0, committed=True) == ["new"]


MANY = 7  # partitions of a topic, of whose directories two are renamed at once


def begin_to_delete(taken: int) -> tuple[Broker, list[int]]:
    """A broker that deletes a topic of many partitions, after so many steps of that. How many directories each step has
    renamed."""
    broker, renamed = Broker(topics={"t": MANY, "u": 1}), list[int]()
    for topic, partition in (*(("t", at) for at in range(MANY)), ("u", 0)):
        broker.produce(topic, partition, batch("old"))
    broker.files.after_call = lambda operation, path: renamed.append(operation == "rename" and "/t-" in path)
    engine, of_steps = broker.node.engine, []
    handle(broker, DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("t"),)))
    for step in range(taken + 1):
        if step and engine.unfinished:
            engine.long_requests.step()
            engine.flush()
        of_steps.append(sum(renamed))
        renamed.clear()
    broker.files.after_call = None
    return broker, of_steps


def handle(broker: Broker, request: Any) -> None:
    """Decide a request, and no step of anything else."""
    broker.node.engine.handle(api_of(request).key, request, call(request, 1, None, NOW), NODES)
    broker.node.engine.flush()


@pytest.mark.parametrize("taken", range(5))
def test_a_topic_of_many_partitions_goes_in_steps_and_none_of_it_comes_back(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not if the server ends meanwhile, and not if there is another topic of its name before all is renamed."""
    monkeypatch.setattr(topic_logs, "RETIRED_AT_ONCE", 2)
    broker, renamed = begin_to_delete(taken)
    assert max(renamed) <= 2 and (sum(renamed) == MANY) == (taken >= 3)
    assert ("t", 0) not in broker.plane.stored_partitions()
    for _, crashed in islice(broker.files.crashes(), 3):
        after = Broker(crashed, topics={"t": MANY, "u": 1})
        assert [after.values("t", at) for at in range(MANY)] == [[]] * MANY
        assert after.values("u") in (["old"], [])
    handle(broker, create_topics({"t": MANY}))
    assert [broker.plane.find_end_offset("t", at) for at in range(MANY)] == [0] * MANY
    for _, crashed in islice(broker.files.crashes(), 2):
        after = Broker(crashed, topics={"t": MANY, "u": 1})
        assert [after.values("t", at) for at in range(MANY)] == [[]] * MANY
    for at in range(MANY):
        broker.produce("t", at, batch("new"))
    for _, crashed in islice(broker.files.crashes(), 2):
        after = Broker(crashed, topics={"t": MANY, "u": 1})
        assert all("old" not in after.values("t", at) for at in range(MANY))
    while broker.node.engine.unfinished:
        broker.node.engine.long_requests.step()
    assert not [name for name in broker.files.list("data") if name.startswith("muster.deleted")]


def test_a_topic_is_not_made_anew_over_directories_that_cannot_be_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_logs, "RETIRED_AT_ONCE", 2)
    broker, _ = begin_to_delete(0)
    broker.files.refuse = lambda operation, path: (operation == "rename" and "/t-" in path) * errno.EIO
    while broker.node.engine.unfinished:
        broker.node.engine.long_requests.step()
    (refused,) = broker.ask(create_topics({"t": MANY})).topics
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.files.refuse = lambda operation, path: 0
    list(broker.plane.tend(NOW))
    broker.create("t", partitions=MANY)
    assert [broker.values("t", at) for at in range(MANY)] == [[]] * MANY


def test_what_cannot_be_renamed_before_a_topic_is_made_anew_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the new topic is in the catalog's log: a start would take the old records for its own."""
    monkeypatch.setattr(topic_logs, "RETIRED_AT_ONCE", 2)
    broker, _ = begin_to_delete(0)
    broker.files.refuse = lambda operation, path: (operation == "rename" and "/t-" in path) * errno.EIO
    with pytest.raises(StorageError, match="rename"):
        handle(broker, create_topics({"t": MANY}))
    after = Broker(broker.files.copy())
    assert "t" not in after.ledger.catalog.topics_by_name
    after.create("t", partitions=MANY)
    assert [after.values("t", at) for at in range(MANY)] == [[]] * MANY


def test_a_directory_in_a_deleted_topic_is_left_and_ends_nothing(broker: Broker) -> None:
    broker.create("t")
    broker.produce("t", 0, batch("old"))
    broker.files.make_directory("data/t-0/mine")
    broker.delete("t")
    broker.create("t")
    assert broker.values("t") == []
    list(broker.plane.tend(NOW))
    assert broker.files.list("data/muster.deleted.0") == ["mine"]


def test_a_failed_append_closes_its_partition_and_nothing_else(broker: Broker) -> None:
    broker.create("t", partitions=2)
    broker.produce("t", 0, batch("a"))
    broker.produce("t", 1, batch("a"))
    broker.files.refuse = lambda operation, path: (operation == "append to" and "/t-0/" in path) * errno.EIO
    assert broker.produce("t", 0, batch("c")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.files.refuse = lambda operation, path: 0
    assert broker.produce("t", 0, batch("d")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.produce("t", 1, batch("b")).error_code == ErrorCode.NONE
    assert list(broker.plane.closed_partitions) == [("t", 0)]
    assert "EIO" in broker.plane.closed_partitions["t", 0]
    assert Broker(broker.files.copy()).values("t") == ["a"]


def test_a_segment_that_is_removed_under_the_server_closes_its_partition(broker: Broker) -> None:
    broker.create("t", partitions=2, segment_ms="1")
    for number in range(4):
        broker.produce("t", 0, batch("a", at_ms=NOW + 2 * number))
        broker.produce("t", 1, batch("a", at_ms=NOW + 2 * number))
    broker.files.remove(f"data/t-0/{1:020d}.log")
    answer = broker.ask(list_offsets("t", {0: NOW + 1}))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.fetch("t", offset=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.fetch("t", 1, offset=1).error_code == ErrorCode.NONE
    assert list(broker.plane.closed_partitions) == [("t", 0)]
    list(broker.plane.tend(NOW))
    broker.plane.close()


def test_a_missing_descriptor_closes_nothing_for_good(broker: Broker) -> None:
    broker.create("t", segment_ms="1")
    sent = [batch(str(number), at_ms=NOW + 2 * number, producer_id=5, base_sequence=number) for number in range(3)]
    for number in range(3):
        assert broker.produce("t", 0, sent[number]).base_offset == number
    broker.files.fail = {broker.files.calls + 1: errno.EMFILE}
    assert broker.fetch("t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.fetch("t").error_code == ErrorCode.NONE
    assert broker.plane.closed_partitions == {}
    assert broker.produce("t", 0, sent[2]).base_offset == 2, "its producer is known as before"
    broker.delete("t")
    assert not broker.plane._state.logs.interrupted


def begin_logs(broker: Broker, *partitions: tuple[str, int]) -> None:
    """Append a batch to each of these logs, which nobody has synced yet, nor been told of."""
    logs = broker.plane._state.logs
    for number, (topic, index) in enumerate(partitions):
        logs.append((topic, index), logs.log(topic, index), batch("a", at_ms=NOW - number), NOW - number, NOW + number)


def test_with_a_topic_goes_what_is_known_of_it_and_of_no_other(broker: Broker) -> None:
    for topic in "abc":
        broker.create(topic, partitions=3)
    logs, failure = broker.plane._state.logs, StorageError("write", "x", errno.EIO, "it is broken")
    begin_logs(broker, *[(topic, index) for topic in "abc" for index in range(2)])
    for partition in (("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 2), ("c", 2)):  # the last two were not written to
        logs.close_failed_partition(partition, failure)
    assert logs.losses == 4
    assert logs.lost_since(0) == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}
    assert logs.lost_since(2) == {("b", 0), ("b", 1)}
    assert logs.drop({"a", "other"})
    assert set(logs.closed_partitions) == {("b", 0), ("b", 1), ("c", 2)}
    assert logs.lost_since(0) == {("b", 0), ("b", 1)}
    assert logs.lost_since(3) == {("b", 1)}
    assert [partition for partition, _ in logs.open_logs()] == [("c", 0), ("c", 1)]
    assert logs.take_begun() == [("b", 0, NOW + 2), ("b", 1, NOW + 3), ("c", 0, NOW + 4), ("c", 1, NOW + 5)]
    assert logs.take_begun() == []
    assert logs.try_open("a", 0), "the topic may be there again"
    assert not logs.try_open("b", 0)


def test_of_several_syncs_that_fail_each_closes_its_partition(broker: Broker) -> None:
    """But for one that is gone, or is closed already, before its sync ends."""
    for topic in "ab":
        broker.create(topic, partitions=3)
    logs = broker.plane._state.logs
    begin_logs(broker, *[(topic, index) for topic in "ab" for index in range(3)])
    assert len(logs.begin_sync()) == 6
    assert not logs.begin_sync()
    logs.close_failed_partition(("a", 0), StorageError("read", "x", errno.EIO, "before"))
    logs.drop({"b"})
    assert logs.take_lost() == {("a", 0)}
    failed = [("a", 0), ("b", 0), ("a", 2), ("b", 1)]
    logs.end_sync({partition: StorageError("sync", "x", errno.EIO, "later") for partition in failed})
    assert {one: reason.split(":")[-1] for one, reason in logs.closed_partitions.items()} == {
        ("a", 0): " before (EIO)", ("a", 2): " later (EIO)",
    }  # fmt: skip
    assert logs.take_lost() == {("a", 2)}
    logs.close_failed_partition(("a", 1), StorageError("read", "x", errno.EIO, "again"))
    assert logs.take_lost() == frozenset(), "what was appended to it is on the disk"


def test_sizes_and_ends_are_those_of_logs_that_are_open_and_of_those_that_were_measured(broker: Broker) -> None:
    """Of several partitions of several topics, whichever are opened meanwhile, and of none that is gone."""
    for topic, partitions in (("a", 3), ("b", 2), ("c", 1)):
        broker.create(topic, partitions=partitions)
        for index in range(partitions):
            broker.produce(topic, index, batch(*"x" * (index + 1)))
    sizes, names = broker.plane.log_bytes(), [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]
    assert all(broker.plane.end_offset(topic, index) == index + 1 for topic, index in names)
    broker.node.close()
    for opened, steps in product(range(len(names)), (1, 3, len(names))):
        again = Broker(broker.files.copy())
        for _ in range(steps):
            again.plane.measure(lambda: False)
        assert again.plane.find_end_offset(*names[opened]) == names[opened][1] + 1
        again.plane.measure(lambda: True)
        assert again.plane.log_bytes() == sizes
        assert [again.plane.end_offset(*one) for one in names] == [index + 1 for _, index in names]
        assert again.plane.end_offset("a", 3) is again.plane.end_offset("z", 0) is None
        assert again.plane.find_end_offset("a", 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again.delete("a")
        assert again.plane.log_bytes() == {topic: size for topic, size in sizes.items() if topic != "a"}


def test_the_end_of_the_coordinator_s_own_log_is_known(broker: Broker) -> None:
    index = broker.node.world.partitions.owner("g").index
    for index_of in (index, (index + 1) % 4):
        assert broker.plane.end_offset("__consumer_offsets", index_of) == 0
        assert broker.plane.find_end_offset("__consumer_offsets", index_of) == 0
    broker.create("t")
    broker.ask(commit("g", {"t": {0: 7}}), version=9)
    assert (
        broker.plane.end_offset("__consumer_offsets", index)
        == broker.plane.find_end_offset("__consumer_offsets", index)
        == 1
    )
    assert broker.plane.end_offset("__consumer_offsets", (index + 1) % 4) == 0
    assert broker.plane.end_offset("__consumer_offsets", 4) is None
    broker.create("new")
    assert broker.plane.end_offset("new", 0) is None
    assert broker.plane.find_end_offset("new", 0) == 0
