"""Groups of the new protocol (KIP-848): members that join, own, subscribe otherwise, leave, are late, and commit."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.actors import Modern
from tests.conformance.drawn.guests import Guests
from tests.conformance.drawn.play import versions_of
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.servers import RESTARTING
from tests.conformance.stage import Answer, Line, Stage

BEAT, LEAVE = versions_of("consumer_group_heartbeat", 0, 1), versions_of("leave_group", 0, 5)
COMMIT, FETCH = versions_of("offset_commit", 2, 10), versions_of("offset_fetch", 1, 10)
DESCRIBE, LIST = versions_of("consumer_group_describe", 0, 1), versions_of("list_groups", 0, 5)
DESCRIBE_CLASSIC, DELETE = versions_of("describe_groups", 0, 6), versions_of("delete_groups", 0, 2)

SHORT_MS, FAR_MS = (
    6_000,
    60_000,
)  # a timeout that two halves of a pause outlast, and one does not; one that nothing does
HALF_MS = 4_000
PAUSE_MS = 11_000  # a group resolves its patterns once in ten seconds at most
RESOLVED_MS = 150  # it takes Kafka no longer to resolve them, in a thread of its own
Parts = dict[str, list[int]]  # by topic id


class Actor(Modern):
    """A member that knows what a client would do next."""

    def __init__(self, k: Stage, name: str, **values: Any) -> None:
        self.joining: dict[str, Any] = values.pop("joining")
        super().__init__(k, name, **values)
        self.is_in, self.is_told = False, False
        self.epochs = [0]

    def learn(self, answer: Answer) -> Answer:
        if answer.error_code == "NONE" and answer.member_epoch >= 0:
            super().learn(answer)
            self.is_in = True
            self.is_told = self.is_told or answer.assignment is not None
            self.epochs.append(self.epoch)
        elif answer.error_code in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            self.forget()
        return answer

    def left(self, answer: Answer) -> None:
        if answer.error_code == "NONE":
            self.forget()

    def forget(self) -> None:
        self.epoch, self.owned, self.is_in, self.is_told = 0, [], False, False

    def identity(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }


class Consumer(Guests):
    """One group, up to four members, two topics that may grow or go, and whoever looks on."""

    half_ms = HALF_MS
    kinds = ("share", "streams")  # a classic member would join: tests/conformance/drawn/migration.py

    server = "range"

    def begin(self) -> None:
        self.group = self.k.name("g")
        self.sizes = {self.k.topic("t", size := self.dice.randint(1, 4)): size, self.k.topic("u", 3): 3}
        self.topic, self.other = self.sizes
        self.has_interval = False
        self.later = 0  # topics that were created meanwhile
        # Which topic comes first is a matter of ids for uniform if members have two in common, and not for range.
        self.is_range = self.is_so(0.5)
        self.has_regex = self.is_range and self.is_so(0.4)
        names = "abcd"[: self.dice.randint(1, 4)]
        self.actors: list[Actor] = []
        for name in names:
            self.actors.append(self._actor(name, is_alone=len(names) == 1))
        if self.is_so(0.5):
            self._configure(consumer_session_timeout_ms=SHORT_MS)
        if not self.has_regex and self.is_so(0.1):
            self._configure(consumer_assignment_interval_ms=SHORT_MS)
            self.has_interval = True

    def _actor(self, name: str, *, is_alone: bool) -> Actor:
        instance = self.one_of(None, None, None, f"i-{name}", "i-a")
        version = 1 if self.has_regex else self.one_of(0, 1, 1, 1)
        # Another vote begins a new epoch here (docs/differences.md): each keeps its own, and the topics change with it.
        # A tie of votes is decided by the order of a map in Kafka.
        assignor = None if self.is_range else self.one_of("uniform", "uniform", None)
        if instance == "i-a" and self.actors:
            instance = self.actors[0].instance
            assignor = self.actors[0].joining["server_assignor"] if instance else assignor
        joining = {
            "member_epoch": 0,
            "rebalance_timeout_ms": self.one_of(SHORT_MS, FAR_MS),
            "rack_id": self.one_of(None, None, "r1"),
            "server_assignor": assignor,
            "topic_partitions": [],
            **self._topics(name == "a"),
        }
        # The server names a member that has no id by chance, and assigns in the order of such names.
        nobody = is_alone and version == 0 and self.is_so(0.7)
        member_id = "" if nobody else f"member-{name}"
        return Actor(self.k, name, instance=instance, version=version, member_id=member_id, joining=joining)

    def _topics(self, is_first: bool) -> dict[str, Any]:
        """What to subscribe to. Of those that are assigned uniformly, only the first member takes two."""
        one, two, none = self.topic, self.other, self.k.name("none")
        few = self.one_of([one], [one], [one], [two], [one, none], [none], *[[]] * self.is_range)
        many = self.one_of([one], [one, two], [two, one], [two], [one, two, none])
        names = self.one_of(few, many) if self.is_range or is_first else few
        if not self.has_regex or self.is_so(0.3):
            return {"subscribed_topic_names": names}
        pattern = self.one_of("t.*", "[tu]", "u|later-.*", "later-[0-9]", "nothing", ".*")
        return {
            "subscribed_topic_names": self.one_of(None, None, [], [one]),
            "subscribed_topic_regex": "" if self.is_so(0.1) else self.k.name(f"({pattern})"),
        }

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.live: 90,
            self.join: 6,
            self.beat: 8,
            self.own: 8,
            self.resubscribe: 6,
            self.leave: 8,
            self.remove: 3,
            self.commit: 12,
            self.fetch: 7,
            self.look: 10,
            self.look_as_before: 2,
            self.list: 3,
            self.delete: 3,
            self.delete_offsets: 4,
            self.grow: 2,
            self.delete_topic: 1,
            self.create_topic: 2,
            self.configure: 2,
            self.long_pause: 5,
            self.again: 6,
            self.transact: 4,
            self.fetch_of_many: 2,
            self.visit: 3,
            self.look_elsewhere: 2,
            self.find: 1,
            self.replace_topic: 1,
            self.come_back: 5,
            **({self.restart: 14, self.long_pause: 1} if self.server in RESTARTING else {}),
        }

    def actor(self) -> Actor:
        """Return somebody, now and then on another connection, and so with another client id."""
        one: Actor = self.one_of(*self.actors)
        one.line = self.k.line(one.name if self.is_so(0.95) else f"{one.name}2")
        return one

    def member(self) -> Actor:
        """Return somebody, rather one who is in the group."""
        if (within := [one for one in self.actors if one.is_in]) and self.is_so(0.9):
            one: Actor = self.one_of(*within)
            one.line = self.k.line(one.name)
            return one
        return self.actor()

    def identity(self, one: Actor) -> dict[str, Any]:
        """Return the identity of a member, now and then with a field of another one."""
        known = one.identity()
        other = self.one_of(*self.actors)
        if self.is_so(0.2):
            known["member_epoch"] = self.one_of(one.epoch + 1, one.epoch - 1, *one.epochs[-3:], 99, other.epoch, 0)
        if (
            known["member_epoch"] == 0
        ):  # Kafka keeps the former instance id of a member that joins again with another one
            if self.is_so(0.1):
                known["instance_id"] = instance = self.one_of(None, other.instance, "i-nobody")
                known["member_id"] = f"nobody {instance}"
            if self.is_so(0.05):  # a member of another group as well
                known["group_id"] = self.k.name("h")
            return known
        if self.is_so(0.08):
            known["member_id"] = self.one_of("", " ", "nobody", other.member_id)
        if self.is_so(0.12):
            known["instance_id"] = self.one_of(None, other.instance, "i-nobody", "")
        if self.is_so(0.03):
            known["group_id"] = self.one_of("", self.k.name("h"))
        return known

    def _beat(self, one: Actor, learn: Callable[[Answer], Any], **values: Any) -> None:
        """Send a heartbeat. What it says of a member that is not its own teaches it nothing."""
        if not self._is_steady(values):
            return
        is_own = values["member_id"] == one.member_id and values["group_id"] == one.group
        version = one.version if self.is_so(0.95) else self.one_of(*BEAT)
        self.ask(one.line, "consumer_group_heartbeat", [version], learn if is_own else id, **values)
        if self.has_regex:
            self.k.pump.run(RESOLVED_MS)

    def _is_steady(self, values: Mapping[str, Any]) -> bool:
        """Leave out what docs/differences.md lists: a target that falls due by a subscription that begins no epoch, and one
        for a group that was empty and has an interval between targets.
        """
        begins_none = values.get("subscribed_topic_regex") or values.get("subscribed_topic_names") == []
        if not begins_none and not self.has_interval:
            return True
        found = describe_quietly(self.k, self.group)
        if found.group_state == "Empty":
            return not self.has_interval
        return bool(found.group_epoch == found.assignment_epoch or not begins_none)

    def live(self) -> None:
        """What a client does next."""
        self._live(self.actor())

    def _live(self, one: Actor) -> None:
        if not one.is_in:
            self._beat(one, one.learn, **{**one.identity(), **one.joining})
        elif one.is_told:
            one.is_told = False
            self._beat(one, one.learn, **one.identity(), topic_partitions=owned(one))
        else:
            self._beat(one, one.learn, **one.identity())

    def join(self) -> None:
        """Join, or join again, with some field that may be wrong."""
        one = self.actor()
        one.forget()
        values = {**one.joining, **self.identity(one), "member_epoch": 0}
        unknown = [{"topic_id": UNKNOWN_ID, "partitions": [0]}]
        wrong: list[dict[str, Any]] = [
            {"rebalance_timeout_ms": -1},
            {"topic_partitions": None},
            {"topic_partitions": unknown},
            {"topic_partitions": owned(one)},
            {"subscribed_topic_names": None, "subscribed_topic_regex": None},
            {"server_assignor": self.one_of("nonsense", "")},
            {"rack_id": ""},
            {"subscribed_topic_regex": self.one_of("(", "(?=x)")},
            {"subscribed_topic_names": [self.topic, self.topic]},
            {"subscribed_topic_names": ["", "a b", "x" * 300, *(values["subscribed_topic_names"] or ())]},
            {"subscribed_topic_names": [*(values["subscribed_topic_names"] or ()), "__consumer_offsets"]},
            {"member_id": "x" * 40},
        ]
        self._beat(one, one.learn, **{**values, **(self.one_of(*wrong) if self.is_so(0.5) else {})})

    def beat(self) -> None:
        one = self.member()
        self._beat(one, one.learn, **self.identity(one))

    def own(self) -> None:
        """Tell that it owns what it was told, some of it, all that there is, or what nobody can own."""
        one = self.member()
        mine = [entry for entry in owned(one) if self.is_so(0.7)]
        for entry in mine:
            entry["partitions"] = self.some_of(entry["partitions"])
        everything = [{"topic_id": self.k.topic_id(name), "partitions": list(range(9))} for name in self.sizes]
        strange = [{"topic_id": self.one_of(UNKNOWN_ID, None), "partitions": [-1, 7, 7]}]
        told = self.one_of(
            owned(one), owned(one), mine, mine, [], everything, [*owned(one), *strange], [*owned(one), *mine]
        )
        full = {"rebalance_timeout_ms": one.joining["rebalance_timeout_ms"]}
        full |= {name: one.joining.get(name) for name in ("subscribed_topic_names", "subscribed_topic_regex")}
        self._beat(
            one, one.learn, **{**self.identity(one), "topic_partitions": told, **(full if self.is_so(0.4) else {})}
        )

    def resubscribe(self) -> None:
        """Say something else of itself: at once, or when it joins next."""
        one = self.actor()
        changes = self._topics(one is self.actors[0])
        if self.is_so(0.2):
            changes = {"rack_id": self.one_of("r1", "r2")}
        if self.is_so(0.2):
            changes["rebalance_timeout_ms"] = self.one_of(SHORT_MS, FAR_MS)
        one.joining |= changes
        if one.is_in:
            told = {"topic_partitions": owned(one)} if self.is_so(0.5) else {}
            self._beat(one, one.learn, **{**self.identity(one), **changes, **told})

    def leave(self) -> None:
        one = self.member()
        known = self.identity(one)
        known["member_epoch"] = self.one_of(-1, -1, -2, -2, -2, -3) if one.instance else self.one_of(-1, -1, -1, -2)
        self._beat(one, one.left, **known)

    def remove(self) -> None:
        """As an operator, or as a classic member does: by instance or by member id."""
        leavers = []
        for one in self.some_of(self.actors, 1):
            by_instance = {"member_id": "", "group_instance_id": one.instance or "i-nobody"}
            leavers.append(self.one_of(by_instance, {"member_id": one.member_id, "group_instance_id": one.instance}))
        values = {"group_id": self.group, "members": leavers, "member_id": leavers[0]["member_id"]}
        self.ask(self.k.line("admin"), "leave_group", self.one_of(LEAVE, range(3, 6)), **values)

    def commit(self) -> None:
        one = self.member()
        known = self.identity(one)
        known["generation_id_or_member_epoch"] = known.pop("member_epoch")
        known["group_instance_id"] = known.pop("instance_id")
        if self.is_so(0.15):  # outside of the group
            known |= {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        if self.is_so(0.2) and len(one.epochs) > 1:
            known["generation_id_or_member_epoch"] = one.epochs[-2]
        versions = self.one_of(range(9, 11), range(9, 11), COMMIT)
        topics = self._offsets()
        if self.is_so(0.1):
            topics = self.odd_topics(topics)
        self.ask(one.line, "offset_commit", versions, **{**known, "topics": topics, "retention_time_ms": -1})

    def _offsets(self) -> list[dict[str, Any]]:
        """Return one or two topics with offsets."""
        topics = []
        for name in self.some_of([*self.sizes, self.k.name("none")], 1)[:2]:
            size = self.sizes.get(name, 1)
            parts = self.some_of(range(max(size, 1)), 1)
            if self.is_so(0.1):
                parts.append(size)
            topics.append(
                {"name": name, "topic_id": self._id(name), "partitions": [self._part(index) for index in parts]}
            )
        return topics

    def offsets_of_member(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        known = self.identity(self.member())
        epochs = known.pop("member_epoch")
        member = {"member_id": known["member_id"], "group_instance_id": known["instance_id"], "generation_id": epochs}
        return member, self._offsets()

    def may_repeat(self, api: str, values: Mapping[str, Any]) -> bool:
        """The server names a member that has no id by chance, and assigns in the order of such names."""
        return super().may_repeat(api, values) and values.get("member_id") != ""

    def repeat(self, line: Line, api: str, version: int, values: dict[str, Any]) -> None:
        if api != "consumer_group_heartbeat" or self._is_steady(values):
            super().repeat(line, api, version, values)
            if self.has_regex:
                self.k.pump.run(RESOLVED_MS)

    def _part(self, index: int) -> dict[str, Any]:
        return {
            "partition_index": index,
            "committed_offset": self.one_of(0, 1, 5, 1 << 40),
            "committed_leader_epoch": self.one_of(-1, 0, 7),
            "committed_metadata": self.one_of("", "text", None, "x" * 5000) if self.is_so(0.3) else "",
        }

    def _id(self, name: str) -> str:
        return self.k.topic_ids.get(name, UNKNOWN_ID)

    def fetch(self) -> None:
        topics: Any = [
            {"name": name, "topic_id": self._id(name), "partition_indexes": self.some_of(range(4))}
            for name in self.some_of([*self.sizes, self.k.name("none")])[:2]
        ]
        topics = self.one_of(topics, topics, None)
        group = self.one_of(self.group, self.group, self.group, self.k.name("h"))
        versions = FETCH if topics is not None else range(2, 11)
        values: dict[str, Any] = {"require_stable": self.is_so(0.5)}
        if (version := self.dice.choice(versions)) >= 8 or self.is_so(0.5):
            version = max(version, 8)
            one: dict[str, Any] = {"group_id": group, "topics": topics}
            if self.is_so(0.7):
                known = self.identity(self.member())
                one |= {"member_id": known["member_id"], "member_epoch": known["member_epoch"]}
            elif self.is_so(0.1):
                one |= {"member_id": None, "member_epoch": 1}
            values["groups"] = [one]
        else:
            values |= {"group_id": group, "topics": topics}
        self.ask(self.k.line("watch"), "offset_fetch", [version], **values)

    def look(self) -> None:
        """Describe the group. The assignment epoch of an empty one is that of 4.4 here (docs/differences.md)."""
        watch, found = self.k.line("watch"), describe_quietly(self.k, self.group)
        if found.group_state == "Empty":
            self.k.events.append({"empty": found.group_epoch, "members": len(found.members)})
        else:
            names = self.one_of([self.group], [self.group, self.k.name("i"), ""], self.names())
            asked = self.is_so(0.2)
            self.ask(watch, "consumer_group_describe", DESCRIBE, group_ids=names, include_authorized_operations=asked)

    def look_as_before(self) -> None:
        self.ask(self.k.line("watch"), "describe_groups", DESCRIBE_CLASSIC, groups=self.names())

    def list(self) -> None:
        states = self.one_of([], [], ["Stable"], ["reconciling", "Empty"], ["ASSIGNING"], ["Dead"], ["Nonsense"])
        types = self.one_of([], [], ["classic"], ["Consumer"], ["nonsense"])
        self.ask(self.k.line("watch"), "list_groups", LIST, states_filter=states, types_filter=types)

    def delete(self) -> None:
        self.ask(self.k.line("admin"), "delete_groups", DELETE, groups_names=self.names())

    def delete_offsets(self) -> None:
        parts = [{"partition_index": index} for index in self.some_of(range(4), 1)]
        topics = [{"name": self.one_of(*self.sizes, self.k.name("none")), "partitions": parts}]
        self.ask(self.k.line("admin"), "offset_delete", [0], group_id=self.group, topics=topics)

    def grow(self) -> None:
        if there := [name for name, size in self.sizes.items() if 0 < size < 6]:
            name = self.one_of(*there)
            self.sizes[name] += self.dice.randint(1, 2)
            self.k.grow_topic(name, self.sizes[name])
            self.settle()

    def delete_topic(self) -> None:
        if there := [name for name, size in self.sizes.items() if size]:
            name = self.one_of(*there)
            self.sizes[name] = 0
            self.k.delete_topic(name)
            self.settle()

    def create_topic(self) -> None:
        """Create one that was deleted, or another one."""
        gone = [name for name, size in self.sizes.items() if not size]
        if not gone:
            self.later += 1
            gone = [self.k.name(f"later-{self.later}")]
        name = self.one_of(*gone)
        self.sizes[name] = self.dice.randint(1, 3)
        self.k.topic(name.removeprefix(self.k.prefix), self.sizes[name])

    def replace_topic(self) -> None:
        """A topic is deleted and made anew while nobody asks."""
        if there := [name for name, size in self.sizes.items() if size]:
            name = self.one_of(*there)
            self.k.delete_topic(name)
            self.sizes[name] = self.dice.randint(1, 3)
            self.k.topic(name.removeprefix(self.k.prefix), self.sizes[name])
            self.settle()

    def come_back(self) -> None:
        """A static member leaves for a while, and it or another one takes its place: the same id, or a new one."""
        if static := [one for one in self.actors if one.instance is not None and one.is_in]:
            one: Actor = self.one_of(*static)
            one.line = self.k.line(one.name)
            if self.is_so(0.6):
                self._beat(one, one.left, **{**one.identity(), "member_epoch": -2})
            if self.is_so(0.7):
                one.forget()
                one.member_id += self.one_of("", "'", "'")
                if self.is_so(0.3):
                    one.joining |= self._topics(one is self.actors[0])
                self._live(one)

    def configure(self) -> None:
        if self.is_so(0.3):
            self.unset_configs(*self.some_of(["consumer_session_timeout_ms", "consumer_heartbeat_interval_ms"], 1))
            return
        self._configure(
            consumer_session_timeout_ms=self.one_of(SHORT_MS, 45_000, FAR_MS),
            consumer_heartbeat_interval_ms=self.one_of(1_000, 5_000),
        )

    def _configure(self, **values: int) -> None:
        self.k.group_config(self.group, **values)
        self.settle()

    def settle(self) -> None:
        """Wait until the coordinator has heard of what Metadata and DescribeConfigs show."""
        self.k.pump.run(self.k.settle_ms)

    def long_pause(self) -> None:
        """Let time pass, in halves between which some go on."""
        if not self.has_regex:
            self.pause(self.half_ms)
            for one in self.some_of(self.actors):
                self._live(one)
            self.pause(self.half_ms)
            return
        # Any new topic of the cluster, and so one of another story, has the patterns of a group resolved again.
        self.create_topic()
        self.pause(PAUSE_MS)


class ConsumerRestarted(Consumer):
    """The same on a broker that is restarted meanwhile."""

    server = "range-restart"


class ConsumerExpiry(Consumer):
    """The same where offsets expire after a minute, which two halves of a pause outlast."""

    server = "range-expiry"
    half_ms = 40_000


def owned(one: Actor) -> list[dict[str, Any]]:
    """Return what the member was told last, as a request has it."""
    return [{"topic_id": each.topic_id, "partitions": sorted(each.partitions)} for each in one.owned]


def describe_quietly(k: Stage, group: str) -> Answer:
    """Describe a consumer group, and write nothing down."""
    found: Answer = k.line("watch").quietly("consumer_group_describe", 1, group_ids=[group]).groups[0]
    return found
