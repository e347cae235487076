"""Streams groups: topologies and their topics, members in several processes, tasks that move, and those that go wrong."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from protocol.java_hash import partition_of
from tests.conformance.actors import Streams
from tests.conformance.drawn.guests import Guests
from tests.conformance.drawn.play import versions_of
from tests.conformance.servers import COMMON, RESTARTING
from tests.conformance.stage import Answer, Line
from tests.conformance.topologies import copartitioned, internal, part, topology

SESSION_MS, FAR_MS = 6_000, 60_000  # one that a long pause outlasts, one that nothing does
PAUSE_MS = 7_500
CREATED_SOON = 3  # the status of internal topics that are missing
CREATION_MS = 4_000
BEAT, DESCRIBE = versions_of("streams_group_heartbeat", 0, 0), versions_of("streams_group_describe", 0, 0)
COMMIT, FETCH = versions_of("offset_commit", 2, 10), versions_of("offset_fetch", 1, 10)
LIST, DELETE = versions_of("list_groups", 0, 5), versions_of("delete_groups", 0, 2)
DESCRIBE_CLASSIC = versions_of("describe_groups", 0, 6)
ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")
Held = dict[str, list[int]]


class Actor(Streams):
    """A member that knows what a client would do next."""

    does_next = "join"
    before: Held  # the active tasks that it had before it was told others, and has not given up

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self.before = {}

    def learn(self, answer: Answer) -> Answer:
        had = self.tasks()
        super().learn(answer)
        error = answer.error_code
        if error in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"):
            self.forget()
        elif error == "NONE":
            self.does_next = "beat"
            if answer.active_tasks is not None and answer.member_epoch > 0:
                self.does_next, self.before = "own", had
        return answer

    def forget(self) -> None:
        self.does_next, self.epoch, self.before = "join", 0, {}
        self.owned = {role: [] for role in ROLES}

    def tasks(self, role: str = "active_tasks") -> Held:
        return {one["subtopology_id"]: list(one["partitions"]) for one in self.owned[role]}

    def left(self, answer: Answer) -> None:
        """Learn from the answer to a leave."""
        if answer.error_code == "NONE":
            self.forget()

    def report(self, kept: Held) -> dict[str, Any]:
        """What it owns by its assignment, and some that it has not given up yet."""
        told = {role: self.tasks(role) for role in ROLES}
        for number, partitions in kept.items():
            active = told["active_tasks"]
            active[number] = [*active.get(number, []), *partitions]
        return {
            role: [{"subtopology_id": number, "partitions": sorted({*has})} for number, has in sorted(tasks.items())]
            for role, tasks in told.items()
        }


class StreamsGroups(Guests):
    """One group, up to four members, its topics, and whoever looks on."""

    server = "streams"
    pause_ms = PAUSE_MS
    kinds = ("classic", "classic", "consumer", "share")
    written = 0  # records of another group

    def begin(self) -> None:
        self.group = self.k.name("g")
        # Kafka fails to list endpoints while topics are missing or do not fit (docs/differences.md): a story has one of both
        self.has_endpoints = self.is_so(0.35)
        # where timers are short, nothing is waited for but in a long pause
        self.is_timed = self.is_so(0.5)
        self.soon_ms = SESSION_MS if self.is_timed else FAR_MS
        self.sources = ["one", "two"][: self.one_of(1, 2, 2)]
        self.sizes = {name: self.dice.randint(1, 4) for name in self.sources}
        self.known = self._topology()
        self.there = set(self.sources)
        if not self.has_endpoints and self.is_so(0.2):
            self.there.discard(self.one_of(*self.sources))
        for name in sorted(self.there):
            self.k.topic(name, self.sizes[name])
        self.asked_standbys = self.one_of(0, 0, 1, 1, 2)
        configs: dict[str, int] = (
            {"streams_session_timeout_ms": SESSION_MS} if self.is_timed and self.is_so(0.6) else {}
        )
        if self.asked_standbys:
            configs["streams_num_standby_replicas"] = self.asked_standbys
        if self.is_timed and self.is_so(0.15):
            name = self.one_of("streams_initial_rebalance_delay_ms", "streams_assignment_interval_ms")
            if self.server not in RESTARTING or "delay" in name:  # a restart takes Kafka as long as such an interval
                configs[name] = SESSION_MS
        if configs:
            self.k.group_config(self.group, **configs)
        self.actors = [self._actor(name) for name in "abcd"[: self.one_of(1, 2, 2, 3, 3, 4)]]

    def _actor(self, name: str) -> Actor:
        return Actor(self.k, name, self.group, process=self.one_of(None, None, "process-a", "process-b"))

    def _topology(self) -> dict[str, Any]:
        """One to three subtopologies, each of which reads sources or what another one repartitions, with or without
        stores. Most of the internal topics are there, and of the right size."""
        self.internals: dict[str, int] = {}
        parts: list[dict[str, Any]] = []
        first = self.some_of(self.sources, 1)
        largest = max(self.sizes[name] for name in first)
        joined = len(first) == 2 and self.is_so(0.4)
        if joined and (self.has_endpoints or self.is_so(0.7)):
            self.sizes = dict.fromkeys(self.sources, largest)
        groups = [copartitioned([0, 1])] if joined else []
        count = self.one_of(1, 1, 2, 2, 3)
        sinks = ["again"] if count > 1 and self.is_so(0.8) else []
        parts.append(self._part("0", first, sinks, [], groups, largest))
        if count > 1 and sinks:
            fixed = 0 if self.has_endpoints else self.one_of(0, 0, 0, 2, 5)
            size = fixed or largest
            self.internals["again"] = size
            more = [self.sources[-1]] if self.is_so(0.25) else []
            fits = not self.has_endpoints or [size] == [self.sizes[one] for one in more]
            joins = [copartitioned([0], [0])] if more and fits and self.is_so(0.5) else []
            sinks = ["more"] if count > 2 and self.is_so(0.6) else []
            repartition = self._internal("again", fixed)
            parts.append(
                self._part("1", more, sinks, [repartition], joins, max(size, *(self.sizes[x] for x in more), 0))
            )
        if count > len(parts):
            repartitions = [self._internal("more", 0)] if sinks == ["more"] else []
            if repartitions:
                size = self.internals["more"] = max(self.internals["again"], *(self.sizes[x] for x in more), 0)
                parts.append(self._part("2", [], [], repartitions, [], size))
            else:
                name = self.sources[-1]
                parts.append(self._part(str(len(parts)), [name], [], [], [], self.sizes[name]))
        for name, size in sorted(self.internals.items()):
            if self.is_timed or self.is_so(0.6):
                right = size if self.has_endpoints or self.is_so(0.9) else size + self.one_of(-1, 1)
                self.k.topic(name, max(1, right))
        self.dice.shuffle(parts)
        return topology(*parts, epoch=self.one_of(0, 0, 3))

    def _part(
        self, number: str, sources: list[str], sinks: list[str], repartitions: list[Any], groups: list[Any], size: int
    ) -> dict[str, Any]:
        logs = [f"log{number}{letter}" for letter in "xy"[: self.one_of(0, 0, 1, 1, 2)]]
        self.internals |= dict.fromkeys(logs, size)
        return part(
            number,
            [self.k.name(one) for one in sources],
            sinks=[self.k.name(one) for one in sinks],
            repartitions=repartitions,
            changelogs=[self._internal(one) for one in logs],
            copartitions=groups,
        )

    def _internal(self, name: str, partitions: int = 0) -> dict[str, Any]:
        configs = self.one_of({}, {"cleanup_policy": "compact"}, {"retention_ms": "-1", "segment_bytes": "2000000"})
        return internal(self.k.name(name), partitions, self.one_of(0, 0, 1), **configs)

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.live: 90,
            self.join: 8,
            self.beat: 12,
            self.change: 7,
            self.leave: 7,
            self.commit: 10,
            self.transact: 2,
            self.fetch: 5,
            self.describe: 14,
            self.list: 3,
            self.delete: 3,
            self.delete_offsets: 3,
            self.move_topics: 8,
            self.set_configs: 3,
            self.visit: 5,
            self.long_pause: 4,
            self.hang_up: 1,
            self.again: 6,
            self.fetch_of_many: 2,
            self.look_elsewhere: 2,
            self.find: 1,
            self.replace_topic: 2,
            self.go_elsewhere: 2,
            **({self.restart: 14, self.long_pause: 1} if self.server in RESTARTING else {}),
        }

    def actor(self) -> Actor:
        one: Actor = self.one_of(*self.actors)
        one.line = self.k.line(one.name)
        return one

    def beat_as(self, one: Actor, learn: Callable[[Answer], Any] | None = None, **values: Any) -> None:
        self._beat(one, learn or one.learn, {**one.identity(), **values})
        if learn is None and values.get("member_epoch") == 0 and one.epoch > 0:
            self.guest = ""  # a stranger who rejoins makes Kafka forget an empty group (docs/differences.md)
            # what Kafka finds out in a group's first heartbeat it forgets (docs/differences.md)
            self._beat(one, one.learn, one.identity())

    def _beat(self, one: Actor, learn: Callable[[Answer], Any], values: Mapping[str, Any]) -> Answer:
        """Send a heartbeat, and wait until the broker has made the internal topics that it says are missing."""
        said: list[Answer] = []

        def hear(answer: Answer) -> None:
            learn(answer)
            said.append(answer)

        self.ask(one.line, one.API, BEAT, hear, **values)
        if any(status.status_code == CREATED_SOON for status in said[0].status or ()):
            self.await_internals()
        return said[0]

    def await_internals(self) -> None:
        topics = [{"name": self.k.name(name)} for name in sorted(self.internals)]
        for _ in range(CREATION_MS // 100):
            found = self.k.line("stage").quietly("metadata", 12, topics=topics, allow_auto_topic_creation=False)
            if all(topic.error_code == "NONE" for topic in found.topics):
                break
            self.k.pump.run(100)
        self.k.pump.run(self.k.settle_ms)

    def write_elsewhere(self) -> None:
        """Let other groups of the same partitions write: Kafka describes sizes as they were at their last record."""
        for group in (self.group, self.k.name("h")):
            self._write_beside(group)

    def _write_beside(self, group: str) -> None:
        partitions = int(COMMON["offsets.topic.num.partitions"])
        number = partition_of(group, partitions)
        names = (f"beside {self.k.prefix}{n}" for n in count())
        group = next(name for name in names if partition_of(name, partitions) == number)
        self.written += 1
        known = {"group_id": group, "member_id": f"m{self.written}", "member_epoch": 0, "rebalance_timeout_ms": FAR_MS}
        values = {**known, "subscribed_topic_names": ["none"], "topic_partitions": []}
        self.k.line("stage").quietly("consumer_group_heartbeat", 1, **values)

    def live(self) -> None:
        """What a client does next."""
        one = self.actor()
        if one.does_next == "join":
            self.beat_as(one, **self.joining(one))
        elif one.does_next == "own" and self.is_so(0.9):
            # who reports less than it is assigned is told again, which Kafka does not (docs/differences.md)
            kept = {number: self.some_of(sorted(has)) for number, has in sorted(one.before.items())}
            one.before = kept if self.is_so(0.2) else {}
            one.does_next = "own" if any(one.before.values()) else "beat"
            self.beat_as(one, **one.report(one.before))
        else:
            self.beat_as(one, **(one.report(one.before) if self.is_so(0.3) else {}))

    def joining(self, one: Actor) -> dict[str, Any]:
        values = {**one.joining(self.known), "rebalance_timeout_ms": self.one_of(self.soon_ms, FAR_MS)}
        if self.is_so(0.3):
            values |= self._draw_details()
        return values

    def _draw_details(self) -> dict[str, Any]:
        """Return something that a member says of itself."""
        tags = self.one_of([], [{"key": "zone", "value": "z"}], [{"key": "b", "value": ""}, {"key": "a", "value": "x"}])
        told: list[dict[str, Any]] = [
            {"rack_id": self.one_of("r1", "r2")},
            {"client_tags": tags},
            {"process_id": self.one_of("process-a", "process-z", "", None)},
            {"rebalance_timeout_ms": self.one_of(self.soon_ms, FAR_MS)},
        ]
        if self.has_endpoints:
            told += 4 * [{"user_endpoint": {"host": self.one_of("h1", "h2"), "port": self.one_of(1, 65535)}}]
        one: dict[str, Any] = self.one_of(*told)
        return one

    def join(self) -> None:
        """Join, or join again, with something else than the others, or not all of it."""
        one = self.actor()
        values = self.joining(one)
        changed = {**self.known}
        parts = [dict(each) for each in changed["subtopologies"]]
        which: dict[str, Any] = self.one_of(*parts)
        name = self.k.name
        changes = ["epoch", "earlier", "config", "order", "null", "task", "name", "pattern"]
        if not self.has_endpoints or any(each.does_next != "join" for each in self.actors):
            changes += ["source", "copartition", "log", "none"]
        change = self.one_of(*changes)
        if change == "epoch":
            changed["epoch"] += self.one_of(1, 5)
        elif change == "earlier":
            changed["epoch"] = max(0, changed["epoch"] - self.one_of(1, 2))
        elif change == "source":
            more = [name(one) for one in (*self.sources, "never") if name(one) not in which["source_topics"]]
            which["source_topics"] = [*which["source_topics"], self.one_of(*more)]
        elif change == "config" and which["state_changelog_topics"]:
            logs = [{**each, "topic_configs": []} for each in which["state_changelog_topics"]]
            which["state_changelog_topics"] = logs
        elif change == "order":
            which["source_topics"] = which["source_topics"][::-1]
            parts.reverse()
        elif change == "copartition" and which["source_topics"]:
            which["copartition_groups"] = [*which["copartition_groups"], copartitioned([0])]
        elif change == "log":
            which["state_changelog_topics"] = self.one_of([], [internal(name("log0x"), self.one_of(0, 2))])
        elif change == "name":
            bad = self.one_of("", "..", "a b", "__consumer_offsets", "x" * 250)
            which[self.one_of("source_topics", "repartition_sink_topics")] = [bad]
        elif change == "pattern":
            which["source_topic_regex"] = ["o.*"]
        elif change == "none":
            parts = self.one_of([], [part("0")])
        changed["subtopologies"] = parts
        values["topology"] = None if change == "null" else changed
        if change == "task":
            values |= self._bad_tasks()
        values |= self.one_of(*[{}] * 6, *self._oddities())
        self.beat_as(one, **values)

    def _oddities(self) -> list[dict[str, Any]]:
        """Return fields by which a heartbeat is wrong in any state of the member."""
        blanks = [{field: self.one_of("", " ")} for field in ("member_id", "group_id", "instance_id", "rack_id")]
        return [
            *blanks,
            {"instance_id": "one"},
            {"warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
            {"task_offsets": []},
            {"task_end_offsets": [{"subtopology_id": "0", "partition": 0, "offset": 1}]},
            {"rebalance_timeout_ms": -1},
            {"member_epoch": self.one_of(-2, -3)},
            {"process_id": None, "client_tags": None},
        ]

    def _bad_tasks(self) -> dict[str, Any]:
        number, partitions = self.one_of(("9", [0]), ("0", [7]), ("0", [-1]), ("9", []), ("2", [0, 5]))
        listed = [{"subtopology_id": number, "partitions": partitions}]
        roles: dict[str, Any] = {role: [] for role in ROLES}
        return {**roles, self.one_of(*ROLES[:2]): listed}

    def beat(self) -> None:
        """A heartbeat with the wrong epoch, of somebody else, of another group, with lists that cannot be."""
        one = self.actor()
        other = self.one_of(*self.actors)
        values: dict[str, Any] = self.one_of({}, {}, one.report(one.before))
        listed = self.one_of(*ROLES)
        wrong: list[dict[str, Any]] = [
            {"member_epoch": one.epoch + 1},
            *2 * [{"member_epoch": max(1, one.epoch - 1)}],
            {"member_epoch": max(1, one.epoch - 2)},
            {"member_epoch": 99},
            {"member_id": self.one_of("nobody", other.member_id)},
            {"group_id": self.k.name("h")},
            {"topology": self.known},
            {role: [] if role == listed else None for role in ROLES},
            {"endpoint_information_epoch": self.one_of(-1, 0, one.endpoint_epoch + 1)},
            self._bad_tasks() if one.epoch else {},
            *self._oddities(),
        ]
        values |= self.one_of(*wrong)
        if (
            values.get("member_id") == other.member_id
            and values.get("active_tasks") != other.report({})["active_tasks"]
        ):
            values = {"member_id": other.member_id}  # who reports less is told again: see `live`
        self.beat_as(one, **values)

    def change(self) -> None:
        """Say something new of itself, or ask all to stop."""
        one = self.actor()
        if one.does_next == "join":  # who asks so with the group's first join is heard here (docs/differences.md)
            self.live()
            return
        said = {"shutdown_application": True} if self.is_so(0.15) else self._draw_details()
        if "user_endpoint" in said:  # who is behind is told its former one by Kafka (docs/differences.md)
            self.beat_as(one)
        if one.does_next != "join":
            self.beat_as(one, **said)

    def leave(self) -> None:
        one = self.actor()
        values: dict[str, Any] = {"member_epoch": self.one_of(*[-1] * 6, -2, -3)}
        if one.does_next == "join":  # a stranger stops nobody here (docs/differences.md)
            values |= self.one_of({}, {"member_id": "nobody"}, {"group_id": self.k.name("h")})
        elif self.is_so(0.2):
            self.beat_as(one)
            values["shutdown_application"] = one.does_next != "join"
        self.beat_as(one, one.left if values["member_epoch"] == -1 else one.learn, **values)

    def commit(self) -> None:
        one = self.actor()
        known: dict[str, Any] = {"group_id": self.group, "member_id": one.member_id, "group_instance_id": None}
        known["generation_id_or_member_epoch"] = self._epoch(one)
        if self.is_so(0.1):
            known["member_id"] = self.one_of("", "nobody", self.one_of(*self.actors).member_id)
        if self.is_so(0.1):  # outside of the group
            known |= {"generation_id_or_member_epoch": -1, "member_id": ""}
        if self.is_so(0.05):
            known["group_id"] = self.k.name("h")
        topics = [self._make_topic(one, known["generation_id_or_member_epoch"])]
        versions = self.one_of([9], [9], [10], COMMIT)
        self.ask(one.line, "offset_commit", versions, **{**known, "topics": topics, "retention_time_ms": -1})

    def _epoch(self, one: Actor) -> Any:
        return self.one_of(*[one.epoch] * 6, *[one.epoch - 1] * 3, one.epoch - 2, one.epoch + 1, 1, -1, 0)

    def _make_topic(self, one: Actor, epoch: int) -> dict[str, Any]:
        """Return a topic with offsets, most often of partitions whose tasks the member has."""
        is_too_long = epoch >= 0 and self.is_so(0.2)  # without one Kafka would make a group of it (docs/differences.md)
        held = sorted({partition for has in one.tasks().values() for partition in has})
        parts = [
            {
                "partition_index": index,
                "committed_offset": self.one_of(0, 1, 5, 1 << 40),
                "committed_leader_epoch": self.one_of(-1, 0, 7),
                "committed_metadata": self.one_of("", "text", None, *["x" * 5000] * is_too_long),
            }
            for index in self.some_of(self.one_of(held or [0], held or [0], [0, 1, 2]), 1)
        ]
        names = [*self.sources] * 3 + [*self.internals, "other"]
        short = self.one_of(*names)
        return {**self._ids(short), "partitions": parts}

    def offsets_of_member(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        one = self.actor()
        epoch = self._epoch(one)
        known = {"member_id": one.member_id, "generation_id": epoch, "group_instance_id": None}
        return known, [self._make_topic(one, epoch)]

    def may_repeat(self, api: str, values: Mapping[str, Any]) -> bool:
        """A stranger stops nobody here (docs/differences.md), and one whose epoch was taken back is told again."""
        return super().may_repeat(api, values) and not values.get("shutdown_application")

    def repeat(self, line: Line, api: str, version: int, values: dict[str, Any]) -> None:
        if api != Actor.API:
            super().repeat(line, api, version, values)
        elif one := next((one for one in self.actors if one.member_id == values["member_id"]), None):
            told = values.get("active_tasks")
            # who reports less than it is assigned is told again, and its new endpoint, which Kafka does not (docs/differences.md)
            is_less = told is not None and told != one.report({})["active_tasks"]
            if values["member_epoch"] > 0 and (is_less or "user_endpoint" in values):
                return
            one.line = line
            self.beat_as(one, **values)
            if values["member_epoch"] < 0:
                one.forget()

    def _ids(self, short: str) -> dict[str, Any]:
        """The name and the id of a topic, of which a version has one."""
        name = self.k.name(short)
        return {"name": name, "topic_id": self.k.topic_ids.get(name, "11111111-1111-1111-1111-111111111111")}

    def fetch(self) -> None:
        indexes = self.some_of((0, 1, 2, 3))
        short = self.one_of(*self.sources, *self.sources, *self.internals)
        names = [{**self._ids(short), "partition_indexes": indexes}]
        topics = self.one_of(names, names, names, None)
        group = self.one_of(*[self.group] * 5, self.k.name("h"))
        versions = FETCH if topics is not None else range(2, 11)
        values: dict[str, Any] = {"require_stable": self.is_so(0.5)}
        if (version := self.dice.choice(versions)) >= 8:
            one: dict[str, Any] = {"group_id": group, "topics": topics}
            if version >= 9 and self.is_so(0.5):
                actor = self.actor()
                one |= {"member_id": self.one_of(actor.member_id, actor.member_id, "nobody", None)}
                one |= {"member_epoch": self.one_of(actor.epoch, actor.epoch, actor.epoch - 1, actor.epoch + 1, -1)}
            values["groups"] = [one]
        else:
            values |= {"group_id": group, "topics": topics}
        self.ask(self.k.line("watch"), "offset_fetch", [version], **values)

    def describe(self) -> None:
        self.write_elsewhere()
        if self.is_so(0.85):
            groups = self.names()
            values = {"group_ids": groups, "include_authorized_operations": self.is_so(0.2)}
            self.ask(self.k.line("watch"), "streams_group_describe", DESCRIBE, **values)
        elif self.is_so(0.4):
            self.ask(self.k.line("watch"), "describe_groups", DESCRIBE_CLASSIC, groups=self.names())
        else:
            api = self.one_of("consumer_group_describe", "share_group_describe")
            self.ask(self.k.line("watch"), api, [1], group_ids=[self.group])

    def list(self) -> None:
        # a filter finds NotReady by its own name here alone (docs/differences.md)
        states = self.one_of(
            *[[]] * 4, ["Stable"], ["stable", "Empty"], ["Reconciling"], ["Assigning"], ["Dead"], ["x"]
        )
        types = self.one_of(*[[]] * 4, ["streams"], ["Streams", "classic"], ["consumer"], ["nonsense"])
        self.ask(self.k.line("watch"), "list_groups", self.one_of(LIST, [5]), states_filter=states, types_filter=types)

    def delete(self) -> None:
        self.ask(self.k.line("admin"), "delete_groups", DELETE, groups_names=self.names())

    def delete_offsets(self) -> None:
        parts = [{"partition_index": index} for index in self.some_of((0, 1, 2), 1)]
        short = self.one_of(*self.sources, *self.internals, "other")
        topics = [{"name": self.k.name(short), "partitions": parts}]
        self.ask(self.k.line("admin"), "offset_delete", [0], group_id=self.group, topics=topics)

    def move_topics(self) -> None:
        """A topic comes, grows or goes, and the coordinator hears of it."""
        k = self.k
        missing = [name for name in self.sources if name not in self.there]
        if missing:
            name = self.one_of(*missing)
            k.topic(name, self.sizes[name])
            self.there.add(name)
        elif self.has_endpoints or self.is_so(0.4):
            k.topic(self.one_of("other", "elsewhere"))
        elif self.is_so(0.5):
            name = self.one_of(*self.sources)
            self.sizes[name] += 1
            k.grow_topic(k.name(name), self.sizes[name])
        elif self.internals and not self.is_timed and self.is_so(0.5):
            self.move_internal(k.name(self.one_of(*self.internals)))
        else:
            name = self.one_of(*self.sources)
            k.delete_topic(k.name(name))
            self.there.discard(name)
        k.pump.run(k.settle_ms)

    def replace_topic(self) -> None:
        """A source is deleted and made anew, most often of another size, while nobody asks."""
        if there := sorted(self.there):
            name = self.one_of(*there)
            self.k.delete_topic(self.k.name(name))
            if not self.has_endpoints:
                self.sizes[name] = self.dice.randint(1, 4)
            self.k.topic(name, self.sizes[name])
            self.k.pump.run(self.k.settle_ms)

    def go_elsewhere(self) -> None:
        """A member of this group is, or tries to be, one of another group as well."""
        one = self.actor()
        values = self.one_of(self.joining(one), {"member_epoch": -1}, {"member_epoch": one.epoch})
        said = {**one.identity(), **values, "group_id": self.k.name("h")}
        answer = self._beat(one, id, said)
        if said["member_epoch"] == 0 and answer.error_code == "NONE":
            # what Kafka finds out in a group's first heartbeat it forgets (docs/differences.md)
            known = {"group_id": said["group_id"], "member_epoch": answer.member_epoch}
            self._beat(one, id, {**one.identity(), **known})

    def move_internal(self, name: str) -> None:
        """Somebody deletes a repartition topic or changelog, or lets it grow."""
        described = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        (found,) = self.k.line("stage").quietly("metadata", 12, **described).topics
        if found.error_code == "NONE" and self.is_so(0.5):
            self.k.grow_topic(name, len(found.partitions) + 1)
        elif found.error_code == "NONE":
            self.k.delete_topic(name)

    def set_configs(self) -> None:
        if self.is_so(0.25):
            self.unset_configs("streams_num_standby_replicas", "streams_heartbeat_interval_ms")
            return
        configs = self.one_of(
            {"streams_num_standby_replicas": self.one_of(0, 1, 2)},
            {"streams_num_standby_replicas": self.one_of(0, 1, 2)},
            {"streams_heartbeat_interval_ms": self.one_of(1000, 3000)},
            {"streams_session_timeout_ms": self.one_of(self.soon_ms, 50_000)},
        )
        self.k.group_config(self.group, **configs)

    def long_pause(self) -> None:
        self.pause(self.pause_ms)

    def hang_up(self) -> None:
        self.actor().line.close()


class StreamsGroupsRestarted(StreamsGroups):
    """The same on a broker that is restarted meanwhile."""

    server = "streams-restart"


class StreamsGroupsExpiry(StreamsGroups):
    """The same where offsets expire after a minute, which the second of two pauses outlasts."""

    server = "streams-expiry"
    pause_ms = 40_000
