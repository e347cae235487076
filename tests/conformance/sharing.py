"""Members of share groups that fetch and acknowledge, and topics whose share states have begun."""

import base64
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from tests.conformance.actors import Producer
from tests.conformance.batches import T0, TRANSACTIONAL, batch
from tests.conformance.requests import topic_data
from tests.conformance.stage import Answer, Pending, Stage

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
EXACTLY = 1  # the acquire mode with a limit of records
WAIT_MS = 2_000  # for records that are there
Ranges = Sequence[tuple[int, int, int | Sequence[int]]]  # first offset, last offset, a type for all or for each


def key_of(group: str, topic_id: str, partition: int = 0) -> str:
    """The name by which the coordinator of a share partition is found."""
    return f"{group}:{base64.urlsafe_b64encode(uuid.UUID(topic_id).bytes).decode().rstrip('=')}:{partition}"


def shared(k: Stage, *sizes: int, start: int = 0, group: str = "g", partitions: int = 1, **configs: Any) -> str:
    """A topic with batches of so many records in its first partition, and the states of a share group of it."""
    if configs:
        k.group_config(k.name(group), **configs)
    topic = k.topic(partitions=partitions)
    begin_states(k, topic, start=start, group=group, partitions=partitions)
    for size in sizes:
        append(k, topic, size)
    return topic


def begin_states(
    k: Stage, topic: str, *, start: int = 0, group: str = "g", partitions: int = 1, epoch: int = 1
) -> None:
    """Begin the states of a share group at an offset, as its members' joins do. Stage setting."""
    find_share_coordinators(k, topic, group, partitions)
    wanted = [{"partition": index, "state_epoch": epoch, "start_offset": start} for index in range(partitions)]
    topics = [{"topic_id": k.topic_id(topic), "partitions": wanted}]

    def has_begun(answer: Answer) -> bool:
        return all(one.error_code == "NONE" for one in answer.results[0].partitions)

    k.line("stage").until(
        "share state", "initialize_share_group_state", 0, has_begun, group_id=k.name(group), topics=topics
    )


def find_share_coordinators(k: Stage, topic: str, group: str, partitions: int) -> None:
    """Wait until the states of a share group have coordinators. Stage setting."""
    keys = [key_of(k.name(group), k.topic_id(topic), index) for index in range(partitions)]
    k.line("stage").until(
        "the share coordinator",
        "find_coordinator",
        6,
        lambda answer: all(one.error_code == "NONE" for one in answer.coordinators),
        key_type=2,
        coordinator_keys=keys,
    )


def append(
    k: Stage, topic: str, size: int, index: int = 0, *, at_ms: int = T0, producer: Producer | None = None, **fields: Any
) -> None:
    """Append a batch of so many records, in the transaction of a producer if one is given. Stage setting."""
    name = None
    if producer is not None:
        name = producer.transactional_id
        fields |= {"producer_id": producer.id, "epoch": producer.epoch, "attributes": TRANSACTIONAL}
    values = [b"%d" % number for number in range(size)]
    data = topic_data(topic, batch(*values, timestamps=[at_ms + n for n in range(size)], **fields), index)
    answer = k.line("stage").quietly("produce", 9, transactional_id=name, acks=-1, timeout_ms=5_000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code == "NONE", answer


def delete_before(k: Stage, topic: str, offset: int) -> None:
    parts = [{"partition_index": 0, "offset": offset}]
    k.line("stage").quietly("delete_records", 2, topics=[{"name": topic, "partitions": parts}], timeout_ms=5_000)


def open_transaction(k: Stage, p: Producer, topic: str, size: int) -> None:
    p.add_partitions(topic)
    append(k, topic, size, producer=p, sequence=0)


def transaction(k: Stage, topic: str, size: int, *, committed: bool) -> None:
    p = Producer(k, "p" if committed else "q")
    p.begin()
    open_transaction(k, p, topic, size)
    end = latest(k, topic, 0)
    p.end(committed)
    k.line("stage").until("marker", "list_offsets", 5, lambda answer: offset_of(answer) > end, **of_topic(topic, 1))


def latest(k: Stage, topic: str, isolation_level: int) -> int:
    return offset_of(k.line("stage").quietly("list_offsets", 5, **of_topic(topic, isolation_level)))


def offset_of(answer: Answer) -> int:
    found: int = answer.topics[0].partitions[0].offset
    return found


def of_topic(topic: str, isolation_level: int) -> dict[str, Any]:
    parts = [{"partition_index": 0, "timestamp": -1}]
    return {
        "replica_id": -1,
        "isolation_level": isolation_level,
        "topics": [{"name": topic, "partitions": parts}],
    }


class Taker:
    """A member of a share group that only fetches and acknowledges, on a connection of its own name."""

    def __init__(self, k: Stage, name: str, topic: str, group: str = "g", line: str | None = None) -> None:
        self.k, self.topic = k, topic
        self.known = {"group_id": k.name(group), "member_id": f"member-{name}"}
        self.line_name = name if line is None else line
        self.epoch = 0

    def send(self, ranges: Ranges = (), *, index: int = 0, version: int = 2, **values: Any) -> Pending:
        """Send the next ShareFetch of the session, with acknowledgements."""
        epoch = values.pop("epoch", self.epoch)
        wanted = {
            **self.known,
            "share_session_epoch": epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": self._topics(ranges, [index]),
            **values,
        }
        self.epoch = 1 if epoch == 0 else epoch + 1
        return self.k.line(self.line_name).send("share_fetch", version, **wanted)

    def take(self, ranges: Ranges = (), **values: Any) -> Answer:
        """Fetch records that are there, or become available with these acknowledgements. How long that takes is not
        compared: Kafka may find what was released only when the wait is over."""
        return self.send(ranges, **{"max_wait_ms": WAIT_MS, **values}).answer(is_timed=False)

    def look(self, ranges: Ranges = (), **values: Any) -> Answer:
        """Fetch without waiting."""
        return self.send(ranges, **values).answer()

    def settle(self, ranges: Ranges = (), *, index: int = 0, version: int = 2, **values: Any) -> Answer:
        """Acknowledge by the next ShareAcknowledge of the session."""
        epoch = values.pop("epoch", self.epoch)
        wanted = {**self.known, "share_session_epoch": epoch, "topics": self._topics(ranges, [index]), **values}
        answer = self.k.line(self.line_name).call("share_acknowledge", version, **wanted)
        if answer.error_code == "NONE":
            self.epoch = epoch + 1
        return answer

    def _topics(self, ranges: Ranges, indexes: Iterable[int]) -> list[dict[str, Any]]:
        batches = [
            {
                "first_offset": first,
                "last_offset": last,
                "acknowledge_types": [types] if isinstance(types, int) else list(types),
            }
            for first, last, types in ranges
        ]
        partitions = [{"partition_index": index, "acknowledgement_batches": batches} for index in indexes]
        return [{"topic_id": self.k.topic_id(self.topic), "partitions": partitions}]

    def show(self, version: int = 1) -> None:
        """Describe where the group is, and how far behind."""
        wanted = [{"topic_name": self.topic, "partitions": [0]}]
        groups = [{"group_id": self.known["group_id"], "topics": wanted}]
        self.k.line("watch").send("describe_share_group_offsets", version, groups=groups).answer(is_timed=False)
