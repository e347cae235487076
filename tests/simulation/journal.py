"""What clients may expect to read from a topic, learnt from what was produced and acknowledged alone."""

from typing import Any

from msgspec import Struct

from protocol import record_batch
from protocol.compression import Meter
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest
from tests.simulation.requests import Request

Place = tuple[str, int, int]  # topic, partition, offset


class ProducedRecord(Struct):
    """An acknowledged record. `is_visible` is None while its transaction is open, and when its end is not known."""

    value: bytes
    is_visible: bool | None


class Journal:
    """The acknowledged records of the topics that are never deleted or cut."""

    def __init__(self) -> None:
        self.records: dict[Place, ProducedRecord] = {}
        self._open: dict[str, list[Place]] = {}  # by transactional id
        self._maybe_committed: set[str] = set()
        self.wrong: list[str] = []
        self._is_blind = False  # epochs and sequences may have been given out twice

    def answered(self, request: Request, response: Any) -> None:
        """Take what an answer says as certain, and compare what was fetched with it."""
        message = request.message
        if self._is_blind:
            return
        if isinstance(message, ProduceRequest):
            self._produced(message, response)
        elif isinstance(message, EndTxnRequest) and not response.error_code:
            self._end(message.transactional_id, message.committed)
        elif isinstance(message, InitProducerIdRequest) and not response.error_code and message.transactional_id:
            unknown = message.transactional_id in self._maybe_committed
            self._end(message.transactional_id, None if unknown else False)
        elif isinstance(message, FetchRequest):
            for topic in response.responses:
                for data in topic.partitions:
                    if not data.error_code and message.isolation_level:
                        self._fetched(topic.topic, data, message)

    def _produced(self, message: ProduceRequest, response: Any) -> None:
        for topic, answers in zip(message.topic_data, response.responses, strict=True):
            for sent, answer in zip(topic.partition_data, answers.partition_responses, strict=True):
                if answer.error_code:
                    continue
                ((at, header),) = record_batch.batches(sent.records)
                for number, record in enumerate(record_batch.read(sent.records, at, header, Meter())):
                    place = (topic.name, sent.index, answer.base_offset + number)
                    is_new = place not in self.records
                    if is_new:  # a batch that is sent twice is acknowledged twice, and is there once
                        self.records[place] = ProducedRecord(record.value, None if message.transactional_id else True)
                    if is_new and message.transactional_id:
                        self._open.setdefault(message.transactional_id, []).append(place)

    def _end(self, transactional_id: str, committed: bool | None) -> None:
        self._maybe_committed.discard(transactional_id)
        for place in self._open.pop(transactional_id, ()):
            self.records[place].is_visible = committed

    def unanswered(self, request: Request) -> None:
        """Take note that a request may have been decided, or not."""
        if isinstance(request.message, EndTxnRequest) and request.message.committed:
            self._maybe_committed.add(request.message.transactional_id)

    def _fetched(self, topic: str, data: Any, message: FetchRequest) -> None:
        """A read_committed consumer sees what was committed, from where it reads to where the answer ends."""
        seen, end = visible(data)
        first = next(
            p.fetch_offset for t in message.topics for p in t.partitions if p.partition == data.partition_index
        )
        for offset in range(first, end):
            one = self.records.get((topic, data.partition_index, offset))
            if one is not None and one.is_visible is not None and (seen.get(offset) == one.value) != one.is_visible:
                self.wrong.append(f"{topic}-{data.partition_index} at {offset}: {seen.get(offset)!r}, not {one}")

    def latest(self, topic: str, partition: int) -> int:
        """Behind the last acknowledged record."""
        return 1 + max((o for t, p, o in self.records if (t, p) == (topic, partition)), default=-1)

    def forget(self) -> None:
        """After a power cut without --fsync nothing is certain, nor what follows: an epoch may be given out again."""
        self._is_blind = True
        self.records.clear()
        self._open.clear()
        self._maybe_committed.clear()


def visible(data: Any) -> tuple[dict[int, bytes], int]:
    """What a consumer hands to its user of a fetched partition, by offset, and up to where it has read."""
    aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    found: dict[int, bytes] = {}
    dropped: set[int] = set()
    end = 0
    for at, header in record_batch.batches(data.records or b""):
        end = header.next_offset
        while aborted and aborted[0][0] <= header.base_offset:
            dropped.add(aborted.pop(0)[1])
        if header.is_control:
            dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            found |= {
                record.offset: record.value or b"" for record in record_batch.read(data.records, at, header, Meter())
            }
    return found, end
