"""Members of share groups that join, beat, leave and fall silent while topics come and go, and the states themselves."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.actors import Sharer, subscription
from tests.conformance.drawn.play import Play, versions_of
from tests.conformance.requests import UNKNOWN_ID, commit
from tests.conformance.scenes import join_alone, join_consumer
from tests.conformance.sharing import find_share_coordinators
from tests.conformance.stage import Answer

SESSION_MS, FAR_MS = 20_000, 60_000  # one that a long pause outlasts, one that nothing does
PAUSE_MS = 21_500
SETTLE_MS = 300  # for what Kafka does after an answer: it begins states, or hears of topics
LIST, DESCRIBE = versions_of("list_groups", 0, 5), versions_of("describe_groups", 0, 6)
DELETE, OFFSETS = versions_of("delete_groups", 0, 2), versions_of("describe_share_group_offsets", 0, 1)
WRITE, SUMMARY = versions_of("write_share_group_state", 0, 1), versions_of("read_share_group_state_summary", 0, 1)
STATES = 3  # partitions of the topic whose states are asked for


class Actor(Sharer):
    """A member that knows what a client would do next."""

    topics: tuple[str, ...] = ()

    def heard(self, answer: Answer) -> None:
        """Learn the epoch, and from errors that it must join again."""
        if answer.error_code == "NONE":
            self.epoch = max(answer.member_epoch, 0)
        elif answer.error_code in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"):
            self.epoch = 0


class ShareGroups(Play):
    """Up to four members of one group, up to three topics, and a broker that asks for the states of another group.

    Left out are batches that end before they begin (docs/differences.md).
    """

    server = "share"

    def begin(self) -> None:
        self.group, self.other = self.k.name("g"), self.k.name("h")
        self.is_late = self.is_so(0.4)  # whether sessions may end
        self.k.group_config(self.group, share_session_timeout_ms=SESSION_MS if self.is_late else FAR_MS)
        names = "a" if self.is_so(0.3) else "abcd"[: self.dice.randint(2, 4)]
        self.most = 3 if names == "a" else 1  # who of several gets which of several is by the topics' ids
        self.counts = {"t": self.dice.randint(1, self.most), "u": self.dice.randint(1, self.most), "v": 0}
        for name, count in self.counts.items():
            if count:
                self.k.topic(name, count)
        self.names = [self.k.name(name) for name in self.counts]
        self.actors = [Actor(self.k, name) for name in names]
        self.stated = self.k.topic("s", STATES)
        find_share_coordinators(self.k, self.stated, "h", STATES)
        for name in self.names:
            if name in self.k.topic_ids:
                find_share_coordinators(self.k, name, "g", 3)
        self.is_about_states = self.is_so(0.5)
        self.has_states = False
        self.another: str | None = None  # the kind of another group
        self.has_begun = False  # whether the group has had states

    def moves(self) -> Mapping[Callable[[], None], int]:
        states = 12 if self.is_about_states else 1
        return {
            self.live: 100 if not self.is_about_states else 40,
            self.subscribe: 10,
            self.beat: 12,
            self.leave: 14,
            self.misname: 6,
            self.describe: 12,
            self.list: 6,
            self.describe_otherwise: 3,
            self.describe_offsets: 4,
            self.delete: 4,
            self.make_topic: 5,
            self.delete_topic: 5,
            self.grow_topic: 3,
            self.begin_state: 2 * states,
            self.write_state: 6 * states,
            self.read_state: 3 * states,
            self.summarize_state: 3 * states,
            self.end_state: states,
            self.other_kind: 6,
            self.join_another_kind: 5,
            self.rejoin: 5,
            self.configure: 3,
            self.alter_offsets: 3,
            # of topics of a group that never had states Kafka says nothing (docs/differences.md)
            self.delete_group_offsets: 2 if self.has_begun else 0,
            self.pause_long: 10 if self.is_late else 0,
        }

    # -- members -------------------------------------------------------------------------------------------------------

    def _beat(self, one: Actor, **values: Any) -> None:
        def learn(answer: Answer) -> None:
            one.heard(answer)
            self.has_begun |= bool(answer.assignment and answer.assignment.topic_partitions)

        self.ask(one.line, "share_group_heartbeat", [1], learn, **one.known(**values))
        self.k.pump.run(SETTLE_MS)

    def live(self) -> None:
        """What a client does next."""
        one: Actor = self.one_of(*self.actors)
        if one.epoch == 0:
            one.topics = one.topics or self._topics(1)
            self._beat(one, subscribed_topic_names=list(one.topics))
        else:
            self._beat(one)

    def _topics(self, least: int = 0) -> tuple[str, ...]:
        return tuple(self.some_of(self.names, least)[: 3 if self.most > 1 else 1])

    def subscribe(self) -> None:
        """Change what is subscribed to, or say it again."""
        one: Actor = self.one_of(*self.actors)
        one.topics = self.one_of(one.topics, self._topics(), (*one.topics, *one.topics))
        self._beat(one, subscribed_topic_names=list(one.topics))

    def beat(self) -> None:
        """With an epoch that is not the member's own, or with other fields."""
        one: Actor = self.one_of(*self.actors)
        epochs = {"member_epoch": self.one_of(one.epoch - 1, one.epoch + 1, 0, 1, -2, -1)}
        self._beat(one, **self.one_of(epochs, epochs, {"rack_id": self.one_of("r", "r2", "")}, {"rack_id": None}))

    def leave(self) -> None:
        one: Actor = self.one_of(*self.actors)
        self._beat(one, member_epoch=-1)

    def misname(self) -> None:
        one: Actor = self.one_of(*self.actors)
        wrong = {
            "group_id": self.one_of("", " ", self.k.name("none")),
            "member_id": self.one_of("", "nobody", "x" * 37, "x" * 36),
        }
        name = self.one_of(*wrong)
        known = one.known(**{name: wrong[name]})
        topics = {"subscribed_topic_names": self.one_of(None, [], self.names[:1])} if self.is_so(0.5) else {}
        if known["member_epoch"] > 0 or (name == "group_id" and not wrong[name].strip()):
            self.ask(one.line, "share_group_heartbeat", [1], **{**known, **topics})

    def rejoin(self) -> None:
        """Join as a client that has lost its memory, or its answer."""
        one: Actor = self.one_of(*self.actors)
        topics = self.one_of(list(one.topics), None, [], [self.k.name("none")])
        if topics is not None:
            one.topics = tuple(topics)
        self._beat(one, member_epoch=0, subscribed_topic_names=topics, rack_id=self.one_of(None, "r", ""))

    def other_kind(self) -> None:
        """Ask for the group as a client of another kind of group, or one that only commits."""
        one: Actor = self.one_of(*self.actors)
        member = self.one_of(one.member_id, "nobody", "")
        line, known = self.k.line("stranger"), {"group_id": self.group, "member_id": member}
        part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topic = {"name": self.names[0], "topic_id": self.k.topic_ids[self.names[0]]}
        kind = self.one_of("join", "sync", "beat", "leave", "consumer", "commit", "fetch", "delete", "streams")
        if kind == "join":
            protocols = [{"name": "range", "metadata": subscription(self.names[0])}]
            values = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer"}
            self.ask(line, "join_group", range(10), **known, **values, protocols=protocols)
        elif kind == "sync":
            values = {"generation_id": one.epoch, "protocol_type": "consumer", "protocol_name": "range"}
            self.ask(line, "sync_group", range(6), **known, **values, assignments=[])
        elif kind == "beat":
            self.ask(line, "heartbeat", range(5), **known, generation_id=one.epoch)
        elif kind == "leave":
            members = [{"member_id": member, "group_instance_id": None, "reason": None}]
            self.ask(line, "leave_group", range(6), **known, members=members)
        elif kind == "consumer":
            values = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [self.names[0]], "topic_partitions": []}
            epoch = self.one_of(0, 0, one.epoch, -1)
            self.ask(line, "consumer_group_heartbeat", [1], **{**known, "member_epoch": epoch, **values})
        elif kind == "streams":
            self.ask(line, "streams_group_describe", [0], group_ids=[self.group])
        elif kind == "commit":
            values = {"generation_id_or_member_epoch": self.one_of(-1, one.epoch), "retention_time_ms": -1}
            topics = [{**topic, "partitions": [part]}]
            self.ask(line, "offset_commit", range(2, 11), **known, **values, topics=topics)
        elif kind == "fetch":
            topics = [{**topic, "partition_indexes": [0]}]
            mine = {"group_id": self.group, "topics": self.one_of(topics, None)}
            self.ask(line, "offset_fetch", range(8, 11), groups=[mine], require_stable=self.is_so(0.5))
        else:
            topics = [{**topic, "partitions": [{"partition_index": 0}]}]
            self.ask(line, "offset_delete", [0], group_id=self.group, topics=topics)

    def join_another_kind(self) -> None:
        """Join a group of another kind as a member of a share group, or let that group be."""
        group = self.k.name("o")
        if self.another is None:
            self.another = self.one_of("classic", "consumer", "simple", "empty")
            if self.another == "classic":
                join_alone(self.k, "o", group=group, session_timeout_ms=120_000)
            elif self.another == "consumer":
                join_consumer(self.k, "o", self.names[0], group=group)
            elif self.another == "empty":
                join_alone(self.k, "o", group=group, session_timeout_ms=120_000).leave()
            else:
                commit(self.k.line("o"), group, self.stated)
        one: Actor = self.one_of(*self.actors)
        known = {"group_id": group, "member_id": one.member_id, "member_epoch": self.one_of(0, 0, 1, -1)}
        api = self.one_of("share_group_heartbeat", "share_group_heartbeat", "share_group_describe", "list", "offsets")
        line = self.k.line("stranger")
        if api == "list":
            self.ask(line, "list_groups", LIST, states_filter=[], types_filter=[])
        elif api == "offsets":
            groups = [{"group_id": group, "topics": None}]
            self.ask(line, "describe_share_group_offsets", OFFSETS, groups=groups)
        elif api == "share_group_describe":
            self.ask(line, api, [1], group_ids=[group, self.group])
        else:
            self.ask(line, api, [1], **known, subscribed_topic_names=self.one_of([self.names[0]], None))

    def configure(self) -> None:
        """Change how members are told to beat, or for how long they may be silent, while they are there."""
        values = {"share_heartbeat_interval_ms": self.one_of(5_000, 6_000, 7_000)}
        if not self.is_late and self.is_so(0.3):
            values["share_session_timeout_ms"] = self.one_of(45_000, FAR_MS)
        self.k.group_config(self.group, **values)

    def alter_offsets(self) -> None:
        """Of a group that may have members."""
        topics = [
            {
                "topic_name": name,
                "partitions": [{"partition_index": index, "start_offset": self.one_of(0, -1, 3)} for index in indexes],
            }
            for name, indexes in ((name, self.some_of((0, 1, 7), 1)) for name in self.some_of(self.names, 1))
        ]
        group = self.one_of(*[self.group] * 6, self.k.name("none"), "")
        self.ask(self.k.line("admin"), "alter_share_group_offsets", [0], group_id=group, topics=topics)
        self.k.pump.run(SETTLE_MS)

    def delete_group_offsets(self) -> None:
        topics = [{"topic_name": name} for name in self.some_of([*self.names, self.k.name("none")], 1)]
        group = self.one_of(*[self.group] * 6, self.k.name("none"), "")
        self.ask(self.k.line("admin"), "delete_share_group_offsets", [0], group_id=group, topics=topics)
        self.k.pump.run(SETTLE_MS)

    def pause_long(self) -> None:
        self.pause(PAUSE_MS)

    # -- who looks on --------------------------------------------------------------------------------------------------

    def describe(self) -> None:
        groups = self.one_of([self.group], [self.group], [self.group, self.k.name("none")])
        is_asked = self.is_so(0.2)
        self.ask(
            self.k.line("watch"), "share_group_describe", [1], group_ids=groups, include_authorized_operations=is_asked
        )

    def list(self) -> None:
        states = self.one_of([], ["Stable"], ["empty"], ["Dead"], ["Nonsense", "STABLE"])
        types = self.one_of([], ["share"], ["Share"], ["consumer"])
        self.ask(self.k.line("watch"), "list_groups", LIST, states_filter=states, types_filter=types)

    def describe_otherwise(self) -> None:
        if self.is_so(0.5):
            self.ask(self.k.line("watch"), "describe_groups", DESCRIBE, groups=[self.group])
        else:
            self.ask(self.k.line("watch"), "consumer_group_describe", [0, 1], group_ids=[self.group])

    def describe_offsets(self) -> None:
        """Of all partitions of the group: topics are there, or not."""
        topics = [
            {"topic_name": self.k.name(name), "partitions": list(range(count))}
            for name, count in self.counts.items()
            if count
        ]
        groups = [{"group_id": self.group, "topics": self.one_of(None, topics)}]
        self.ask(self.k.line("watch"), "describe_share_group_offsets", OFFSETS, groups=groups)

    def delete(self) -> None:
        # Kafka fails at one that it could delete beside one that has members (docs/differences.md)
        names = self.one_of([self.group], [self.group, self.k.name("never")], [self.k.name("none")])
        self.has_begun = False
        self.ask(self.k.line("admin"), "delete_groups", DELETE, groups_names=names)

    # -- topics --------------------------------------------------------------------------------------------------------

    def make_topic(self) -> None:
        """Make a topic that is not there: it may have been before."""
        if gone := [name for name, count in self.counts.items() if not count]:
            name = self.one_of(*gone)
            self.counts[name] = self.dice.randint(1, self.most)
            self.k.topic(name, self.counts[name])
            find_share_coordinators(self.k, self.k.name(name), "g", 3)
            self.pause(SETTLE_MS)

    def delete_topic(self) -> None:
        if there := [name for name, count in self.counts.items() if count]:
            name = self.one_of(*there)
            self.counts[name] = 0
            self.k.delete_topic(self.k.name(name))
            self.pause(2 * SETTLE_MS)

    def grow_topic(self) -> None:
        if small := [name for name, count in self.counts.items() if 0 < count < self.most]:
            name = self.one_of(*small)
            self.counts[name] += 1
            self.k.grow_topic(self.k.name(name), self.counts[name])
            self.pause(SETTLE_MS)

    # -- a broker that asks for states ---------------------------------------------------------------------------------

    def _ask_states(self, api: str, versions: Any, **fields: Callable[[], Any]) -> None:
        """Ask for some partitions, each with fields of its own."""
        indexes = self.some_of([*range(STATES), *range(STATES), STATES, -1], 1)[: self.one_of(1, 1, 2)]
        parts = [{"partition": index, **{name: draw() for name, draw in fields.items()}} for index in indexes]
        topic_id = UNKNOWN_ID if self.is_so(0.03) else self.k.topic_id(self.stated)
        group = "" if self.is_so(0.02) else self.other
        topics = [{"topic_id": topic_id, "partitions": parts}]
        self.ask(self.k.line("broker"), api, versions, group_id=group, topics=topics)

    def _begin_first(self) -> bool:
        """Begin the states that there are not, now and then; return whether that was done."""
        if self.has_states or self.is_so(0.2):
            return False
        self.has_states = True
        parts = [
            {"partition": index, "state_epoch": self.one_of(0, 1), "start_offset": self._start()} for index in range(3)
        ]
        topics = [{"topic_id": self.k.topic_id(self.stated), "partitions": parts}]
        line = self.k.line("broker")
        self.ask(line, "initialize_share_group_state", [0], group_id=self.other, topics=topics)
        return True

    def _epoch(self) -> int:
        return int(self.one_of(-1, -1, 0, 1, 1, 2, 3))

    def _start(self) -> int:
        return int(self.one_of(-1, -1, 0, self.dice.randint(0, 30)))

    def begin_state(self) -> None:
        self._ask_states("initialize_share_group_state", [0], state_epoch=self._epoch, start_offset=self._start)

    def write_state(self) -> None:
        if self._begin_first():
            return
        self._ask_states(
            "write_share_group_state",
            WRITE,
            state_epoch=self._epoch,
            leader_epoch=self._epoch,
            start_offset=self._start,
            delivery_complete_count=lambda: self.one_of(-1, 0, 5),
            state_batches=lambda: [self._batch() for _ in range(self.dice.randint(0, 4))],
        )

    def _batch(self) -> dict[str, int]:
        first = self.dice.randint(0, 30)
        return {
            "first_offset": first,
            "last_offset": first + self.one_of(0, 0, 1, 3, 10),
            "delivery_state": self.one_of(0, 2, 4),
            "delivery_count": self.dice.randint(1, 4),
        }

    def read_state(self) -> None:
        if self._begin_first():
            return
        self._ask_states("read_share_group_state", [0], leader_epoch=self._epoch)

    def summarize_state(self) -> None:
        self._ask_states("read_share_group_state_summary", SUMMARY, leader_epoch=self._epoch)

    def end_state(self) -> None:
        self.has_states = False
        self._ask_states("delete_share_group_state", [0])
