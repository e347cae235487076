"""One transactional producer and its latest transaction, as a frozen value, and how it moves."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.catalog.records import CatalogRecord, TransactionKey, TransactionTopic, TransactionValue
from coordinator.core.transactions.states import NEXT, State

NO_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = (
    2**15 - 1
)  # only ever a fenced producer's: a client's own epoch stays below, so that it can be fenced

V1, V2 = 0, 2  # which protocol the client ended its latest transaction by; KIP-890 is the second

Partition = tuple[str, int]


class Transaction(Struct, frozen=True):
    """A transactional id and all that is known under it. Times are ms; -1 where there is none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH  # the epoch before; a client that missed an answer may still name it
    previous_producer_id: int = NO_ID  # the id before, when the epochs of that one were used up
    next_producer_id: int = NO_ID  # ... and the id after, while the markers are still written with the old one
    timeout_ms: int = 0
    state: State = State.EMPTY
    protocol: int = V1
    started_ms: int = -1
    updated_ms: int = -1
    partitions: frozenset[Partition] = frozenset()

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no further epoch to give."""
        return is_exhausted(self.producer_epoch)

    @property
    def deadline_ms(self) -> int | None:
        """When an open transaction is aborted; None when none is open."""
        return self.started_ms + self.timeout_ms if self.state == State.ONGOING else None

    def with_state(self, state: State, now_ms: int) -> "Transaction":
        """Return the same in another state."""
        assert state in NEXT[self.state], f"{self.transactional_id}: no way from {self.state.name} to {state.name}"
        return replace(self, state=state, updated_ms=now_ms)

    def with_partitions(self, partitions: Iterable[Partition], now_ms: int) -> "Transaction":
        """Return it with these partitions written to as well; the transaction begins when it had not."""
        begun = self.started_ms if self.state == State.ONGOING else now_ms
        return replace(
            self.with_state(State.ONGOING, now_ms), partitions=self.partitions.union(partitions), started_ms=begun
        )

    def partitions_by_topic(self) -> dict[str, tuple[int, ...]]:
        """Return the partitions of each topic, all in order."""
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for topic, partition in self.partitions:
            by_topic[topic].append(partition)
        return {topic: tuple(sorted(by_topic[topic])) for topic in sorted(by_topic)}

    @property
    def record(self) -> CatalogRecord:
        """The fact that all this is so."""
        value = TransactionValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            last_producer_epoch=self.last_producer_epoch,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            timeout_ms=self.timeout_ms,
            state=self.state,
            protocol=self.protocol,
            started_ms=self.started_ms,
            updated_ms=self.updated_ms,
            topics=tuple([TransactionTopic(topic, indexes) for topic, indexes in self.partitions_by_topic().items()]),
        )
        return CatalogRecord(TransactionKey(self.transactional_id), value)


def is_exhausted(epoch: int) -> bool:
    """Return whether a producer's epoch is the last that a client may have."""
    return epoch >= EPOCH_MAX - 1


def restore(transactional_id: str, value: TransactionValue) -> Transaction:
    """Restore a transaction from its record in the log."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        last_producer_epoch=value.last_producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.timeout_ms,
        state=State(value.state),
        protocol=value.protocol,
        started_ms=value.started_ms,
        updated_ms=value.updated_ms,
        partitions=frozenset((one.topic, index) for one in value.topics for index in one.partitions),
    )
