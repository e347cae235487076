"""Streams groups at random: what each heartbeat is answered, when the epoch rises and a target comes, and which timers run.

Members come with processes, endpoints and tags, change them, report their tasks or keep silent, and go; topics come, grow, go and
are made again, and the internal ones are created late or not at all; settings change, the server starts again, an operator
interferes. What is told is compared with what a plain reading of the rules says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.assignors.spec import AssignorError
from coordinator.core.events import Cause
from coordinator.core.kinds.registry import KINDS
from coordinator.core.kinds.streams import target
from coordinator.core.kinds.streams.configuration import ConfiguredTopology, configure_topology
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.topology import read_topology, to_record
from coordinator.core.limits import Limits
from coordinator.core.moves import LoseMembers
from coordinator.core.result import CreateTopics, NoteCreatedTopics, Result
from coordinator.core.topics import Topic, Topics
from coordinator.core.verbs import Rebalance, RemoveMember, SetTarget
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestKeyValue,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from tests.core.driver import ShardDriver
from tests.core.kinds.streams.invariants import check
from tests.core.shard_checks import check_shard, check_views

LIVES, STEPS = 60, 100
PART, INFO = StreamsGroupHeartbeatRequestSubtopology, StreamsGroupHeartbeatRequestTopicInfo
PAIR = StreamsGroupHeartbeatRequestKeyValue
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
TOPOLOGY = StreamsGroupHeartbeatRequestTopology(
    3,
    (
        PART("0", ("lines",), repartition_sink_topics=("words", "more")),
        PART(
            "1",
            ("users",),
            state_changelog_topics=(INFO("counts", topic_configs=tuple(PAIR(*pair) for pair in CONFIGS.items())),),
            repartition_source_topics=(INFO("words"), INFO("more", 3)),
        ),
    ),
)
KNOWN = read_topology(to_record(TOPOLOGY))
SOURCES = {"0": ["lines"], "1": ["more", "users", "words"]}  # what each subtopology reads
STREAMS = KINDS["streams"]
LIMITS = Limits(offsets_retention_check_interval_ms=10**12, group_streams_max_size=4)
SESSION_MS = LIMITS.group_streams_session_timeout_ms
REMOVALS = {Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.REBALANCE_TIMED_OUT, Cause.MEMBERS_LOST}
ROLES = ("active", "standby", "warmup")
Tasks = Mapping[str, Mapping[str, frozenset[int]]]  # by role and subtopology
NOTHING: Tasks = {role: {} for role in ROLES}


@dataclass
class Client:
    """What a member believes of itself."""

    name: str
    tasks: Tasks = field(default_factory=lambda: NOTHING)
    endpoint_epoch: int = 0
    beat_ms: int = 0
    owes_until_ms: int | None = None


def plain(tasks: Any) -> dict[str, dict[str, frozenset[int]]]:
    """Tasks of a member or of a target, by role."""
    return {
        role: {number: frozenset(partitions) for number, partitions in getattr(tasks, role).items()} for role in ROLES
    }


def told_tasks(answer: Any) -> Tasks | None:
    listed = [getattr(answer, f"{role}_tasks") for role in ROLES]
    assert all(one is None for one in listed) or None not in listed
    if listed[0] is None:
        return None
    return {
        role: {one.subtopology_id: frozenset(one.partitions) for one in some}
        for role, some in zip(ROLES, listed, strict=True)
    }


def flat(tasks: Tasks) -> set[tuple[str, str, int]]:
    return {(role, number, p) for role, some in tasks.items() for number, parts in some.items() for p in parts}


class Driver(ShardDriver):
    """A shard whose events and wishes for topics are kept until somebody looks."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, Topics([Topic("lines", b"l" * 16, 2), Topic("users", b"u" * 16, 3)]))
        self.events: list[Any] = []
        self.wanted: list[CreateTopics] = []

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        self.events += result.events
        self.wanted += [effect for effect in result.effects if isinstance(effect, CreateTopics)]


class Life:
    """What a seed makes happen."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        limits = replace(
            LIMITS,
            group_streams_initial_rebalance_delay_ms=self.dice.choice((0, 3_000)),
            group_streams_assignment_interval_ms=self.dice.choice((0, 0, 6_000)),
            group_streams_num_standby_replicas=self.dice.choice((0, 1, 2)),
        )
        self.driver = Driver(limits)
        self.ids = 0
        self.begin()

    def begin(self) -> None:
        self.clients: dict[str, Client] = {}
        self.noted: Any = None  # topics, readiness and settings for which the epoch was raised last
        self.delayed_until_ms: int | None = None
        self.shutdown_by: str | None = None

    def play(self) -> None:
        acts: list[Callable[[], None]] = [
            *[self.beat] * 14,
            *[self.join] * 4,
            *[self.create_topics] * 4,
            *[self.change_topics, self.wait, self.wait, self.leave, self.restart, self.interfere, self.force],
            *[self.force_in_vain, self.change_settings, self.end],
        ]
        for _ in range(STEPS):
            act = self.dice.choice(acts)
            if self.delayed_until_ms is not None and self.dice.random() < 0.1:
                act = self.force
            act()
            self.look()

    @property
    def group(self) -> StreamsGroup | None:
        return self.driver.shard.groups.get("app")

    @property
    def limits(self) -> Limits:
        return self.driver.shard.limits

    # -- what always holds ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        group = self.group
        if not isinstance(group, StreamsGroup):
            return
        check(group)
        check_shard(self.driver.shard)
        check_views(self.driver.shard)
        assert set(group.members) == set(self.clients)
        assert group.shutdown_by == self.shutdown_by
        now_ms, delay_ms = self.driver.now_ms, self.delayed_until_ms
        assert group.is_delayed == (delay_ms is not None)
        timers = {(key[0], key[2]): at_ms for key, at_ms in self.driver.shard.timers.items() if key[1] == "app"}
        expected = {("session", name): client.beat_ms + SESSION_MS for name, client in self.clients.items()}
        for name, client in self.clients.items():
            if client.owes_until_ms is not None:
                expected["rebalance", name] = client.owes_until_ms
        if delay_ms is not None:
            expected["initial", ""] = delay_ms
        assert timers == expected and all(at_ms > now_ms for at_ms in timers.values())
        self.look_at_descriptions(group)

    def look_at_descriptions(self, group: StreamsGroup) -> None:
        """Clients and operators see the same as there is."""
        told = self.driver.describe("streams", "app", 0)
        assert (told.group_state, told.group_epoch, told.assignment_epoch) == (
            group.state,
            group.epoch,
            group.assignment_epoch,
        )
        configured, topics = group.configured, self.driver.topics
        counts = {one.name: one for each in told.topology.subtopologies for one in each.state_changelog_topics}
        assert {pair.key: pair.value for pair in counts["counts"].topic_configs} == CONFIGS
        is_ready = configured is not None and configured.is_ready
        assert (counts["counts"].partitions > 0) == is_ready, "sizes are told as soon as they are known"
        views = {view.member_id: view for view in STREAMS.view(group, topics)}
        for one in told.members:
            member = group.members[one.member_id]
            assert told_tasks(one.assignment) == plain(member.assigned)
            assert told_tasks(one.target_assignment) == plain(group.target(one.member_id))
            assert [(tag.key, tag.value) for tag in one.client_tags] == [
                (tag.key, tag.value) for tag in member.metadata.client_tags
            ]
            found: dict[str, set[int]] = {}
            for number, partitions in member.assigned.active.items() if is_ready else ():
                for name in SOURCES[number]:
                    exists = topics[name].partitions if name in topics else 0
                    found.setdefault(name, set()).update(p for p in partitions if p < exists)
            if is_ready:
                assert views[one.member_id].assignment == {name: sorted(ps) for name, ps in found.items() if ps}
            else:
                assert not views[one.member_id].assignment or configured is not None

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """A new member, or one that begins anew."""
        self.ids += 1
        name = self.dice.choice([f"m{self.ids}", f"m{self.ids}", *self.clients])
        topology = TOPOLOGY
        how = self.dice.random() if self.group is not None else 1
        if how < 0.1:
            topology = replace(TOPOLOGY, epoch=self.dice.choice((2, 4)))
        elif how < 0.15:
            topology = replace(TOPOLOGY, subtopologies=TOPOLOGY.subtopologies[:1])
        self.say(name, 0, topology, NOTHING, rebalance_ms=self.dice.choice((9_001, 20_003)), process=self.process(name))

    def beat(self) -> None:
        if not self.clients:
            self.join()
            return
        client = self.dice.choice(list(self.clients.values()))
        assert self.group is not None
        member, how = self.group.members[client.name], self.dice.random()
        epoch = self.dice.choice([*[member.epoch] * 10, member.previous_epoch, member.epoch + 1])
        tasks: Tasks | None = client.tasks
        if epoch == member.previous_epoch and how < 0.5:
            tasks = {**tasks, "active": {**tasks["active"], self.dice.choice("01"): frozenset((0, 1))}}
        elif how < 0.3:
            tasks = None
        elif how < 0.4:
            held = plain(member.pending)
            tasks = {role: {**client.tasks[role], **held[role]} for role in ROLES}
        elif how < 0.5:
            tasks = {**client.tasks, self.dice.choice(ROLES[:2]): {}}
        elif how < 0.55:
            tasks = {**client.tasks, "active": {"0": frozenset((1, 7))}}
        changes: dict[str, Any] = {}
        if self.dice.random() < 0.3:
            tasks = tasks if self.dice.random() < 0.5 else None
            changes = self.dice.choice(
                (
                    *({"rack": "r1"}, {"rack": "r2"}, {"rebalance_ms": 9_001}, {"rebalance_ms": 20_003}),
                    *(
                        {"process": self.process(client.name)},
                        {"tags": {"b": "2", "a": "1"}},
                        {"tags": {}},
                        {"client": "d"},
                    ),
                    *({"endpoint": ("host", 1)}, {"endpoint": (f"host-{client.name}", 2)}, {"host": "/10.0.0.1"}),
                )
            )
        self.say(client.name, max(epoch, 1), None, tasks, shuts_down=self.dice.random() < 0.04, **changes)

    def process(self, name: str) -> str:
        """The process of a member: one of a few at first, one of its own when it changes."""
        known = None if self.group is None else self.group.members.get(name)
        return (
            self.dice.choice(("p", "q", "r"))
            if known is None
            else self.dice.choice((known.process_id, f"of-{name}-{self.ids}"))
        )

    def say(
        self,
        name: str,
        epoch: int,
        topology: StreamsGroupHeartbeatRequestTopology | None,
        tasks: Tasks | None,
        *,
        rebalance_ms: int = -1,
        process: str | None = None,
        rack: str | None = None,
        tags: Mapping[str, str] | None = None,
        endpoint: tuple[str, int] | None = None,
        client: str = "c",
        host: str = "/127.0.0.1",
        shuts_down: bool = False,
    ) -> None:
        """Send a heartbeat, and compare the answer and what has become of the group."""
        before, driver, listed = self.group, self.driver, [None] * 3 if tasks is None else map(ids_of, tasks.values())
        active, standby, warmup = listed
        known = self.clients.get(name, Client(name))
        request = StreamsGroupHeartbeatRequest(
            "app",
            name,
            epoch,
            known.endpoint_epoch if self.dice.random() < 0.9 else 0,
            None,
            rack,
            rebalance_ms,
            topology,
            active,
            standby,
            warmup,
            process,
            None if endpoint is None else StreamsGroupHeartbeatRequestEndpoint(*endpoint),
            None if tags is None else tuple(PAIR(*pair) for pair in tags.items()),
            shutdown_application=shuts_down,
        )
        driver.wanted.clear()
        result = driver.handle(request, driver.call(0, client, host))
        answer = result.response
        error = self.expect_error(before, name, epoch, topology, tasks)
        assert answer.error_code == error
        if error:
            assert self.group is before and not result.records and not result.effects
            return
        group = self.group
        assert isinstance(group, StreamsGroup)
        old = None if before is None else before.members.get(name)
        member = group.members[name]
        self.compare_metadata(
            None if old is None else old.metadata, member.metadata, client, host, rebalance_ms, topology, process, rack,
            tags, endpoint,
        )  # fmt: skip
        configured = configure_topology(KNOWN, driver.topics)
        assert group.configured == configured
        self.compare_epochs(
            before, group, rises=old is None or old.metadata != member.metadata, ready=configured.is_ready
        )
        if not (before and before.members) and self.limits.group_streams_initial_rebalance_delay_ms:
            if self.delayed_until_ms is None:
                self.delayed_until_ms = driver.now_ms + self.limits.group_streams_initial_rebalance_delay_ms
        self.compare_target(before, group)
        self.clients[name] = known
        known.beat_ms = driver.now_ms
        is_owing = member.state.name == "UNREVOKED_TASKS"
        if not is_owing:
            known.owes_until_ms = None
        elif old is None or (old.state, old.assigned, old.pending) != (member.state, member.assigned, member.pending):
            known.owes_until_ms = driver.now_ms + member.metadata.rebalance_timeout_ms
        self.compare_answer(answer, request, known, before, group, tasks, configured)
        missing = {topic.name: topic.partitions for topic in configured.missing}
        asked = [{topic.name: topic.partitions for topic in one.topics} for one in driver.wanted]
        assert asked == ([missing] if missing else [])
        assert all(
            dict(one.configs) == CONFIGS for each in driver.wanted for one in each.topics if one.name == "counts"
        )

    def expect_error(
        self,
        before: StreamsGroup | None,
        name: str,
        epoch: int,
        topology: StreamsGroupHeartbeatRequestTopology | None,
        tasks: Tasks | None,
    ) -> int:
        if before is None and epoch:
            return ErrorCode.GROUP_ID_NOT_FOUND
        old = None if before is None else before.members.get(name)
        if old is None and epoch:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if old is None and before is not None and len(before.members) >= self.limits.group_streams_max_size:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if old is not None and epoch not in (0, old.epoch):
            is_repeated = epoch == old.previous_epoch < old.epoch
            if not is_repeated or tasks is None or not flat(tasks) <= flat(plain(old.assigned)):
                return ErrorCode.FENCED_MEMBER_EPOCH
        if topology is not None and topology != TOPOLOGY and topology.epoch >= TOPOLOGY.epoch:
            return ErrorCode.INVALID_REQUEST
        configured = configure_topology(KNOWN, self.driver.topics)
        counts = {number: each.task_count for number, each in configured.subtopologies.items()}
        are_there = all(p < counts.get(number, 0) for _, number, p in flat(tasks or NOTHING))
        return ErrorCode.NONE if are_there or not configured.is_ready else ErrorCode.INVALID_REQUEST

    def compare_metadata(
        self,
        old: Any,
        found: Any,
        client: str,
        host: str,
        rebalance_ms: int,
        topology: StreamsGroupHeartbeatRequestTopology | None,
        process: str | None,
        rack: str | None,
        tags: Mapping[str, str] | None,
        endpoint: tuple[str, int] | None,
    ) -> None:
        """Compare each field that the heartbeat names; the others stay as they were."""

        def choose(field: str, said: Any, nothing: Any) -> Any:
            return said if said is not None else nothing if old is None else getattr(old, field)

        assert (found.client_id, found.client_host) == (client, host)
        assert found.rebalance_timeout_ms == choose(
            "rebalance_timeout_ms", None if rebalance_ms == -1 else rebalance_ms, -1
        )
        assert found.topology_epoch == choose("topology_epoch", None if topology is None else topology.epoch, -1)
        assert found.process_id == choose("process_id", process, "")
        assert found.rack_id == choose("rack_id", rack, None)
        now_tags = {tag.key: tag.value for tag in found.client_tags}
        assert now_tags == (
            tags if tags is not None else {tag.key: tag.value for tag in old.client_tags} if old else {}
        )
        place = found.user_endpoint and (found.user_endpoint.host, found.user_endpoint.port)
        was = old and old.user_endpoint and (old.user_endpoint.host, old.user_endpoint.port)
        assert place == (endpoint or was)

    def topics_now(self) -> frozenset[Topic]:
        topics = self.driver.topics
        return frozenset(topics[name] for name in KNOWN.required_topics if name in topics)

    def compare_epochs(self, before: StreamsGroup | None, group: StreamsGroup, *, rises: bool, ready: bool) -> None:
        settings = {"num.standby.replicas": str(self.limits.group_streams_num_standby_replicas)}
        now = (self.topics_now(), ready, settings)
        rises = rises or now != self.noted
        assert group.epoch == (1 if before is None else before.epoch) + rises
        if rises:
            self.noted = now
            assert dict(group.settings) == settings
            assert group.validated_epoch == (KNOWN.epoch if ready else -1)

    def compare_target(self, before: StreamsGroup | None, group: StreamsGroup) -> None:
        """A target comes when it is behind the epoch, unless a delay or the interval keeps it."""
        was_epoch, was_ms = (1, 0) if before is None else (before.assignment_epoch, before.assignment_at_ms)
        is_due = self.delayed_until_ms is None and group.epoch > was_epoch and not self.is_within(was_ms)
        expected = (group.epoch, self.driver.now_ms) if is_due else (was_epoch, was_ms)
        assert (group.assignment_epoch, group.assignment_at_ms) == expected

    def is_within(self, assigned_ms: int) -> bool:
        return 0 <= self.driver.now_ms - assigned_ms < self.limits.group_streams_assignment_interval_ms

    def compare_answer(
        self,
        answer: Any,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        before: StreamsGroup | None,
        group: StreamsGroup,
        tasks: Tasks | None,
        configured: ConfiguredTopology,
    ) -> None:
        member = group.members[client.name]
        old = None if before is None else before.members.get(client.name)
        owns = plain(member.assigned)
        assert (answer.member_id, answer.member_epoch) == (client.name, member.epoch)
        if request.shutdown_application and self.shutdown_by is None:
            self.shutdown_by = client.name
        statuses = {StatusCode(one.status_code) for one in answer.status}
        expected = {configured.problem.code} if configured.problem is not None else set()
        if member.metadata.topology_epoch < KNOWN.epoch:
            expected.add(StatusCode.STALE_TOPOLOGY)
        if self.shutdown_by is not None:
            expected.add(StatusCode.SHUTDOWN_APPLICATION)
        if group.is_delayed or group.epoch > group.assignment_epoch:
            expected.add(StatusCode.ASSIGNMENT_DELAYED)
        assert statuses == expected and len(answer.status) == len(statuses)
        for status in answer.status:
            if status.status_code == StatusCode.SHUTDOWN_APPLICATION:
                assert status.status_detail == f"member {self.shutdown_by} asked the whole application to stop"
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                errors = before.creation_errors if before is not None else {}
                told = [name for name in sorted(errors) if f"{name} ({errors[name]})" in status.status_detail]
                assert told == sorted(errors)[:3]
                assert status.status_detail.endswith(f" and {len(errors) - 3} more") == (len(errors) > 3)
        has_changed = owns != (NOTHING if old is None else plain(old.assigned))
        lacks = tasks is not None and not flat(owns) <= flat(tasks)
        is_told = request.member_epoch == 0 or has_changed or lacks
        assert not (group.is_delayed and flat(owns)), "nothing is given out before the delay is over"
        told = told_tasks(answer)
        if told is not None or is_told:
            assert is_told and told == owns
            client.tasks = owns
        epoch = (0 if before is None else before.endpoint_epoch) + (
            is_told and member.metadata.user_endpoint is not None
        )
        is_new = before is None
        assert answer.endpoint_information_epoch == (0 if is_new else epoch) == group.endpoint_epoch
        if epoch == request.endpoint_information_epoch:
            assert answer.partitions_by_user_endpoint is None
        else:
            self.compare_endpoints(answer.partitions_by_user_endpoint, group, configured)
        client.endpoint_epoch = answer.endpoint_information_epoch

    def compare_endpoints(self, told: Any, group: StreamsGroup, configured: ConfiguredTopology) -> None:
        topics = self.driver.topics

        def partitions(tasks: Mapping[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
            return [
                (name, tuple(sorted(tasks[number]))[: topics[name].partitions])
                for number in sorted(tasks)
                if number in configured.subtopologies
                for name in SOURCES[number]
                if name in topics
            ]

        expected = [
            (
                (member.metadata.user_endpoint.host, member.metadata.user_endpoint.port),
                partitions(member.assigned.active),
                partitions(member.assigned.standby),
            )
            for member in group.members.values()
            if member.metadata.user_endpoint is not None
        ]
        assert expected == [
            (
                (one.user_endpoint.host, one.user_endpoint.port),
                [(each.topic, each.partitions) for each in one.active_partitions],
                [(each.topic, each.partitions) for each in one.standby_partitions],
            )
            for one in told
        ]

    # -- members go ----------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        if self.clients:
            name = self.dice.choice(list(self.clients))
            shuts_down = self.dice.random() < 0.2
            if shuts_down and self.shutdown_by is None:
                self.shutdown_by = name
            request = StreamsGroupHeartbeatRequest("app", name, -1, shutdown_application=shuts_down)
            self.remove([name], lambda: self.driver.handle(request, self.driver.call(0)).response.error_code == 0)

    def remove(self, names: list[str], act: Callable[[], bool]) -> None:
        """Let members go: all with one rise of the epoch, which is for the same topics and settings as before."""
        before = self.group
        assert before is not None
        self.driver.events.clear()
        assert act()
        self.note_gone(names)
        group = self.group
        assert group is not None and set(group.members) == set(self.clients) >= set(group.targets)
        assert group.epoch == before.epoch + bool(names)
        kept = ("metadata_hash", "validated_epoch", "settings")
        assert [getattr(group, one) for one in kept] == [getattr(before, one) for one in kept]

    def note_gone(self, names: list[str]) -> None:
        told = [event.member for event in self.driver.events if event.cause in REMOVALS]
        assert sorted(told) == sorted(names)
        for name in names:
            del self.clients[name]
        if names and not self.clients:
            self.shutdown_by = None

    def wait(self) -> None:
        """Sessions end, tasks were not given up in time, the initial delay is over."""
        for _ in range(self.dice.choice((1, 1, 3, 10, 50))):
            at_ms = self.driver.now_ms + 1_000
            before = self.group
            self.driver.events.clear()
            self.driver.advance(at_ms)
            gone = [
                name
                for name, client in self.clients.items()
                if client.beat_ms + SESSION_MS <= at_ms or (client.owes_until_ms or at_ms + 1) <= at_ms
            ]
            self.note_gone(gone)
            if self.delayed_until_ms is not None and self.delayed_until_ms <= at_ms:
                self.end_delay(before)

    def end_delay(self, before: StreamsGroup | None) -> None:
        group, at_ms = self.group, self.delayed_until_ms
        assert before is not None and group is not None and at_ms is not None
        self.delayed_until_ms = None
        age_ms = at_ms - before.assignment_at_ms
        may = not 0 <= age_ms < self.limits.group_streams_assignment_interval_ms
        is_due = bool(before.members) and before.configured is not None and before.epoch > before.assignment_epoch
        assert (group.assignment_at_ms == at_ms) == (is_due and may)

    def end(self) -> None:
        """A group without members ends, or becomes a classic one; now and then one with members is forgotten."""
        if self.group is None or (self.clients and self.dice.random() < 0.7):
            return
        call = self.driver.call(3)
        if not self.clients and self.dice.random() < 0.5:
            offered = (JoinGroupRequestProtocol("range", b""),)
            self.driver.handle(JoinGroupRequest("app", 10_000, 10_000, "", None, "consumer", offered), call)
            self.driver.compact()
            self.driver.log = [entry for entry in self.driver.log if entry[1] is not None]
            self.driver.rebuild()
            assert not isinstance(self.group, StreamsGroup)
        self.driver.forget_group("app")
        self.begin()

    # -- the world around ----------------------------------------------------------------------------------------------

    def create_topics(self) -> None:
        """Create the topics that the group has asked for last, or most of them."""
        topics, errors = self.driver.topics, {}
        for wanted in self.driver.wanted[-1:]:
            for one in wanted.topics:
                if self.dice.random() < 0.8 and one.name not in topics:
                    self.ids += 1
                    topics = topics.with_topic(Topic(one.name, self.ids.to_bytes(16, "big"), one.partitions))
                else:
                    errors[one.name] = "no room"
            if errors and self.dice.random() < 0.3:
                errors |= {f"other{number}": "why" for number in range(self.dice.randint(1, 4))}
            self.driver.handle(NoteCreatedTopics("app", errors), self.driver.call(0))
        self.driver.wanted.clear()
        self.driver.set_topics(topics)

    def change_topics(self) -> None:
        """A topic grows, goes, is made again, or comes back."""
        topics, name, how = (
            self.driver.topics,
            self.dice.choice(sorted({"other", *KNOWN.required_topics})),
            self.dice.random(),
        )
        known = topics.get(name)
        self.ids += 1
        if known is not None and how < 0.3:
            topics = topics.without_topic(name)
        elif known is not None and how < 0.6 and known.partitions < 5:
            topics = topics.with_topic(replace(known, partitions=known.partitions + 1))
        else:
            size = 3 if name != "lines" else 2
            topics = topics.with_topic(Topic(name, self.ids.to_bytes(16, "big"), size))
        for source, size in (("lines", 2), ("users", 3)):
            if source not in topics and self.dice.random() < 0.7:
                topics = topics.with_topic(Topic(source, (self.ids + 10**6 + size).to_bytes(16, "big"), size))
        self.driver.set_topics(topics)

    def change_settings(self) -> None:
        replicas = self.dice.choice((0, 1, 2))
        self.driver.shard.limits = replace(self.limits, group_streams_num_standby_replicas=replicas)
        self.driver.limits = self.driver.shard.limits

    def restart(self) -> None:
        self.driver.rebuild()
        self.driver.load()
        self.delayed_until_ms = self.shutdown_by = None
        for name, client in self.clients.items():
            client.beat_ms, client.owes_until_ms = self.driver.now_ms, None
            assert self.group is not None
            member = self.group.members[name]
            if member.state.name == "UNREVOKED_TASKS":
                client.owes_until_ms = self.driver.now_ms + member.metadata.rebalance_timeout_ms

    def interfere(self) -> None:
        if self.group is None:
            return
        how, call, names = self.dice.random(), self.driver.call(0), list(self.clients)
        if how < 0.3:
            self.remove(names, lambda: not self.driver.handle(LoseMembers("app"), call).response.refusal)
        elif how < 0.7 and names:
            self.remove(names[:1], lambda: not self.driver.handle(RemoveMember("app", names[0]), call).response.refusal)
        else:
            epoch = self.group.epoch
            assert self.driver.handle(RemoveMember("app", "nobody"), call).response.refusal
            answer = self.driver.handle(Rebalance("app"), call).response
            assert (not answer.refusal) == bool(names) == (self.group.epoch > epoch)

    def deal(self) -> tuple[dict[str, dict[str, list[int]]], dict[str, dict[str, list[int]]]]:
        """Each task to one member, and some copies beside other processes."""
        group = self.group
        assert group is not None and group.configured is not None
        active: dict[str, dict[str, list[int]]] = {}
        standby: dict[str, dict[str, list[int]]] = {}
        for number, each in group.configured.subtopologies.items():
            for p in range(each.task_count):
                owner = self.dice.choice(list(group.members.values()))
                active.setdefault(owner.member_id, {}).setdefault(number, []).insert(0, p)
                others = [one for one in group.members.values() if one.process_id != owner.process_id]
                if others and self.dice.random() < 0.4:
                    standby.setdefault(self.dice.choice(others).member_id, {}).setdefault(number, []).insert(0, p)
        return active, standby

    def force(self) -> None:
        """An operator forces a target."""
        group = self.group
        if group is None or group.configured is None or not group.configured.is_ready or not self.clients:
            return
        active, standby = self.deal()
        for some in (*active.values(), *standby.values()):
            for parts in some.values():
                parts.append(parts[0])  # the same once more
        active.setdefault(self.dice.choice(list(self.clients)), {}).setdefault("0", [])
        answer = self.driver.handle(SetTarget("app", freeze(active), freeze(standby)), self.driver.call(0)).response
        assert not answer.refusal
        now = self.group
        assert now is not None and now.epoch == now.assignment_epoch == group.epoch + 1
        for name in self.clients:
            forced = now.target(name)
            for found, dealt in ((forced.active, active), (forced.standby, standby)):
                wanted = {number: tuple(sorted(set(ps))) for number, ps in dealt.get(name, {}).items() if ps}
                assert found == wanted

    def force_in_vain(self) -> None:
        """Targets that no group could follow, or of a topology that is not ready."""
        group = self.group
        if group is None or not self.clients:
            return
        names, why = list(self.clients), "invalid target: "
        if group.configured is None or not group.configured.is_ready:
            verbs = [(SetTarget("app", {names[0]: {"0": (0,)}}), "the topology of group 'app' is not ready")]
        else:
            process = group.members[names[0]].process_id
            beyond = group.configured.subtopologies["0"].task_count
            verbs = [
                (SetTarget("app", {"nobody": {"0": (0,)}}), f"{why}nobody is no member"),
                (SetTarget("app", {names[0]: {"9": (0,)}}), f"{why}there is no task 9_0"),
                (SetTarget("app", {names[0]: {"0": (0, beyond)}}), f"{why}there is no task 0_{beyond}"),
                (SetTarget("app", {names[0]: {"0": (-1,)}}), f"{why}there is no task 0_-1"),
                (SetTarget("app", {}, {names[0]: {"1": (99,)}}), f"{why}there is no task 1_99"),
                (
                    SetTarget("app", {names[0]: {"0": (0,)}}, {names[0]: {"0": (0,)}}),
                    f"{why}process {process} has task 0_0 twice",
                ),
            ]
            other = next((one for one in names if group.members[one].process_id != process), None)
            if other is not None:
                verbs.append(
                    (SetTarget("app", {one: {"0": (0,)} for one in (names[0], other)}), f"{why}task 0_0 is active")
                )
        for verb, refusal in verbs:
            assert self.driver.handle(verb, self.driver.call(0)).response.refusal.startswith(refusal)
            assert self.group is group


def ids_of(tasks: Mapping[str, frozenset[int]]) -> tuple[StreamsGroupHeartbeatRequestTaskIds, ...]:
    return tuple(StreamsGroupHeartbeatRequestTaskIds(number, tuple(sorted(ps))) for number, ps in tasks.items())


def freeze(tasks: Mapping[str, Mapping[str, list[int]]]) -> dict[str, dict[str, tuple[int, ...]]]:
    return {name: {number: tuple(ps) for number, ps in some.items()} for name, some in tasks.items()}


def begin_life(*, delay_ms: int = 0) -> Life:
    """Let a member join a new group, whose topics are there."""
    life = Life(0)
    life.driver.shard.limits = replace(LIMITS, group_streams_initial_rebalance_delay_ms=delay_ms)
    sizes = {"lines": 2, "users": 3, "words": 2, "more": 3, "counts": 3}
    life.driver.set_topics(Topics([Topic(name, name.encode().ljust(16), size) for name, size in sizes.items()]))
    life.say("m", 0, TOPOLOGY, NOTHING, rebalance_ms=9_001, process="p")
    return life


@pytest.mark.parametrize("field", ["task_offsets", "task_end_offsets"])
def test_offsets_of_tasks_are_refused_also_in_a_heartbeat_that_says_nothing_else(field: str) -> None:
    life = begin_life()
    request = StreamsGroupHeartbeatRequest("app", "m", 2, life.clients["m"].endpoint_epoch, **{field: ()})
    answer = life.driver.handle(request, life.driver.call(0)).response
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_an_assignor_that_fails_fails_the_heartbeat_and_the_next_one_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the initial delay ends with it."""

    def fail(spec: Any) -> Any:
        raise AssignorError("no")
        yield

    life = begin_life(delay_ms=3_000)
    with monkeypatch.context() as patch:
        patch.setattr(target, "TASK_ASSIGNORS", {"sticky": fail})
        life.driver.wait(3_000)
        before = life.group
        assert before is not None and not before.is_delayed and before.assignment_epoch < before.epoch
        request = StreamsGroupHeartbeatRequest("app", "m", before.members["m"].epoch)
        result = life.driver.handle(request, life.driver.call(0))
        assert result.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert life.group is before and not result.records and not result.effects
    answer = life.driver.handle(request, life.driver.call(0)).response
    assert not answer.error_code and answer.active_tasks


@pytest.mark.parametrize("first", range(0, LIVES, 20))
def test_whatever_members_do_they_are_told_what_the_rules_say(first: int) -> None:
    for seed in range(first, first + 20):
        Life(seed).play()
