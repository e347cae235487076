"""What is let into a log, and what is refused: with Kafka's error, and with nothing written."""

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.record_batch import HEADER_BYTES, seal
from protocol.records import Record
from tests.dataplane.broker import NODES, NOW, Broker, batch, call, read_values
from tests.requests import produce
from tests.server.in_memory import InMemory
from tests.steps import finish
from tests.storage.crashing_disk import CrashingDisk


def resealed(data: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and the checksum that belongs to them."""
    return seal(replace(record_batch.header_at(data), **fields), data[HEADER_BYTES:])


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


GOOD = batch("a", "b")
BAD = {  # of each layer one: what else is wrong with a batch is in tests/protocol/test_batch_validation.py
    "a flipped bit": (flipped(GOOD), ErrorCode.CORRUPT_MESSAGE),
    "too large": (batch("x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    "from the future": (batch("a", at_ms=NOW + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
    "a transaction without an id": (resealed(GOOD, attributes=0x10), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_batches_are_refused_and_nothing_is_written(broker: Broker, what: str) -> None:
    data, error = BAD[what]
    before = broker.files.contents()
    answer = broker.produce("t", 0, data)
    assert ErrorCode(answer.error_code) == error
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
    assert answer.log_start_offset in (-1, 0)
    assert broker.files.contents() == before
    assert broker.produce("t", 0, GOOD).base_offset == 0


def test_a_batch_is_at_most_as_large_as_a_segment(broker: Broker) -> None:
    """Kafka: `UnifiedLog.append`. The setting counts as it is now; what is there already is known as it was."""
    broker.create("large", segment_bytes=str(1 << 20), max_message_bytes=str(1 << 21))
    rest = (1 << 20) - len(batch("")) - 4  # the lengths of record and value take two bytes more each
    fits = batch("x" * rest)
    assert len(fits) == 1 << 20
    assert broker.produce("large", 0, fits).error_code == ErrorCode.NONE
    answer = broker.produce("large", 0, batch("x" * (rest + 1)))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.RECORD_LIST_TOO_LARGE, -1)
    assert broker.produce("large", 0, GOOD).base_offset == 1


@pytest.mark.parametrize(
    ("topic", "partition", "error"),
    [
        ("t", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("../t", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("..", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__muster_catalog", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_where_there_is_no_partition(broker: Broker, topic: str, partition: int, error: ErrorCode) -> None:
    before = broker.files.contents()
    assert broker.produce(topic, partition, GOOD).error_code == error
    assert broker.files.contents() == before


def test_zstd_is_for_those_who_know_it(broker: Broker) -> None:
    packed = seal(replace(record_batch.header_at(GOOD), attributes=4), cramjam.zstd.compress(GOOD[HEADER_BYTES:]))
    codes = [broker.produce("t", 0, packed, version=version).error_code for version in (6, 7)]
    assert codes == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.NONE]


def test_what_is_no_batch_is_told_before_acks_that_are_not_known(broker: Broker) -> None:
    """Kafka looks at batches as it reads the request, and at acks when it appends."""
    packed = seal(replace(record_batch.header_at(GOOD), attributes=4), cramjam.zstd.compress(GOOD[HEADER_BYTES:]))
    for version in (6, 7, 12):
        for data in (GOOD, packed, GOOD[:-1], GOOD + GOOD, b"", GOOD[:16] + b"\1" + GOOD[17:]):
            known, unknown = [
                broker.ask(produce("t", {0: data}, acks=acks), version=version).responses[0].partition_responses[0]
                for acks in (1, 2)
            ]
            error = known.error_code or ErrorCode.INVALID_REQUIRED_ACKS
            assert (unknown.error_code, unknown.base_offset) == (error, -1), (version, data)


def test_a_batch_that_lies_about_its_times_is_set_right(broker: Broker) -> None:
    """Records are found and expire by the greatest time in the header, which Kafka works out anew as well."""
    for lie in (NOW - 1, NOW + 10**9):
        broker.produce("t", 0, resealed(GOOD, max_timestamp=lie))
    records = broker.fetch("t").records
    for at, header in record_batch.batches(records):
        assert header.max_timestamp == NOW
        assert record_batch.is_intact(records, at, header)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 29, 30, 31, 59]), st.sampled_from([-1, -1, 0, 30, 60, 61, 122]), st.booleans()
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
)
@settings(max_examples=40)
def test_a_segment_holds_records_of_so_much_time(rounds: list[tuple[int, int, bool]], kind: str) -> None:
    """Since its first record by the times of records, or since that was appended where it has none. Kafka:
    `LogSegment.timeWaitedForRoll`; a start knows no more of the latter."""
    broker, minute, hour = Broker(), 60_000, 3_600_000
    later = {"message_timestamp_after_max_ms": str(3 * hour)}
    broker.create("hourly", segment_ms=str(hour), message_timestamp_type=kind, **later)
    now_ms, bases, first, begun_ms = NOW, list[int](), 0, NOW
    for offset, (minutes, time, is_restart) in enumerate(rounds):
        if is_restart:
            broker.node.close()
            broker = Broker(broker.files)
        now_ms += minutes * minute
        at_ms = -1 if time < 0 else NOW + time * minute
        begun_ms = now_ms if is_restart else begun_ms
        latest = now_ms if kind == "LogAppendTime" else at_ms
        if not bases or (latest - first if first >= 0 else now_ms - begun_ms) > hour:
            bases, first, begun_ms = [*bases, offset], latest, now_ms
        told = broker.produce("hourly", 0, batch("a", at_ms=at_ms), now_ms=now_ms)
        assert (told.error_code, told.base_offset) == (ErrorCode.NONE, offset)
        found = [
            path for path in broker.files.contents() if path.startswith("data/hourly-0/") and path.endswith(".log")
        ]
        assert sorted(int(path[-24:-4]) for path in found) == bases
    ends = [*bases[1:], len(rounds)]
    for base, end in zip(bases, ends, strict=True):
        assert read_values(broker.fetch("hourly", offset=base).records) == ["a"] * (end - base)


def test_a_topic_that_goes_between_two_steps_takes_nothing(broker: Broker) -> None:
    """A large batch is validated in steps, and other requests are decided in between."""
    large = batch(*("v" for _ in range(10_000)))
    request = produce("t", {0: large})
    steps = broker.plane.handle(request, call(request, 7, 12, NOW), NODES).steps
    next(steps)
    broker.delete("t")
    (result,) = finish(steps).response.responses[0].partition_responses
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_is_created_anew_between_two_steps_takes_nothing(broker: Broker) -> None:
    """It has the name and not the id."""
    topic_id = broker.ledger.catalog.topics_by_name["t"].id
    large = ProduceRequestPartitionData(0, batch(*("v" for _ in range(10_000))))
    request = ProduceRequest(acks=1, topic_data=(ProduceRequestTopicData("", topic_id, (large,)),))
    steps = broker.plane.handle(request, call(request, 7, 13, NOW), NODES).steps
    next(steps)
    broker.delete("t")
    broker.create("t")
    (result,) = finish(steps).response.responses[0].partition_responses
    assert (result.error_code, broker.values("t")) == (ErrorCode.UNKNOWN_TOPIC_ID, [])


OLDEST, NEWEST = NOW - (2**63 - 1), NOW + 3_600_000  # that the default settings let in


@pytest.mark.parametrize("settings", [{}, {"message_timestamp_type": "LogAppendTime"}])
@pytest.mark.parametrize("is_synced", [False, True])
def test_no_time_of_a_producer_keeps_the_server_from_going_on_or_from_starting(
    settings: dict[str, str], is_synced: bool
) -> None:
    """A log that begins is noted in the catalog, and two that begin together in one batch of it."""
    broker = Broker(is_synced=is_synced)
    broker.create("t", partitions=3, **settings)
    times = [OLDEST, NEWEST] + [2**63 - 1] * bool(settings)
    batches = [resealed(batch("a", "b"), base_timestamp=time, max_timestamp=time) for time in times]
    if settings:
        batches[-1] = resealed(batches[-1][:HEADER_BYTES] + two_records(), count=2, last_offset_delta=1)
    answer = broker.ask(produce("t", dict(enumerate(batches))))
    assert {one.error_code for one in answer.responses[0].partition_responses} == {0}
    again = Broker(broker.files, is_synced=is_synced)
    assert [again.plane.find_end_offset("t", index) for index in range(len(times))] == [2] * len(times)


def two_records() -> bytes:
    """Two records, of which the second one is a millisecond later than the first one."""
    made = record_batch.encode([Record(None, b"a", timestamp=NOW), Record(None, b"b", timestamp=NOW + 1)])
    return made[HEADER_BYTES:]


def test_a_power_cut_that_takes_a_producer_id_back_costs_no_record_of_who_gets_it_next() -> None:
    """Without --fsync a topic's log may be on the disk and the catalog's end not. Ids that are known stay known."""

    def send(server: InMemory, producer_id: int, value: str) -> tuple[int, int]:
        data = batch(value, at_ms=server.clock.now_ms(), producer_id=producer_id, producer_epoch=0, base_sequence=0)
        answer = server.connect().ask(produce("t", {0: data}), 9).responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    def take_id(server: InMemory) -> int:
        return int(server.connect().ask(InitProducerIdRequest(None, 0), 4).producer_id)

    disk = CrashingDisk()
    server = InMemory(disk, topics={"t": 1})
    kept = take_id(server)
    assert send(server, kept, "kept") == (0, 0)
    catalog = {path: content for path, content in disk.contents().items() if "__muster_catalog" in path}
    lost = take_id(server)
    assert send(server, lost, "lost") == (0, 1)
    for path, content in catalog.items():
        disk.put(path, content)
    again = InMemory(disk.copy(), topics={"t": 1})
    assert take_id(again) == lost
    assert send(again, lost, "new") == (0, 2), "it is another producer's"
    assert send(again, lost, "new") == (0, 2), "it is sent again"
    assert send(again, kept, "kept") == (0, 0), "it is sent again, after a start"
