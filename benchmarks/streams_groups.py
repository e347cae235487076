"""What a streams group (KIP-1071) of many members and tasks costs its coordinator.

    python -m benchmarks.streams_groups [--members 1000] [--subtopologies 50] [--partitions 100] [--standbys 0]
                                        [--server] [--beside NAME=HOST:PORT@PID ...]

CPU milliseconds of a whole group, four members a process: all join; all beat until everybody has its tasks; one more
comes and all beat until it has; a quarter of the members leaves and the others beat until they have everything; all
beat without news. Beside each the longest single decision, which is what a turn lasts at least: the aim is 100 ms.

Without options this is the deciding alone, on a clock of its own, with the records encoded for a log that is not there.
`--server` asks a server process over one connection, one request after the other, and `--beside` other brokers: CPU is
then that of all threads of the process.
Without `--standbys` there are no stores, so no topic is created but the one that all subtopologies read.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.member import cpu_ms
from benchmarks.server import RunningServer
from coordinator.client import Client
from coordinator.control.inputs import StepInput
from coordinator.core.decision import Done, Outcome, Steps
from coordinator.core.limits import Limits
from coordinator.core.record_types import single_records
from coordinator.core.records import encode
from coordinator.core.result import Call, ComputeTarget, Result, TakeTarget
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from coordinator.runtime.steps import ProcessorTime, UnfinishedRequest, UnfinishedRequests
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)

SOURCE = "streams-benchmark"
THREADS = 4  # members of a process
LONGEST_MS = 100


def topology(subtopologies: int, *, has_stores: bool) -> StreamsGroupHeartbeatRequestTopology:
    """So many subtopologies, which all read one topic."""
    stores = [(StreamsGroupHeartbeatRequestTopicInfo(f"log-{n}"),) if has_stores else () for n in range(subtopologies)]
    parts = [
        StreamsGroupHeartbeatRequestSubtopology(str(n), (SOURCE,), state_changelog_topics=store)
        for n, store in enumerate(stores)
    ]
    return StreamsGroupHeartbeatRequestTopology(0, tuple(parts))


class Deciding:
    """A shard alone, and its clock."""

    name = "deciding"

    def __init__(self, subtopologies: int, partitions: int, standbys: int) -> None:
        names = (SOURCE, *(f"log-{n}" for n in range(subtopologies)))
        topics = Topics(Topic(name, name.encode().ljust(20, b".")[-16:], partitions) for name in names)
        limits = Limits(group_streams_num_standby_replicas=standbys, group_streams_initial_rebalance_delay_ms=0)
        self.shard = Shard(0, limits, topics, write=_encode)
        self._now_ms = 1_700_000_000_000
        self._tickets = count(1)

    def prepare(self, group_id: str) -> None:
        """A shard is ready."""

    def ask(self, request: Any) -> Any:
        self._now_ms += 1
        result = self.shard.handle(request, Call(next(self._tickets), self._now_ms, 0, "c", "/127.0.0.1", str))
        self._long_targets = [effect for effect in result.effects if isinstance(effect, ComputeTarget)]
        return result.response

    def work(self) -> Iterator[None]:
        """Do what the request has left to be done in steps, as a server does it; yield after each step."""
        meter = ProcessorTime(time.process_time)
        for wanted in self._long_targets:
            unfinished = UnfinishedRequest("target", -1, None, 0, _finish(wanted.steps))
            while (outcome := UnfinishedRequests(meter).advance(unfinished, StepInput(-1))) is None:
                yield
            yield
            self.shard.handle(TakeTarget(wanted.group_id, wanted.target, outcome.response), wanted.call)
            yield

    def used_ms(self) -> float:
        return 1000 * time.process_time()

    def wait(self) -> None:
        self._now_ms += 1_000


def _encode(result: Result[Any], now_ms: int) -> None:
    """Encode the records of a result, as for a log."""
    for record in single_records(result.records):
        encode(record)


class Serving:
    """A server process, over one connection."""

    def __init__(self, name: str, address: str, pid: int, partitions: int) -> None:
        self.name, self._pid = name, pid
        self._client = Client.to(address)
        self._client.ask(CreateTopicsRequest((CreateTopicsRequestCreatableTopic(SOURCE, partitions, 1),)))
        self.ask = self._client.ask

    def prepare(self, group_id: str) -> None:
        """Wait until the broker coordinates the group, and knows the topic."""
        while self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))).coordinators[0].error_code:
            time.sleep(0.5)
        time.sleep(1)

    def work(self) -> Iterable[None]:
        """The server does it by itself."""
        return ()

    def used_ms(self) -> float:
        return cpu_ms(self._pid)

    def wait(self) -> None:
        time.sleep(1.05)


class Group:
    """What the members of one group know."""

    def __init__(self, server: Deciding | Serving, sent: StreamsGroupHeartbeatRequestTopology) -> None:
        self._server, self._topology = server, sent
        self._group_id = f"g{time.time_ns()}"
        self.members: dict[str, tuple[int, Sequence[Any]]] = {}  # epoch, and what each was told
        self.longest_ms = 0.0
        server.prepare(self._group_id)

    def _ask(self, member_id: str, epoch: int, **said: Any) -> Any:
        before_ms = self._server.used_ms()
        answer = self._server.ask(StreamsGroupHeartbeatRequest(self._group_id, member_id, epoch, **said))
        before_ms = self._note(before_ms)
        for _ in self._server.work():
            before_ms = self._note(before_ms)
        assert not answer.error_code, answer
        return answer

    def _note(self, before_ms: float) -> float:
        now_ms = self._server.used_ms()
        self.longest_ms = max(self.longest_ms, now_ms - before_ms)
        return now_ms

    def _beat(self, member_id: str, **said: Any) -> bool:
        """Return whether the member was told something."""
        epoch, told = self.members[member_id]
        answer = self._ask(member_id, epoch, **said)
        is_told = answer.active_tasks is not None
        self.members[member_id] = answer.member_epoch, _owned_tasks(answer) if is_told else told
        return is_told or bool(answer.status) or answer.member_epoch != epoch

    def join(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            member_id = f"m{number:06}"
            self.members[member_id] = 0, ((), ())
            self._beat(
                member_id, rebalance_timeout_ms=300_000, topology=self._topology, process_id=f"p{number // THREADS}",
                active_tasks=(), standby_tasks=(), warmup_tasks=(),
            )  # fmt: skip

    def settle(self) -> None:
        """Beat and report until nobody is told anything, a second between two rounds."""
        has_news = True
        while has_news:
            self._server.wait()
            has_news = False
            for member_id in self.members:
                active, standby = self.members[member_id][1]
                has_news |= self._beat(member_id, active_tasks=active, standby_tasks=standby, warmup_tasks=())
        assert len({epoch for epoch, _ in self.members.values()}) == 1, "all are at one epoch"

    def one_more(self) -> None:
        self._server.wait()
        self.join((999_999,))
        self.settle()

    def a_quarter_leaves(self) -> None:
        for member_id in list(self.members)[::4]:
            self._ask(member_id, -1)
            del self.members[member_id]
        self.settle()

    def nothing_new(self) -> None:
        for member_id in self.members:
            self._beat(member_id)


def _finish(steps: Steps[Any]) -> Steps[Outcome]:
    return Done((yield from steps))


def _owned_tasks(answer: Any) -> Sequence[Any]:
    return tuple(
        tuple(StreamsGroupHeartbeatRequestTaskIds(each.subtopology_id, each.partitions) for each in listed or ())
        for listed in (answer.active_tasks, answer.standby_tasks)
    )


def measure(server: Deciding | Serving, members: int, sent: StreamsGroupHeartbeatRequestTopology) -> float:
    """Print a line for each phase. Returns the longest decision in milliseconds."""
    group = Group(server, sent)
    phases: dict[str, Callable[[], None]] = {
        "all join": lambda: group.join(range(members)),
        "all settle": group.settle,
        "one more, all settle": group.one_more,
        "a quarter leaves, all settle": group.a_quarter_leaves,
        "all beat, nothing new": group.nothing_new,
    }
    longest_ms = 0.0
    for name, act in phases.items():
        group.longest_ms, before_ms = 0.0, server.used_ms()
        act()
        used_ms, longest_ms = server.used_ms() - before_ms, max(longest_ms, group.longest_ms)
        print(f"{server.name:10} {name:28} {used_ms:8.1f} ms, the longest decision {group.longest_ms:6.1f} ms")
    return longest_ms


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams_groups")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--subtopologies", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--standbys", type=int, default=0)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--beside", metavar="NAME=HOST:PORT@PID", action="append", default=[])
    args = parser.parse_args()
    sent = topology(args.subtopologies, has_stores=args.standbys > 0)
    if not args.server:
        longest_ms = measure(Deciding(args.subtopologies, args.partitions, args.standbys), args.members, sent)
        return 0 if longest_ms <= LONGEST_MS else 1
    settings = ("--no-fast", "--set", "group.streams.initial.rebalance.delay.ms=0")
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data", *settings) as server:
        longest_ms = measure(Serving("muster", server.kafka, server.pid, args.partitions), args.members, sent)
        for beside in args.beside:
            name, _, rest = beside.partition("=")
            address, _, pid = rest.partition("@")
            measure(Serving(name, address, int(pid), args.partitions), args.members, sent)
    return 0 if longest_ms <= LONGEST_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
