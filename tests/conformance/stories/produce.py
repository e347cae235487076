"""Records in: Produce, what it checks, and idempotent producers."""

import gzip
import time
from typing import Any

import lz4.frame

from tests.conformance.actors import FAR
from tests.conformance.batches import BY_BROKER, GZIP, PARTS, T0, TRANSACTIONAL, batch, record, wide
from tests.conformance.requests import UNKNOWN_ID, topic_data
from tests.conformance.scenes import begin_producer
from tests.conformance.stage import Answer, Line, Pending, Stage
from tests.conformance.story import story


def ask_produce(
    line: Line, topic: str, records: bytes | None, *, index: int = 0, acks: int = -1, version: int = 12, **values: Any
) -> Pending:
    data = topic_data(topic, records, index)
    return line.send("produce", version, **{"acks": acks, "timeout_ms": 10_000, "topic_data": data, **values})


def produce(line: Line, topic: str, records: bytes | None, **values: Any) -> Answer:
    return ask_produce(line, topic, records, **values).answer()


def fetched(k: Stage, topic: str, offset: int = 0, index: int = 0, **values: Any) -> Answer:
    """What is in the log from this offset on."""
    part = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [part]}]
    return k.line("reader").call("fetch", 12, **{"max_wait_ms": 0, "max_bytes": 1 << 20, "topics": topics, **values})


@story("V-007")
def records_come_back_as_they_were_sent(k: Stage) -> None:
    """Two batches, one after the other: offsets go on, the batches are kept whole."""
    topic, line = k.topic(), k.line("p")
    produce(line, topic, batch(b"one", b"two"))
    produce(line, topic, batch(b"three", key=b"k"))
    fetched(k, topic)
    fetched(k, topic, 2)


@story("V-007")
def every_produce_version_appends(k: Stage) -> None:
    """Versions 3 to 12 by name, 13 by topic id."""
    topic, line = k.topic(), k.line("p")
    for version in range(3, 13):
        produce(line, topic, batch(b"x"), version=version)
    data = [{"topic_id": k.topic_id(topic), "partition_data": [{"index": 0, "records": batch(b"x")}]}]
    line.call("produce", 13, acks=-1, timeout_ms=1000, topic_data=data)


@story("V-007")
def topics_and_partitions_that_are_not_there(k: Stage) -> None:
    """By name and by id, beside one that is there."""
    topic, line = k.topic(), k.line("p")
    produce(line, k.name("none"), batch(b"x"))
    produce(line, topic, batch(b"x"), index=7)
    data = [
        {"topic_id": UNKNOWN_ID, "partition_data": [{"index": 0, "records": batch(b"x")}]},
        {"topic_id": k.topic_id(topic), "partition_data": [{"index": 0, "records": batch(b"x")}]},
    ]
    line.call("produce", 13, acks=-1, timeout_ms=1000, topic_data=data)


@story("V-007")
def a_producer_that_wants_no_answer_gets_none(k: Stage) -> None:
    """With acks 0 the records are kept and nothing is said; the next request is answered at once."""
    topic, line = k.topic(), k.line("p")
    line.wire.send("produce", 9, {"acks": 0, "timeout_ms": 1000, "topic_data": topic_data(topic, batch(b"quiet"))})
    line.wire.flights.pop()
    line.call("heartbeat", 0, group_id=k.name("none"), member_id="m")
    k.pause(200)
    fetched(k, topic)


@story("V-007")
def acks_that_are_none(k: Stage) -> None:
    """Only -1, 0 and 1 are."""
    topic, line = k.topic(), k.line("p")
    for acks in (1, 2, -2):
        produce(line, topic, batch(b"x"), acks=acks)


@story("V-007")
def a_batch_with_a_wrong_checksum_is_not_kept(k: Stage) -> None:
    """CORRUPT_MESSAGE, and the log is empty."""
    topic, line = k.topic(), k.line("p")
    produce(line, topic, batch(b"x", crc=1))
    fetched(k, topic)


@story("V-007")
def batches_whose_counts_are_wrong(k: Stage) -> None:
    """More or fewer records than announced, and offsets that do not fit."""
    topic, line = k.topic(), k.line("p")
    produce(line, topic, batch(b"a", b"b", count=3))
    produce(line, topic, batch(b"a", b"b", count=1))
    produce(line, topic, batch(b"a", b"b", last_delta=5))
    produce(line, topic, batch(b"a", b"b", count=0))
    produce(line, topic, batch(b"a", b"b", count=-1))
    fetched(k, topic)


@story("V-007")
def bytes_that_are_no_batch(k: Stage) -> None:
    """Null, nothing, a batch that breaks off, noise."""
    topic = k.topic()
    whole = batch(b"some record")
    for name, records in (
        ("null", None),
        ("nothing", b""),
        ("cut", whole[:-4]),
        ("head only", whole[:20]),
        ("noise", b"\x00" * 80),
    ):
        ask_produce(k.line(name), topic, records).closed(within_ms=2000)
    fetched(k, topic)


@story("V-007")
def a_broken_batch_beside_a_whole_one(k: Stage) -> None:
    """In one request, for another partition: before it, and behind it."""
    topic = k.topic(partitions=2)
    whole = batch(b"a")
    for name, records in (
        ("nothing", b""),
        ("cut", whole[:-4]),
        ("head only", whole[:20]),
        ("two", whole + whole),
        ("one and a part", whole + whole[:30]),
        ("checksum", batch(b"a", crc=7)),
        ("magic", batch(b"a", magic=1)),
        ("count", batch(b"a", count=2)),
        ("codec", batch(b"a", attributes=6)),
    ):
        for index in (0, 1):
            data = [{"index": index, "records": records}, {"index": 1 - index, "records": whole}]
            topic_data = [{"name": topic, "partition_data": data}]
            k.line(name).send("produce", 9, acks=-1, timeout_ms=1000, topic_data=topic_data).closed(within_ms=2000)
    for index in (0, 1):
        fetched(k, topic, index=index)


@story("V-007")
def noise_beside_a_whole_batch(k: Stage) -> None:
    """A length or a magic number that no batch has, for another partition of the request."""
    topic = k.topic(partitions=2)
    for name, records in (("length", b"\x00" * 80), ("magic", batch(b"a", magic=3))):
        data = [{"index": 0, "records": records}, {"index": 1, "records": batch(b"a")}]
        ask_produce(k.line(name), topic, b"", topic_data=[{"name": topic, "partition_data": data}]).answer()


@story("V-007")
def formats_that_are_no_more(k: Stage) -> None:
    """Magic 0 and 1, and one that is not yet."""
    topic = k.topic()
    for magic in (0, 1, 3):
        ask_produce(k.line(f"magic {magic}"), topic, batch(b"x", magic=magic), version=8).closed(within_ms=2000)
    fetched(k, topic)


@story("V-007")
def two_batches_in_one_request(k: Stage) -> None:
    """A partition takes exactly one batch a request in this version of the protocol."""
    topic, line = k.topic(), k.line("p")
    produce(line, topic, batch(b"a") + batch(b"b"))
    fetched(k, topic)


@story("V-007")
def a_compressed_batch_is_kept_compressed(k: Stage) -> None:
    """Gzip in, gzip out, with the attributes as they were."""
    topic, line = k.topic(), k.line("p")
    produce(line, topic, batch(b"a" * 100, b"b" * 100, attributes=GZIP))
    fetched(k, topic)


@story("V-007")
def codecs_that_are_none_and_bytes_that_do_not_unpack(k: Stage) -> None:
    """Codec 7 does not exist; records that claim to be gzip, snappy, lz4 or zstd and are not."""
    topic = k.topic()
    for codec in (7, 5, 2, 3, 4):
        ask_produce(k.line(f"codec {codec}"), topic, batch(b"plain", attributes=codec)).closed(within_ms=2000)
    fetched(k, topic)


@story("V-007")
def numbers_in_more_bytes_than_a_reader_takes(k: Stage) -> None:
    """Each number of a record has five bytes at most, its time has ten. Unpacked and packed, and where keys are read.

    Not asked is the length of a record that is not packed: Kafka fails at it.
    """
    topic, kept = k.topic(), k.topic("kept", configs={"cleanup.policy": "compact"})
    for part in PARTS:
        for size in (5, 6, 10, 11):
            for codec in (GZIP,) if part == "size" and size > 5 else (0, GZIP):
                line = k.line(f"{part} {size} {codec}")
                written = wide(part, size)
                packed = gzip.compress(written) if codec else written
                for name in (topic, kept):
                    produce(line, name, batch(b"v", written=packed, attributes=codec))
    fetched(k, topic)
    fetched(k, kept)


@story("V-007")
def blocks_of_lz4_that_refer_to_each_other(k: Stage) -> None:
    """Java's reader knows no others than those that stand for themselves; a single block may say that it refers to some."""
    topic = k.topic()
    records = record(0, 0, None, b"one")
    for is_linked in (False, True):
        written = lz4.frame.LZ4FrameCompressor(block_linked=is_linked)
        packed = written.begin() + written.compress(records) + written.flush()
        produce(k.line(f"linked {is_linked}"), topic, batch(b"", written=packed, attributes=3))
    fetched(k, topic)


@story("V-007")
def a_batch_that_is_too_large(k: Stage) -> None:
    """Above the topic's max.message.bytes: MESSAGE_TOO_LARGE; at it: fine."""
    topic, line = k.topic(configs={"max.message.bytes": "200"}), k.line("p")
    produce(line, topic, batch(b"x" * 300))
    produce(line, topic, batch(b"x" * 100))


@story("V-007")
def the_broker_may_set_the_time(k: Stage) -> None:
    """With LogAppendTime the answer tells when, and the batch carries that time."""
    topic, line = k.topic(configs={"message.timestamp.type": "LogAppendTime"}), k.line("p")
    produce(line, topic, batch(b"x", b"y"))
    fetched(k, topic)


@story("V-007")
def a_batch_that_says_the_broker_has_set_its_time(k: Stage) -> None:
    """It is taken as one whose producer has; its greatest time stands for those of all records when they are checked."""
    topic, line = k.topic(), k.line("p")
    strict = k.topic("strict", configs={"message.timestamp.before.max.ms": "3600000"})
    now = int(time.time() * 1000)
    for times in ((T0, T0 + 5), (now, now), (T0, now), (now, T0)):
        produce(line, topic, batch(b"x", b"y", timestamps=times, attributes=BY_BROKER))
        produce(line, strict, batch(b"x", b"y", timestamps=times, attributes=BY_BROKER))
    fetched(k, topic)
    fetched(k, strict)


@story("V-007")
def a_negative_producer_id_is_none(k: Stage) -> None:
    """Without a sequence, or with one that does not go on; a transactional batch needs one."""
    topic, line = k.topic(), k.line("p")
    for sequence in (-1, 3, 9):
        produce(line, topic, batch(b"x", producer_id=-2, epoch=-1, sequence=sequence))
    produce(line, topic, batch(b"x", producer_id=-7, epoch=0, sequence=0, attributes=TRANSACTIONAL), version=11)
    fetched(k, topic)


@story("V-007")
def times_too_far_off_are_refused(k: Stage) -> None:
    """A record dated beyond what the topic allows before and after now."""
    topic, line = (
        k.topic(configs={"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "3155760000000"}),
        k.line("p"),
    )
    produce(line, topic, batch(b"x", timestamps=[4_000_000_000_000]))
    produce(line, topic, batch(b"x", timestamps=[T0]))
    strict = k.topic("strict", configs={"message.timestamp.before.max.ms": "1000"})
    produce(line, strict, batch(b"x", b"y", timestamps=[T0, T0 + 1]))


@story("V-007")
def records_without_a_key_do_not_fit_a_compacted_topic(k: Stage) -> None:
    """INVALID_RECORD, with the records that are at fault."""
    topic, line = k.topic(configs={"cleanup.policy": "compact"}), k.line("p")
    produce(line, topic, batch(b"a", b"b"))
    produce(line, topic, batch(b"a", key=b"k"))


@story("V-007")
def an_idempotent_producer_counts(k: Stage) -> None:
    """Sequences go on; the same batch again is a duplicate that keeps its offset; a gap is out of order."""
    topic, line = k.topic(), k.line("p")
    me = line.call("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=0)

    def send(sequence: int, *values: bytes) -> None:
        produce(line, topic, batch(*values, producer_id=me.producer_id, epoch=me.producer_epoch, sequence=sequence))

    send(0, b"a", b"b")
    send(2, b"c")
    send(0, b"a", b"b")
    send(2, b"c")
    send(5, b"f")
    send(1, b"b")
    send(3, b"d")
    fetched(k, topic)


@story("V-007")
def the_last_five_batches_are_remembered(k: Stage) -> None:
    """A duplicate of the fifth last is recognised, one of the sixth last is not."""
    topic, line = k.topic(), k.line("p")
    me = line.call("init_producer_id", 4, transactional_id=None, transaction_timeout_ms=0)
    for sequence in (0, 1, 2, 3, 4, 5, 1, 0):
        produce(line, topic, batch(b"%d" % sequence, producer_id=me.producer_id, epoch=0, sequence=sequence))


@story("V-007")
def a_producer_that_the_log_does_not_know(k: Stage) -> None:
    """It may begin anywhere, in any epoch; a new epoch begins at 0; an older epoch is refused."""
    topic, line = k.topic(), k.line("p")

    def send(epoch: int, sequence: int) -> None:
        produce(line, topic, batch(b"x", producer_id=FAR, epoch=epoch, sequence=sequence))

    send(3, 7)
    send(3, 8)
    send(4, 9)
    send(4, 0)
    send(3, 9)


@story("V-007")
def sequences_go_on_at_zero_behind_the_greatest(k: Stage) -> None:
    """Within a batch as well."""
    topic, line = k.topic(), k.line("p")

    def send(sequence: int, *values: bytes, producer_id: int = FAR) -> None:
        produce(line, topic, batch(*values, producer_id=producer_id, epoch=0, sequence=sequence))

    send(2**31 - 2, b"a", b"b", b"c")
    send(2, b"e")
    send(1, b"d")
    send(2**31 - 2, b"a", b"b", b"c")
    send(2**31 - 1, b"a", producer_id=FAR + 1)
    send(0, b"b", producer_id=FAR + 1)


@story("V-007")
def a_producer_whose_records_are_deleted(k: Stage) -> None:
    """The log still knows which sequence comes next."""
    topic, line = k.topic(), k.line("p")
    for sequence in (0, 1):
        produce(line, topic, batch(b"x", producer_id=FAR, epoch=0, sequence=sequence))
    everything = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
    k.line("admin").call("delete_records", 2, topics=everything, timeout_ms=1000)
    for sequence in (3, 1, 2):
        produce(line, topic, batch(b"x", producer_id=FAR, epoch=0, sequence=sequence))


@story("O-116")
def transactional_records_need_a_transaction(k: Stage) -> None:
    """Without AddPartitionsToTxn they are refused, by version; with an unknown transactional id as well."""
    topic = k.topic()
    p = begin_producer(k)
    records = batch(b"x", producer_id=p.id, epoch=p.epoch, sequence=0, attributes=TRANSACTIONAL)
    for version in (9, 11):
        produce(p.line, topic, records, version=version, transactional_id=p.transactional_id)
    fetched(k, topic)


@story("V-007")
def several_partitions_in_one_request(k: Stage) -> None:
    """Each has its own answer; one that fails does not hurt the others."""
    topic, line = k.topic(partitions=3), k.line("p")
    parts = [
        {"index": 0, "records": batch(b"a")},
        {"index": 1, "records": batch(b"b", crc=1)},
        {"index": 2, "records": batch(b"c", b"d")},
        {"index": 3, "records": batch(b"e")},
    ]
    line.call("produce", 12, acks=-1, timeout_ms=1000, topic_data=[{"name": topic, "partition_data": parts}])
