"""What clients may expect to read as committed, learnt from what was sent and acknowledged alone."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.simulation.requests import Request

Key = tuple[str, str, int]  # group, topic, partition
NONE = -1  # what OffsetFetch answers where nothing is committed


class Write(Struct, frozen=True):
    """A commit or a deletion, with its place in the order of decisions."""

    order: int
    offset: int
    at_ms: int = 0


class Offset:
    """One partition's committed offset: the last write that is certain, and those after it that may have happened."""

    def __init__(self, *, is_unknown: bool = False) -> None:
        self.known = Write(0, NONE)
        self.maybe: list[Write] = []
        self.is_unknown = is_unknown  # what is read first is believed

    def write(self, one: Write) -> None:
        """A write that was acknowledged. A transaction's counts from when it was sent, not from when it ended."""
        if one.order > self.known.order:
            self.known, self.is_unknown = one, False
            self.maybe = [each for each in self.maybe if each.order > one.order]

    def doubt(self, one: Write) -> None:
        """A write whose answer nobody has seen."""
        if one.order > self.known.order:
            self.maybe.append(one)

    def observe(self, offset: int, now_ms: int, retention_ms: int) -> bool:
        """Whether this offset may be read now; from now on it is the one that is certain."""
        candidates = [self.known, *self.maybe]
        if self.is_unknown:
            self.known, self.is_unknown = Write(self.known.order, offset), False  # nobody knows since when
            return True
        for each in sorted(candidates, key=lambda one: one.order, reverse=True):
            if each.offset == offset:
                self.known = each
                self.maybe = [one for one in self.maybe if one.order > each.order]
                return True
        latest_ms = max(each.at_ms for each in candidates)
        if offset == NONE and now_ms - latest_ms >= retention_ms:  # the server forgets what is old
            self.known, self.maybe = Write(self.known.order, NONE), []
            return True
        return False


class Transaction(Struct):
    """A producer's open transaction: what it has committed in it."""

    writes: dict[Key, Write] = {}
    maybe: list[tuple[Key, Write]] = []  # these may be in it
    maybe_committed: bool = False  # its commit was asked for, and the answer is not known


class Offsets:
    """All offsets of a history."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Offset] = {}
        self.transactions: dict[str, Transaction] = {}
        self._clocks: list[tuple[int, int]] = []  # the last decision of each process, and its clock then
        self._is_blind = False  # the past is not known

    def at(self, key: Key) -> Offset:
        """What is known of a partition of a group."""
        if key not in self.by_key:
            self.by_key[key] = Offset(is_unknown=self._is_blind)
        return self.by_key[key]

    def note_clock(self, order: int, now_ms: int) -> None:
        """A process has ended at this time by its clock, which the next one need not believe."""
        self._clocks.append((order, now_ms))

    def latest_ms(self, key: Key, now_ms: int) -> int:
        """The latest time by any server's clock since what may be committed: a clock that was wrong for a while has
        expired offsets for good, as in Kafka."""
        state = self.at(key)
        order = max(each.order for each in (state.known, *state.maybe))
        return max([now_ms, *(then_ms for at, then_ms in self._clocks if at >= order)])

    # -- what was answered ---------------------------------------------------------------------------------------------

    def answered(self, request: Request, response: Any, now_ms: int) -> None:
        """Take what an answer says as certain."""
        message = request.message
        if isinstance(message, OffsetCommitRequest):
            for key, write in _sent(request, _errors(response), now_ms):
                self.at(key).write(write)
        elif isinstance(message, TxnOffsetCommitRequest):
            self._open(message.transactional_id).writes.update(_sent(request, _errors(response), now_ms))
        elif isinstance(message, EndTxnRequest):
            if not response.error_code:
                self._end(message.transactional_id, certain=True, committed=message.committed)
        elif isinstance(message, InitProducerIdRequest):
            if not response.error_code and message.transactional_id in self.transactions:
                # What was left open is aborted, or was committed as its producer once asked for.
                was = self.transactions[message.transactional_id]
                self._end(message.transactional_id, certain=False, committed=was.maybe_committed)
        else:
            for key, write in self._deletions(request, response, now_ms):
                self.at(key).write(write)

    def _end(self, transactional_id: str, *, certain: bool, committed: bool) -> None:
        transaction = self.transactions.pop(transactional_id, None)
        if transaction is not None and committed:
            for key, write in transaction.writes.items():
                self.at(key).write(write) if certain else self.at(key).doubt(write)
            for key, write in transaction.maybe:
                self.at(key).doubt(write)

    def _open(self, transactional_id: str) -> Transaction:
        return self.transactions.setdefault(transactional_id, Transaction())

    def _deletions(self, request: Request, response: Any, now_ms: int) -> Iterable[tuple[Key, Write]]:
        """What is deleted by a request; with no answer, what may be."""
        message, write = request.message, Write(request.order, NONE, now_ms)
        if isinstance(message, OffsetDeleteRequest):
            if response is None or not response.error_code:
                errors = {} if response is None else _errors(response)
                for topic in message.topics:
                    for one in topic.partitions:
                        if not errors.get((topic.name, one.partition_index)):
                            yield (message.group_id, topic.name, one.partition_index), write
        elif isinstance(message, DeleteGroupsRequest):
            gone = message.groups_names if response is None else _right(response.results, "group_id")
            yield from ((key, write) for key in tuple(self.by_key) if key[0] in gone)
        elif isinstance(message, DeleteTopicsRequest):
            gone = [one.name for one in message.topics] if response is None else _right(response.responses, "name")
            yield from ((key, write) for key in tuple(self.by_key) if key[1] in gone)

    # -- what was not --------------------------------------------------------------------------------------------------

    def unanswered(self, request: Request, now_ms: int) -> None:
        """Take note that a request may have been decided, or not."""
        message = request.message
        if isinstance(message, OffsetCommitRequest):
            for key, write in _sent(request, {}, now_ms):
                self.at(key).doubt(write)
        elif isinstance(message, TxnOffsetCommitRequest):
            self._open(message.transactional_id).maybe += _sent(request, {}, now_ms)
        elif isinstance(message, EndTxnRequest):
            transaction = self._open(message.transactional_id)
            transaction.maybe_committed = transaction.maybe_committed or message.committed
            if message.committed:
                for key, write in [*transaction.writes.items(), *transaction.maybe]:
                    self.at(key).doubt(write)
        else:
            for key, write in self._deletions(request, None, now_ms):
                self.at(key).doubt(write)

    def forget(self) -> None:
        """After a power cut without --fsync nothing is certain: what is found is believed once."""
        self.by_key.clear()
        self.transactions.clear()
        self._is_blind = True


def _errors(response: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions}


def _sent(request: Request, errors: dict[tuple[str, int], int], now_ms: int) -> list[tuple[Key, Write]]:
    message = request.message
    return [
        ((message.group_id, topic.name, one.partition_index), Write(request.order, one.committed_offset, now_ms))
        for topic in message.topics
        for one in topic.partitions
        if not errors.get((topic.name, one.partition_index))
    ]


def _right(results: Any, field: str) -> list[str]:
    return [getattr(one, field) for one in results if not one.error_code]
