"""What share groups (KIP-932) cost a server, and how late it delivers.

    python -m benchmarks.share_groups [--fetches 1000] [--rounds 5] [--locks 15] [--beside NAME=HOST:PORT@PID ...]

One member and one topic of one partition, over one connection. CPU of the server for each ShareFetch that acknowledges
what the one before has brought, a range of its own for every record: 100 records at a time, and one record at a time.
Then milliseconds from the Produce of a record to its delivery to a fetch that waits; and how late a record comes again
whose lock has ended, counted from the moment at which the fetch that locked it was sent: at most that late.

Other brokers run already, with `group.share.min.record.lock.duration.ms=1000`; all are measured in turn, and what is
printed are medians over the rounds. The first round of each only warms it up.
"""

import argparse
import contextlib
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.member import cpu_ms
from benchmarks.server import RunningServer
from coordinator.client import Client
from protocol import record_batch
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.records import Record

GROUP: Final = 32  # a resource of IncrementalAlterConfigs
EXACTLY: Final = 1  # the acquire mode in which a fetch brings at most so many records
ACCEPT: Final = (1,)
VALUE: Final = b"x" * 100
LOCK_MS: Final = 1_000
PATIENCE_S: Final = 60
SETTINGS: Final = (
    "--no-fast", "--set", "group.share.min.record.lock.duration.ms=1000", "--set", "log.retention.ms=-1",
)  # fmt: skip


class Queue:
    """A member of a share group of its own, and the topic that it reads."""

    def __init__(self, name: str, address: str, pid: int) -> None:
        self.name, self._pid = name, pid
        self._client, self._producer = Client.to(address), Client.to(address)
        self._topic = self._group = f"share-{time.time_ns()}"
        self._member, self._epoch = "AAAAAAAAAAAAAAAAAAAAAQ", 0
        self._client.ask(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(self._topic, 1, 1),)))
        self._configure({"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)})
        self._topic_id = self._join()
        self.produce(1, 1)
        self._accept_all()

    def _configure(self, values: Mapping[str, str]) -> None:
        changes = tuple([IncrementalAlterConfigsRequestAlterableConfig(key, 0, one) for key, one in values.items()])
        resource = IncrementalAlterConfigsRequestResource(GROUP, self._group, changes)
        (done,) = self._client.ask(IncrementalAlterConfigsRequest((resource,))).responses
        assert not done.error_code, f"{self.name} refuses the settings: {done}"

    def _join(self) -> bytes:
        """Join, and wait for the assignment. Returns the id of the topic."""
        deadline = time.monotonic() + PATIENCE_S
        find, epoch = FindCoordinatorRequest(key_type=0, coordinator_keys=(self._group,)), 0
        while time.monotonic() < deadline:
            if not self._client.ask(find).coordinators[0].error_code:
                beat = ShareGroupHeartbeatRequest(
                    self._group, self._member, epoch, subscribed_topic_names=None if epoch else (self._topic,)
                )
                answer = self._client.ask(beat)
                epoch = answer.member_epoch if not answer.error_code else 0
                if not answer.error_code and answer.assignment is not None and answer.assignment.topic_partitions:
                    return bytes(answer.assignment.topic_partitions[0].topic_id)
            time.sleep(0.3)
        raise AssertionError(f"{self.name} assigns nothing")

    def produce(self, batches: int, size: int) -> None:
        """Append batches of so many records."""
        records = record_batch.encode([Record(None, VALUE, timestamp=1_700_000_000_000)] * size)
        data = ProduceRequestTopicData(self._topic, partition_data=(ProduceRequestPartitionData(0, records),))
        for _ in range(batches):
            answer = self._producer.ask(ProduceRequest(None, -1, 10_000, (data,)), version=9)
            assert not answer.responses[0].partition_responses[0].error_code, answer

    def fetch(self, accepted: Iterable[int] = (), most: int = 100, wait_ms: int = 500) -> list[int]:
        """Accept these offsets, each by a range of its own, and return the offsets that come."""
        ranges = tuple([ShareFetchRequestAcknowledgementBatch(offset, offset, ACCEPT) for offset in accepted])
        topics = (ShareFetchRequestTopic(self._topic_id, (ShareFetchRequestPartition(0, ranges),)),)
        answer = self._client.ask(
            ShareFetchRequest(
                self._group, self._member, self._epoch, wait_ms, 1, 1 << 20, most, most, EXACTLY,
                topics=topics if ranges or not self._epoch else (),
            ), version=2,
        )  # fmt: skip
        assert not answer.error_code, f"{self.name}: {answer}"
        self._epoch, self._lock_ms = self._epoch + 1, answer.acquisition_lock_timeout_ms
        return list(_acquired_offsets(answer))

    def _accept_all(self) -> None:
        """Fetch until nothing comes any more, which is when the state of the partition has begun, too."""
        deadline, seen, got = time.monotonic() + PATIENCE_S, 0, self.fetch()
        while not seen or got:
            assert time.monotonic() < deadline, f"{self.name} delivers nothing"
            seen += len(got)
            got = self.fetch(got)

    def cost_us(self, fetches: int, size: int) -> float:
        """Return the microseconds of the server for each fetch that brings and accepts so many records."""
        self.produce(fetches + 1, size)
        got, used_ms = self.fetch(most=size), cpu_ms(self._pid)
        for _ in range(fetches):
            assert len(got) == size, f"{self.name} brings {len(got)} records instead of {size}"
            got = self.fetch(got, size)
        used_ms = cpu_ms(self._pid) - used_ms
        self.fetch(got, wait_ms=0)
        return 1e3 * used_ms / fetches

    def delivery_ms(self, count: int) -> float:
        """Return the median time from a Produce to the delivery to a fetch that waits."""
        took_ms, got = [], list[int]()
        for _ in range(count):
            came = list[tuple[float, list[int]]]()
            waiting = threading.Thread(target=self._note_delivery, args=(got, came))
            waiting.start()
            time.sleep(0.01)  # the fetch is there
            sent_s = time.perf_counter()
            self.produce(1, 1)
            waiting.join()
            ((came_s, got),) = came
            took_ms.append(1e3 * (came_s - sent_s))
        self.fetch(got, wait_ms=0)
        return statistics.median(took_ms)

    def _note_delivery(self, accepted: list[int], came: list[tuple[float, list[int]]]) -> None:
        got = self.fetch(accepted, 1, wait_ms=5_000)
        came.append((time.perf_counter(), got))

    def late_ms(self, count: int) -> float:
        """Return how late a record comes again after the end of its lock, the median; NaN if locks last longer than
        the group's setting says."""
        late_ms = []
        if self._lock_ms != LOCK_MS:
            return math.nan
        for _ in range(count):
            self.produce(1, 1)
            sent_s = time.perf_counter()
            first = self.fetch(most=1)
            again = self.fetch(most=1, wait_ms=5 * LOCK_MS)
            late_ms.append(1e3 * (time.perf_counter() - sent_s) - LOCK_MS)
            assert first == again, f"{self.name} brings {again} instead of {first}"
            self.fetch(again, wait_ms=0)
        return statistics.median(late_ms)


def _acquired_offsets(answer: Any) -> Iterator[int]:
    for topic in answer.responses:
        for one in topic.partitions:
            for run in one.acquired_records:
                yield from range(run.first_offset, run.last_offset + 1)


def measure(queue: Queue, fetches: int, locks: int) -> Iterator[tuple[str, float]]:
    """Yield each figure of one round."""
    yield "100 records, each accepted: us of CPU a ShareFetch", queue.cost_us(fetches // 5, 100)
    yield "one record, accepted: us of CPU a ShareFetch", queue.cost_us(fetches, 1)
    yield "from Produce to delivery, ms", queue.delivery_ms(100)
    if locks:
        yield "late by, after the end of a lock, ms", queue.late_ms(locks)


def main() -> None:
    """Measure all brokers, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.share_groups")
    parser.add_argument("--fetches", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--locks", type=int, default=15, help="records whose lock ends, in each round")
    parser.add_argument("--beside", metavar="NAME=HOST:PORT@PID", action="append", default=[])
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(RunningServer(Path(folder) / "data", *SETTINGS))
        brokers = [("muster", server.kafka, server.pid)]
        for beside in args.beside:
            name, _, rest = beside.partition("=")
            address, _, pid = rest.partition("@")
            brokers.append((name, address, int(pid)))
        found: dict[str, dict[str, list[float]]] = {}
        for number in range(args.rounds + 1):
            for name, *broker in brokers:
                for what, value in measure(Queue(name, *broker), args.fetches, args.locks if number else 0):
                    if number:
                        found.setdefault(what, {}).setdefault(name, []).append(value)
        for what, values in found.items():
            print(what, *(f"{name} {statistics.median(each):.2f}" for name, each in values.items()), sep="  ")


if __name__ == "__main__":
    main()
