"""Simulated members of Kafka Streams applications (KIP-1071), and the applications, of which new versions come."""

from random import Random
from typing import Any, Final

from coordinator.core.kinds.streams.tasks import ROLES
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestCopartitionGroup,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from tests.core.kinds.streams.invariants import Task, tasks_told
from tests.simulation.members import BEAT_MS, COMMIT_MS, REQUEST_MS, RETRY_MS, Member
from tests.simulation.network import Link, Network

REBALANCE_MS: Final = 30_000
PROCESSES: Final = 3  # of an application; its members are dealt to them
GIVES_UP: Final = 0.8  # how likely a member has stopped what it is told to give up by its next heartbeat
HANGS: Final = 0.15  # how likely a member stops nothing, until it has lost its place for that, and joins anew
LOSES: Final = 0.03  # how likely a response with tasks does not reach a member

_Subtopology = StreamsGroupHeartbeatRequestSubtopology
_Topic = StreamsGroupHeartbeatRequestTopicInfo


class Application:
    """What the members of one group run. A deployment replaces it by another topology, which needs a new group."""

    def __init__(self, group: str, dice: Random) -> None:
        self.group = group
        self._dice = dice
        self._version = 0
        self.topology = self._choose()

    def deploy(self) -> None:
        """Have another version from now on."""
        self._version += 1
        self.topology = self._choose()

    def _choose(self) -> StreamsGroupHeartbeatRequestTopology:
        choose = self._dice.choice((_count_words, _count_words, _sum_up, _join))
        return StreamsGroupHeartbeatRequestTopology(self._version, choose(f"{self.group}-{self._version}"))


def _count_words(prefix: str) -> tuple[_Subtopology, ...]:
    """A repartition topic of a fixed size and a store behind it: the source may grow as it likes."""
    repartition, store = f"{prefix}-words-repartition", f"{prefix}-counts-changelog"
    return (
        _Subtopology("0", ("t",), repartition_sink_topics=(repartition,)),
        _Subtopology("1", (), state_changelog_topics=(_Topic(store),), repartition_source_topics=(_Topic(repartition, 4),)),
    )  # fmt: skip


def _sum_up(prefix: str) -> tuple[_Subtopology, ...]:
    """Sources of which one comes and goes, and a repartition topic as large as the largest of them."""
    repartition, store = f"{prefix}-keys-repartition", f"{prefix}-sums-changelog"
    return (
        _Subtopology("0", ("u", "x0"), repartition_sink_topics=(repartition,)),
        _Subtopology("1", (), state_changelog_topics=(_Topic(store),), repartition_source_topics=(_Topic(repartition),)),
    )  # fmt: skip


def _join(prefix: str) -> tuple[_Subtopology, ...]:
    """A join of two topics, which have to be of one size, and something beside it without a state."""
    joined = StreamsGroupHeartbeatRequestCopartitionGroup(source_topics=(0, 1))
    store = _Topic(f"{prefix}-join-changelog")
    return (
        _Subtopology("0", ("t", "u"), state_changelog_topics=(store,), copartition_groups=(joined,)),
        _Subtopology("1", ("t",)),
    )


class StreamsMember(Member):
    """A thread of an application: it gives up what it is told to, perhaps after a while."""

    def __init__(self, name: str, application: Application, network: Network) -> None:
        super().__init__(name, application.group, (), None, network)
        self.application = application
        self.process_id = f"{application.group}-process-{network.dice.randrange(PROCESSES)}"
        self.tasks: frozenset[Task] = frozenset()  # that it runs: those it was given, until it gives them up
        self._has_endpoint = network.dice.random() < 0.5
        self._reset()

    @property
    def epoch(self) -> int:
        return self._epoch

    def start(self) -> None:
        super().start()
        self.member_id = f"{self.name}-{self._network.position()}"
        self._topology, self._hangs = self.application.topology, self._dice.random() < HANGS
        self._reset()
        self._later(self._dice.randint(1, BEAT_MS), self._beat)
        self._later(COMMIT_MS, self._commit_again)

    def crash(self) -> None:
        super().crash()
        self.tasks = frozenset()

    def stop(self) -> None:
        """Leave, as clients do; now and then an application's user stops all of it."""
        if self.is_alive and self._epoch > 0:
            is_last = self._dice.random() < 0.05
            request = StreamsGroupHeartbeatRequest(self.group, self.member_id, -1, shutdown_application=is_last)
            link = Link(self._network, self.name)
            link.ask(request, 0, REQUEST_MS, lambda _: link.close())
        self.crash()

    def _reset(self) -> None:
        self._epoch = self._endpoint_epoch = 0
        self._assigned = self.tasks = frozenset[Task]()
        self._reported: frozenset[Task] | None = None  # what it has said last that it runs
        self._is_asking = False

    def _beat(self) -> None:
        if not self.is_stuck and not self._is_asking:
            if not self._hangs and self._dice.random() < GIVES_UP:
                self.tasks &= self._assigned
            self._is_asking = True
            self._ask(self._heartbeat(), 0, REQUEST_MS, self._beaten)
        self._later(BEAT_MS, self._beat)

    def _heartbeat(self) -> StreamsGroupHeartbeatRequest:
        """Say everything at first and when an answer was lost; later, what it runs if that has changed."""
        is_whole = self._reported is None or self._epoch == 0
        lists: tuple[Any, ...] = (None, None, None)
        if is_whole or self.tasks != self._reported:
            lists = tuple(_task_ids(self.tasks, role) for role in ROLES)
            self._reported = self.tasks
        endpoint = StreamsGroupHeartbeatRequestEndpoint(self.name, 1) if self._has_endpoint else None
        return StreamsGroupHeartbeatRequest(
            self.group,
            self.member_id,
            self._epoch,
            self._endpoint_epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_whole else -1,
            topology=self._topology if self._epoch == 0 else None,
            active_tasks=lists[0],
            standby_tasks=lists[1],
            warmup_tasks=lists[2],
            process_id=self.process_id if is_whole else None,
            user_endpoint=endpoint if is_whole else None,
        )

    def _beaten(self, answer: Any) -> None:
        self._is_asking = False
        if answer is None or (answer.active_tasks is not None and self._dice.random() < LOSES):
            self._reported = None  # as clients do after a timeout
            return
        error = answer.error_code
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self._hangs = False  # two that hang for good would fence each other by turns, and never settle
            self._reset()
        elif error in (ErrorCode.INVALID_REQUEST, ErrorCode.STREAMS_INVALID_TOPOLOGY):
            self._fail()
        elif error:
            self._reported = None
        else:
            self._take(answer)

    def _take(self, answer: Any) -> None:
        self._epoch, self._endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            self._assigned = frozenset(tasks_told(answer))
            self._network.take_tasks(self, self.tasks | self._assigned)
        if any(status.status_code == StatusCode.SHUTDOWN_APPLICATION for status in answer.status):
            self.stop()

    def _fail(self) -> None:
        """End, as an application does on such an error; somebody deletes the group of another version, and starts it."""
        self.crash()
        self._later(RETRY_MS, self._delete_group)
        self._later(BEAT_MS, self.start)

    def _delete_group(self) -> None:
        self._tell(DeleteGroupsRequest((self.group,)), 2)

    def _commit_again(self) -> None:
        if self._epoch > 0 and not self.is_stuck:
            self.owned = {
                (topic, partition)
                for role, number, partition in self.tasks
                if role == "active"
                for each in self._topology.subtopologies
                if each.subtopology_id == number
                for topic in each.source_topics
            }
            self._commit()
        self._later(COMMIT_MS, self._commit_again)


def _task_ids(tasks: frozenset[Task], role: str) -> tuple[StreamsGroupHeartbeatRequestTaskIds, ...]:
    by_number: dict[str, list[int]] = {}
    for _, number, partition in sorted(each for each in tasks if each[0] == role):
        by_number.setdefault(number, []).append(partition)
    return tuple(StreamsGroupHeartbeatRequestTaskIds(number, tuple(listed)) for number, listed in by_number.items())
