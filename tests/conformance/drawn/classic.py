"""Classic groups: members of all versions, dynamic and static, that join, sync, beat, leave, commit and are late."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.conformance.actors import Member, assignment, subscription
from tests.conformance.drawn.guests import Guests
from tests.conformance.drawn.play import versions_of
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.servers import RESTARTING
from tests.conformance.stage import Answer

SESSION_MS, REBALANCE_MS, FAR_MS = 6_000, 6_600, 60_000  # two that a long pause outlasts, one that nothing does
PAUSE_MS = 7_500
JOIN, SYNC = versions_of("join_group", 2, 9), versions_of("sync_group", 0, 5)
BEAT, LEAVE = versions_of("heartbeat", 0, 4), versions_of("leave_group", 0, 5)
COMMIT, FETCH = versions_of("offset_commit", 2, 10), versions_of("offset_fetch", 1, 10)
DESCRIBE, LIST = versions_of("describe_groups", 0, 6), versions_of("list_groups", 0, 5)
DELETE = versions_of("delete_groups", 0, 2)


class Actor(Member):
    """A member that knows what a client would do next, and the members of the generation that it leads."""

    led: tuple[str, ...] = ()
    does_next = "join"

    def learn(self, answer: Answer) -> Answer:
        super().learn(answer)
        self.heard(answer)
        if answer.error_code == "NONE":
            self.does_next = "sync"
            known = (one.member_id for one in answer.members)
            self.led = tuple(sorted(known, key=lambda one: self.k.normal.text(one, "member_id")))
        return answer

    def synced(self, answer: Answer) -> None:
        self.heard(answer)
        if answer.error_code == "NONE":
            self.does_next = "beat"

    def heard(self, answer: Answer) -> None:
        """Learn from an error."""
        if answer.error_code in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            self.member_id, self.generation = "", -1
        if answer.error_code != "NONE":
            self.does_next = "join"


class Classic(Guests):
    """One group, up to four members, a topic that may grow, go or be made anew, and whoever looks on."""

    pause_ms = PAUSE_MS
    retentions_ms = (0, 1000)
    kinds = ("share", "streams")  # a consumer member would take over: tests/conformance/drawn/migration.py

    def begin(self) -> None:
        self.size = 2
        self.topic = self.k.topic("t", self.size)
        self.group = self.k.name("g")
        self.actors = [self._actor(name) for name in "abcd"[: self.dice.randint(1, 4)]]

    def _actor(self, name: str) -> Actor:
        return Actor(
            self.k,
            name,
            instance=self.one_of(None, None, None, f"i-{name}", "i-a"),
            version=self.one_of(*JOIN, 5, 9, 9),
            session_timeout_ms=self.one_of(SESSION_MS, FAR_MS),
            rebalance_timeout_ms=self.one_of(REBALANCE_MS, FAR_MS),
            protocol_type=self.one_of(*["consumer"] * 19, "connect"),
            protocols=self._protocols(),
        )

    def _protocols(self) -> list[dict[str, Any]]:
        """In one order for all: which of several with as many votes wins is not said."""
        names = ["range"] * self.is_so(0.95) + sorted(self.some_of(["sticky", "roundrobin"]))
        topics = self.one_of([self.topic], [self.topic], [], [self.k.name("other")])
        data = self.one_of(subscription(*topics), subscription(*topics, version=0), b"\x00\x01", b"")
        return [{"name": name, "metadata": data} for name in names]

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.live: 90,
            self.join: 10,
            self.sync: 8,
            self.beat: 8,
            self.leave: 6,
            self.remove: 3,
            self.commit: 10,
            self.fetch: 6,
            self.look: 10,
            self.list: 3,
            self.delete: 3,
            self.delete_offsets: 3,
            self.long_pause: 5,
            self.hang_up: 2,
            self.again: 6,
            self.transact: 4,
            self.fetch_of_many: 2,
            self.visit: 3,
            self.look_elsewhere: 2,
            self.find: 1,
            self.move_topic: 2,
            **({self.restart: 14, self.long_pause: 1} if self.server in RESTARTING else {}),
        }

    def actor(self) -> Actor:
        """Return somebody, who may wait for an answer on another connection."""
        one: Actor = self.one_of(*self.actors)
        one.line = self.free_line(one.name)
        return one

    def free_actors(self) -> list[Actor]:
        """Those who wait for nothing. What waits is answered by Muster when its member asks again or leaves, and not by
        Kafka (docs/differences.md)."""
        waiting = {pending.line.name[0] for pending, _ in self.waiting}
        return [one for one in self.actors if one.name not in waiting]

    def identity(self, one: Actor, others: Sequence[Actor] = ()) -> dict[str, Any]:
        """Return the identity of a member, now and then with a field of another one."""
        known = one.identity()
        other = self.one_of(*(others or self.actors))
        if self.is_so(0.1):
            known["generation_id"] = self.one_of(-1, 0, known["generation_id"] + 1, known["generation_id"] - 1)
        if self.is_so(0.1):
            known["member_id"] = self.one_of("", "nobody", other.member_id)
        if self.is_so(0.07):
            known["group_instance_id"] = self.one_of(None, other.instance, "i-nobody")
        if self.is_so(0.03):
            known["group_id"] = self.one_of("", self.k.name("h"))
        return known

    def live(self) -> None:
        """What a client does next that waits for nothing."""
        if free := self.free_actors():
            one = self.one_of(*free)
            one.line = self.k.line(one.name)
            known = one.identity()
            if one.does_next == "join":
                self._join(one, known)
            elif one.does_next == "sync":
                shares = assignment({self.topic: [0]}), assignment({self.topic: [1]})
                given = [{"member_id": member, "assignment": self.one_of(*shares)} for member in one.led]
                self._sync(one, {**known, "assignments": given})
            else:
                self.ask(one.line, "heartbeat", BEAT, one.heard, **known)

    def join(self) -> None:
        one = self.actor()
        if self.is_so(0.15):
            one.joining["protocols"] = self._protocols()
        if self.is_so(0.1):
            one.joining["session_timeout_ms"] = self.one_of(SESSION_MS, SESSION_MS, FAR_MS, FAR_MS, 50, 700_000)
        if one in self.free_actors():
            known = self.identity(one, [one])
            self._join(one, {**known, **(self.one_of(*self._oddities()) if self.is_so(0.2) else {})})

    def _oddities(self) -> list[dict[str, Any]]:
        """Return fields by which a join is unusual, or wrong."""
        names = self._protocols() or [{"name": "range", "metadata": b""}]
        return [
            {"group_instance_id": self.one_of("", ".", "a b", "x" * 100)},
            {"protocol_type": self.one_of("", "other")},
            {"protocols": []},
            {"protocols": [{"name": "x" * 300, "metadata": b"x"}, *names]},
            {"protocols": names[::-1]},
            {"reason": "x" * 300},
        ]

    def _join(self, one: Actor, known: dict[str, Any]) -> None:
        values = {**one.joining, "reason": self.one_of(None, "why"), **known}
        self.ask_what_may_wait(one.line, "join_group", [one.version], one.learn, **values)

    def sync(self) -> None:
        one = self.actor()
        shares = [assignment({self.topic: [0]}), assignment({self.topic: [0, 1]}), b"", b"\x00"]
        known = one.led or self.one_of((), (), tuple(each.member_id for each in self.actors))
        given = [{"member_id": member, "assignment": self.one_of(*shares)} for member in self.some_of(known)]
        if self.is_so(0.15):  # the same member twice, or one that there is not
            given += [{"member_id": self.one_of("nobody", "", *known), "assignment": self.one_of(*shares)}]
        names = {
            "protocol_type": self.one_of(one.joining["protocol_type"], one.joining["protocol_type"], None, "other"),
            "protocol_name": self.one_of("range", "range", "sticky", None),
        }
        if names["protocol_type"] != "other" and self.is_so(0.6):
            names = {"protocol_type": None, "protocol_name": None}
        if one in (free := self.free_actors()):
            self._sync(one, {**names, **self.identity(one, free), "assignments": given})

    def _sync(self, one: Actor, values: dict[str, Any]) -> None:
        self.ask_what_may_wait(one.line, "sync_group", SYNC, one.synced, **values)

    def beat(self) -> None:
        one = self.actor()
        self.ask(one.line, "heartbeat", BEAT, one.heard, **self.identity(one))

    def leave(self) -> None:
        if not (free := self.free_actors()):
            return
        one = self.one_of(*free)
        one.line = self.k.line(one.name)
        known = self.identity(one, free)
        leaver = {
            "member_id": known["member_id"],
            "group_instance_id": known["group_instance_id"],
            "reason": self.one_of(None, "why"),
        }
        self.ask(one.line, "leave_group", LEAVE, **{**known, "members": [leaver]})

    def remove(self) -> None:
        """As an operator: several at once, by instance or by member id."""
        leavers = []
        for one in self.some_of(self.free_actors()):
            by_instance = {"member_id": "", "group_instance_id": one.instance or "i-nobody"}
            leavers.append(self.one_of(by_instance, {"member_id": one.member_id, "group_instance_id": one.instance}))
        if leavers and self.is_so(0.2):
            leavers.append({**self.one_of(*leavers), "reason": "x" * 300})
        self.ask(self.k.line("admin"), "leave_group", range(3, 6), group_id=self.group, members=leavers)

    def commit(self) -> None:
        one = self.actor()
        known = self.identity(one)
        known["generation_id_or_member_epoch"] = known.pop("generation_id")
        known["group_id"] = known["group_id"] or self.group  # "" may have offsets, and is the same group in all stories
        if self.is_so(0.2):  # outside of the group
            known |= {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        topics = [self._offsets(is_too_long=known["generation_id_or_member_epoch"] >= 0)]
        if self.is_so(0.1):
            topics = self.odd_topics(topics)
        values = {**known, "topics": topics, "retention_time_ms": self.one_of(-1, -1, -1, *self.retentions_ms)}
        self.ask(one.line, "offset_commit", COMMIT, **values)

    def _offsets(self, *, is_too_long: bool = False) -> dict[str, Any]:
        """Return a topic with offsets. A commit of which nothing is kept makes a group in Kafka (docs/differences.md)."""
        parts = [
            {
                "partition_index": index,
                "committed_offset": self.one_of(0, 1, 5, -1, 1 << 40),
                "committed_leader_epoch": self.one_of(-1, 0, 7),
                "committed_metadata": self.one_of("", "text", None, *["x" * 5000] * is_too_long),
            }
            for index in self.some_of((0, 1) if self.is_so(0.8) else (0, 1, 2), 1)
        ]
        return {**self._named_topic(), "partitions": parts}

    def offsets_of_member(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        known = self.identity(self.actor())
        known.pop("group_id")
        return known, [self._offsets()]

    def _named_topic(self) -> dict[str, Any]:
        """The topic, or one that is not there: by its name, and in the versions that have it by its id."""
        if self.is_so(0.2):
            return {"name": self.k.name("other"), "topic_id": UNKNOWN_ID}
        return {"name": self.topic, "topic_id": self.k.topic_id(self.topic)}

    def fetch(self) -> None:
        names = [{**self._named_topic(), "partition_indexes": self.some_of((0, 1, 2))}]
        topics = self.one_of(names, names, names, None)
        group = self.one_of(self.group, self.group, self.k.name("h"))
        versions = FETCH if topics is not None else FETCH[1:]
        values: dict[str, Any] = {"require_stable": self.is_so(0.5)}
        if (version := self.dice.choice(versions)) >= 8:
            one: dict[str, Any] = {"group_id": group, "topics": topics}
            if version >= 9 and self.is_so(0.5):
                actor = self.actor()
                one |= {"member_id": actor.member_id, "member_epoch": actor.generation}
            values["groups"] = [one]
        else:
            values |= {"group_id": group, "topics": topics}
        self.ask(self.k.line("watch"), "offset_fetch", [version], **values)

    def look(self) -> None:
        self.ask(
            self.k.line("watch"),
            "describe_groups",
            DESCRIBE,
            groups=self.names(),
            include_authorized_operations=self.is_so(0.2),
        )

    def list(self) -> None:
        states = self.one_of([], ["Stable"], ["stable", "Empty"], ["PreparingRebalance"], ["Dead"], ["Nonsense"])
        types = self.one_of([], ["classic"], ["Consumer"], ["nonsense"])
        self.ask(self.k.line("watch"), "list_groups", LIST, states_filter=states, types_filter=types)

    def delete(self) -> None:
        self.ask(self.k.line("admin"), "delete_groups", DELETE, groups_names=self.names())

    def delete_offsets(self) -> None:
        parts = [{"partition_index": index} for index in self.some_of((0, 1, 2), 1)]
        topics = [{"name": self.one_of(self.topic, self.topic, self.k.name("other")), "partitions": parts}]
        self.ask(self.k.line("admin"), "offset_delete", [0], group_id=self.group, topics=topics)

    def long_pause(self) -> None:
        self.pause(self.pause_ms)

    def hang_up(self) -> None:
        self.actor().line.close()

    def may_repeat(self, api: str, values: Mapping[str, Any]) -> bool:
        return super().may_repeat(api, values) and values.get("group_id") != ""

    def move_topic(self) -> None:
        """The topic grows, goes, or is made anew, and the coordinator hears of it."""
        if not self.size or self.is_so(0.3):
            self.size += 2
            (self.k.grow_topic if self.size > 2 else self.k.topic)(self.topic if self.size > 2 else "t", self.size)
        else:
            self.size = 0
            self.k.delete_topic(self.topic)
        self.k.pump.run(self.k.settle_ms)


class ClassicRestarted(Classic):
    """The same on a broker that is restarted meanwhile."""

    server = "restart"


class ClassicExpiry(Classic):
    """The same where offsets expire after a minute, which the second of two pauses outlasts."""

    server = "slow-expiry"
    pause_ms = 40_000
    retentions_ms = (20_000, 100_000)
