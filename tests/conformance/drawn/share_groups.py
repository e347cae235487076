"""Members of share groups that join, beat, leave and fall silent while topics come and go, and the states themselves."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.actors import Sharer
from tests.conformance.drawn.play import Play, versions_of
from tests.conformance.requests import UNKNOWN_ID
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
            self.pause_long: 10 if self.is_late else 0,
        }

    # -- members -------------------------------------------------------------------------------------------------------

    def _beat(self, one: Actor, **values: Any) -> None:
        self.ask(one.line, "share_group_heartbeat", [1], one.heard, **one.known(**values))
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
        names = self.one_of([self.group], [self.group, self.k.name("none")])
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
