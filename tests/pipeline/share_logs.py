"""Logs of share groups and of their states."""

from pathlib import Path
from typing import Any

from coordinator.core import record_types, records
from coordinator.core.share_state import records as states
from coordinator.core.share_state.values import StateBatch
from pipeline.decode.layout import TOPIC
from pipeline.synth import Writer
from protocol.records import Record
from tests.pipeline.engine import START_MS


def write_shares(logs: Path) -> None:
    """A share group whose records are given back, accepted, archived, and which begins anew; one of an unknown topic,
    one that was deleted. Broker b lacks the end."""
    topic_id = b"o" * 16
    orders = record_types.ShareGroupStatePartitionMetadataValueTopicPartitionsInfo(topic_id, "orders", (0, 1))
    about = records.Record(
        record_types.ShareGroupStatePartitionMetadataKey("queue"),
        record_types.ShareGroupStatePartitionMetadataValue(initialized_topics=(orders,)),
    )
    Writer(logs / "a" / f"{TOPIC}-3").append([Record(*records.encode(about), timestamp=START_MS)])
    copies = [Writer(logs / broker / "__share_group_state-0") for broker in "ab"]

    def put(at_s: int, group: str, value: Any, *, topic: bytes = topic_id) -> None:
        make = states.ShareUpdateKey if isinstance(value, states.ShareUpdateValue) else states.ShareSnapshotKey
        fact = states.StateRecord(make(group, topic, 0), value)
        for copy in copies if at_s < 50 else copies[:1]:
            copy.append([Record(*states.encode(fact), timestamp=START_MS + 1000 * at_s)])

    def snapshot(epoch: int, state_epoch: int, start: int, *batches: tuple[int, int, int, int]) -> Any:
        written = tuple([StateBatch(*batch) for batch in batches])
        return states.ShareSnapshotValue(epoch, state_epoch, 0, start, 0, START_MS, START_MS, written)

    def update(start: int, *batches: tuple[int, int, int, int]) -> Any:
        return states.ShareUpdateValue(0, 0, start, len(batches), tuple([StateBatch(*batch) for batch in batches]))

    put(0, "queue", snapshot(0, 1, 0))
    put(1, "queue", update(-1, (0, 3, 2, 1), (4, 9, 0, 1)))
    put(2, "queue", update(4, (5, 6, 4, 2)))
    put(3, "queue", snapshot(1, 1, 4, (4, 4, 0, 1), (5, 7, 4, 2), (8, 9, 0, 1)))  # 7 as well
    put(4, "other", snapshot(0, 1, 100, (100, 101, 4, 1)), topic=b"?" * 16)
    put(5, "gone", snapshot(0, 1, 0, (0, 0, 4, 5)))
    put(6, "gone", None)
    put(60, "queue", snapshot(2, 2, 0))  # offsets were reset
    put(61, "queue", update(-1, (5, 5, 4, 1), (6, 6, 0, 1), (7, 8, 2, 2)))
    copies[0].append([Record(b"\x00\x09", b"?", timestamp=START_MS)])
