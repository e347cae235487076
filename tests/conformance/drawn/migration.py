"""Groups with members of both protocols: upgraded and downgraded while some join, sync, beat, leave, commit or are late."""

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.consumer_protocol_assignment.v1.data import ConsumerProtocolAssignment
from kio.serial import entity_reader

from tests.conformance.actors import Owned, assignment, subscription
from tests.conformance.drawn import classic, consumer
from tests.conformance.drawn.guests import Guests
from tests.conformance.servers import RESTARTING
from tests.conformance.stage import Answer

SHORT_MS, FAR_MS, HALF_MS = consumer.SHORT_MS, consumer.FAR_MS, consumer.HALF_MS
IN_REBALANCE = ("PreparingRebalance", "CompletingRebalance")


class Old(classic.Actor):
    """A member of the classic protocol, which knows what it was assigned."""

    def __init__(self, *of: Any, **values: Any) -> None:
        super().__init__(*of, **values)
        self.owned: Owned = {}

    def synced(self, answer: Answer) -> None:
        super().synced(answer)
        if answer.error_code == "NONE":
            self.owned = {}
            if len(answer.assignment) > 2:
                found, _ = entity_reader(ConsumerProtocolAssignment)(answer.assignment, 2)
                self.owned = {one.topic: sorted(one.partitions) for one in found.assigned_partitions}

    def heard(self, answer: Answer) -> None:
        super().heard(answer)
        if not self.member_id:
            self.owned = {}

    def named(self, answer: Answer) -> None:
        """Learn from the answer of a consumer group, but take a name of its own."""
        self.learn(answer)
        if answer.error_code == "MEMBER_ID_REQUIRED":
            self.member_id = f"own {self.name}"

    def left(self, answer: Answer) -> None:
        if answer.error_code == "NONE":
            self.member_id, self.generation, self.does_next, self.owned = "", -1, "join", {}


class Migration(Guests):
    """One group, up to two members of each protocol, a topic that may grow, and whoever looks on."""

    server = "range"
    kinds = ("share", "streams")

    def begin(self) -> None:
        self.group = self.k.name("g")
        self.sizes = {self.k.topic("t", size := self.dice.randint(1, 4)): size}
        (self.topic,) = self.sizes
        self.has_been_modern = False
        self.old = [self._old(name) for name in "ab"[: self.dice.randint(1, 2)]]
        self.new = [self._new(name) for name in "no"[: self.dice.randint(1, 2)]]
        if len(self.old) == 1 and self.is_so(0.4):
            self.k.group_config(self.group, consumer_session_timeout_ms=SHORT_MS)
            self.settle()

    def _old(self, name: str) -> Old:
        return Old(
            self.k,
            name,
            instance=self.one_of(None, None, f"i-{name}"),
            version=self.one_of(*classic.JOIN, 5, 9, 9),
            session_timeout_ms=self.one_of(SHORT_MS, FAR_MS),
            rebalance_timeout_ms=self.one_of(SHORT_MS, FAR_MS),
            protocol_type="consumer",
            protocols=[],
        )

    def _new(self, name: str) -> consumer.Actor:
        joining = {
            "member_epoch": 0,
            "rebalance_timeout_ms": self.one_of(SHORT_MS, FAR_MS),
            "subscribed_topic_names": self.one_of([self.topic], [self.topic], [self.topic, self.k.name("none")]),
            "topic_partitions": [],
        }
        return consumer.Actor(
            self.k,
            name,
            instance=self.one_of(None, None, f"i-{name}"),
            version=self.one_of(0, 1, 1),
            joining=joining,
        )

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.live: 90,
            self.ask_oddly: 12,
            self.beat_oddly: 10,
            self.leave: 10,
            self.remove: 3,
            self.change_over: 4,
            self.commit: 12,
            self.fetch: 6,
            self.look: 12,
            self.list: 3,
            self.delete: 2,
            self.delete_offsets: 3,
            self.grow: 2,
            self.long_pause: 5,
            self.again: 6,
            self.transact: 4,
            self.fetch_of_many: 1,
            self.visit: 3,
            self.look_elsewhere: 2,
            self.find: 1,
            self.change_back: 4,
            self.replace_topic: 2,
            self.configure: 2,
            **({self.restart: 14, self.long_pause: 1} if self.server in RESTARTING else {}),
        }

    def settle(self) -> None:
        self.k.pump.run(self.k.settle_ms)

    def line(self, one: Any) -> None:
        """Let it ask on a connection on which nothing waits."""
        one.line = self.free_line(one.name)

    def free_old(self) -> list[Old]:
        """Those who wait for nothing. What waits is answered by Muster when its member asks again or leaves, and not by
        Kafka (docs/differences.md)."""
        waiting = {pending.line.name[0] for pending, _ in self.waiting}
        return [one for one in self.old if one.name not in waiting]

    def live(self) -> None:
        """What a client does next."""
        self._live(self.one_of(*self.free_old(), *self.new))

    def _live(self, one: Any) -> None:
        self.line(one)
        if isinstance(one, Old):
            self._live_old(one)
        elif one.is_in:
            told = {"topic_partitions": consumer.owned(one)} if one.is_told else {}
            one.is_told = False
            self.ask(one.line, "consumer_group_heartbeat", [one.version], one.learn, **one.identity(), **told)
        elif self.may_upgrade():
            values = {**one.identity(), **one.joining}
            self.ask(one.line, "consumer_group_heartbeat", [one.version], one.learn, **values)
            self.has_been_modern |= one.is_in

    def state(self) -> str:
        """Look at the state of the classic group, without a word of it."""
        (found,) = self.k.line("watch").quietly("describe_groups", 5, groups=[self.group]).groups
        return str(found.group_state)

    def may_upgrade(self) -> bool:
        """Whether no member may still own what it had before a downgrade, which Kafka forgets (docs/differences.md); nor
        is the first generation being formed."""
        return self.state() not in (IN_REBALANCE if self.has_been_modern else ("PreparingRebalance",))

    def _live_old(self, one: Old) -> None:
        if one.does_next == "join":
            self._join(one)
        elif one.does_next == "sync":
            self._sync(one, one.identity())
        else:
            self.ask(one.line, "heartbeat", classic.BEAT, one.heard, **one.identity())

    def _join(self, one: Old, **changes: Any) -> None:
        found, learn = consumer.describe_quietly(self.k, self.group), one.learn
        if found.error_code == "NONE" and (one.instance is None or one.version < 5):
            # The server would draw the id, by which members are assigned.
            if not one.member_id and (one.version < 4 or self.is_so(0.5)):
                one.member_id = f"own {one.name}"
            learn = one.named
        if found.group_state == "Empty":  # one with a member id would end the group in Kafka, and be refused
            one.left(Answer({"error_code": "NONE"}))
            changes = {}
        names = [self.topic] * self.is_so(0.95) + [self.k.name("none")] * self.is_so(0.1)
        claimed = self.one_of(one.owned, one.owned, one.owned, {})
        data = subscription(*names, owned=claimed, version=self.one_of(1, 1, 3, 0))
        kinds = ["range"] + ["sticky"] * self.is_so(0.3)
        one.joining["protocols"] = [{"name": kind, "metadata": data} for kind in kinds]
        values = {**one.joining, "reason": self.one_of(None, "why"), **one.identity(), **changes}
        self.ask_what_may_wait(one.line, "join_group", [one.version], id if changes else learn, **values)

    def _sync(self, one: Old, known: dict[str, Any]) -> None:
        """Sync, and as the leader share all partitions, or but the last one: no two members have the same."""
        size = self.sizes[self.topic] - self.is_so(0.1)
        shares: dict[str, list[int]] = {member: [] for member in one.led}
        for partition in range(size * bool(shares)):
            shares[self.one_of(*shares)].append(partition)
        state = b"state" if self.is_so(0.05) else None
        given = [{"member_id": member, "assignment": self._share(held, state)} for member, held in shares.items()]
        learn = one.synced if known == one.identity() else id
        self.ask_what_may_wait(one.line, "sync_group", classic.SYNC, learn, **known, assignments=given)

    def _share(self, partitions: list[int], state: bytes | None) -> bytes:
        return assignment({self.topic: partitions} if partitions else {}, state) if self.is_so(0.95) else b""

    def odd_identity(self, one: Old) -> dict[str, Any]:
        """Somebody else, or at another generation."""
        known = one.identity()
        other = self.one_of(*self.free_old(), *self.new)
        strange: list[dict[str, Any]] = [
            {"generation_id": self.one_of(-1, 0, known["generation_id"] + 1, known["generation_id"] - 1)},
            {"member_id": self.one_of("nobody", other.member_id or "nobody")},
            {"group_instance_id": self.one_of(None, other.instance, "i-nobody")},
        ]
        return {**known, **self.one_of(*strange)}

    def ask_oddly(self) -> None:
        """As a classic member: what is refused, or nearly so."""
        if not (free := self.free_old()):
            return
        one = self.one_of(*free)
        self.line(one)
        known = self.odd_identity(one)
        kind = self.one_of("join", "sync", "sync", "beat", "beat", "again")
        if kind == "beat":
            self.ask(one.line, "heartbeat", classic.BEAT, **known)
        elif kind == "sync":
            names = {
                "protocol_type": self.one_of("consumer", None, "other"),
                "protocol_name": self.one_of("range", "sticky"),
            }
            self._sync(one, {**known, **names})
        elif kind == "again":  # of its own accord
            self._join(one)
        else:
            wrong: list[dict[str, Any]] = [
                {"session_timeout_ms": self.one_of(50, 700_000)},
                {"protocol_type": "connect", "member_id": "nobody"},
                {"member_id": "nobody", "protocols": [{"name": "other", "metadata": subscription(self.topic)}]},
                {"protocols": []},
            ]
            # By an instance that is not there, and by an empty group, it would be admitted.
            self._join(one, **self.one_of(*wrong) if one.member_id else wrong[0])

    def beat_oddly(self) -> None:
        """As a member of the new protocol: other epochs and names, or less than all that it owns."""
        one = self.one_of(*self.new)
        self.line(one)
        known = one.identity()
        other = self.one_of(*self.old, *self.new)
        epoch = self.one_of(one.epoch + 1, *one.epochs[-3:], 99, one.epoch)
        told = consumer.owned(one)
        for entry in told:
            entry["partitions"] = self.some_of(entry["partitions"])
        strange: list[dict[str, Any]] = [
            {"member_epoch": epoch},
            {"member_epoch": epoch, "topic_partitions": told},
            {"member_id": self.one_of("nobody", other.member_id or "nobody")},
            {"instance_id": self.one_of(None, other.instance, "i-nobody")},
            {"topic_partitions": told},
            {"topic_partitions": []},
            {"rack_id": "r1", "rebalance_timeout_ms": self.one_of(SHORT_MS, FAR_MS)},
        ]
        values = {**known, **self.one_of(*strange)}
        if values["member_epoch"] == 0:
            values["rebalance_timeout_ms"] = -1  # no join
        is_own = values["member_id"] == one.member_id and values["instance_id"] == one.instance
        self.ask(one.line, "consumer_group_heartbeat", [one.version], one.learn if is_own else id, **values)

    def may_leave(self) -> bool:
        """Whether no downgrade would leave it to the order of a map which of two members leads."""
        kinds = [one.member_type for one in consumer.describe_quietly(self.k, self.group).members]
        return kinds.count(0) < 2 or kinds.count(1) != 1

    def leave(self) -> None:
        one: Any = self.one_of(*self.free_old(), *self.new, *self.new)
        if one in self.new and not self.may_leave():
            return
        self.line(one)
        if isinstance(one, Old):
            known = one.identity() if self.is_so(0.8) else self.odd_identity(one)
            leaver = {"member_id": known["member_id"], "group_instance_id": known["group_instance_id"]}
            learn = one.left if known == one.identity() else id
            self.ask(one.line, "leave_group", classic.LEAVE, learn, **known, members=[{**leaver, "reason": None}])
        else:
            epoch = self.one_of(-1, -2) if one.instance else -1
            values = {**one.identity(), "member_epoch": epoch}
            self.ask(one.line, "consumer_group_heartbeat", [one.version], one.left, **values)

    def remove(self) -> None:
        """As an operator: several at once, by instance or by member id."""
        leavers = []
        new = self.new if len(self.old) == 1 else []
        for one in self.some_of([*self.free_old(), *new]):
            by_instance = {"member_id": "", "group_instance_id": one.instance or "i-nobody"}
            leavers.append(self.one_of(by_instance, {"member_id": one.member_id, "group_instance_id": one.instance}))
        self.ask(self.k.line("admin"), "leave_group", range(3, 6), group_id=self.group, members=leavers)

    def change_over(self) -> None:
        """A static member comes back with the new protocol: another one that has its instance id from now on."""
        if static := [one for one in self.free_old() if one.instance is not None]:
            before, after = self.one_of(*static), self.one_of(*self.new)
            if not after.is_in and self.may_upgrade() and all(one.instance != before.instance for one in self.new):
                after.instance, before.instance = before.instance, None
                after.member_id += "'"  # that of an instance that is away is not brought under another one
                before.left(Answer({"error_code": "NONE"}))
                self._live(after)

    def change_back(self) -> None:
        """A static member of the new protocol comes back with the classic one."""
        if static := [one for one in self.new if one.instance is not None and one.is_in]:
            before = self.one_of(*static)
            free = [one for one in self.free_old() if one.version >= 5 and not one.member_id]
            if free and self.may_leave() and all(one.instance != before.instance for one in self.old):
                after = self.one_of(*free)
                if self.is_so(0.7):
                    self.line(before)
                    values = {**before.identity(), "member_epoch": -2}
                    self.ask(before.line, "consumer_group_heartbeat", [before.version], **values)
                after.instance, before.instance = before.instance, None
                before.forget()
                before.member_id += "'"
                self._live(after)

    def replace_topic(self) -> None:
        """The topic is deleted, and made anew at once or after others have asked."""
        self.k.delete_topic(self.topic)
        self.settle()
        if self.is_so(0.5):
            for one in self.some_of([*self.free_old(), *self.new]):
                self._live(one)
        self.sizes[self.topic] = self.dice.randint(1, 4)
        self.k.topic("t", self.sizes[self.topic])
        self.settle()

    def configure(self) -> None:
        names = ["consumer_session_timeout_ms", "consumer_heartbeat_interval_ms"]
        if self.is_so(0.4):
            self.unset_configs(*names)
        else:
            values = {name: self.one_of(5_000, 10_000) for name in names[1:]} | {names[0]: FAR_MS}
            self.k.group_config(self.group, **values)
            self.settle()

    def commit(self) -> None:
        known, topics = self.offsets_of_member()
        one = self.asking
        known["generation_id_or_member_epoch"] = known.pop("generation_id")
        if self.is_so(0.1):  # outside of the group
            known |= {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        versions = self.one_of(range(9, 11), consumer.COMMIT)
        values = {"group_id": self.group, **known, "topics": topics, "retention_time_ms": -1}
        self.ask(one.line, "offset_commit", versions, **values)

    def offsets_of_member(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        one: Any = self.one_of(*self.old, *self.new)
        self.line(one)
        self.asking = one
        if isinstance(one, Old):
            known = one.identity() if self.is_so(0.7) else self.odd_identity(one)
            known.pop("group_id")
        else:
            epoch = self.one_of(one.epoch, one.epoch, one.epoch, one.epoch + 1, *one.epochs[-2:])
            known = {"member_id": one.member_id, "generation_id": epoch}
        parts = [
            {"partition_index": index, "committed_offset": self.one_of(0, 1, 5), "committed_metadata": ""}
            for index in self.some_of(range(self.sizes[self.topic]), 1)
        ]
        return known, [{"name": self.topic, "topic_id": self.k.topic_ids[self.topic], "partitions": parts}]

    def may_repeat(self, api: str, values: Mapping[str, Any]) -> bool:
        """Whether neither a downgrade nor another generation depends on what is drawn by the server or the order of a map."""
        if api == "consumer_group_heartbeat":
            epoch = values["member_epoch"]
            return self.may_upgrade() if epoch == 0 else epoch > 0 or self.may_leave()
        if api == "join_group" and (not values["member_id"] or values["member_id"] == "nobody"):
            return False
        return super().may_repeat(api, values) and (api != "leave_group" or self.may_leave())

    def fetch(self) -> None:
        one: Any = self.one_of(*self.old, *self.new)
        epoch = one.generation if isinstance(one, Old) else one.epoch
        indexes = self.some_of(range(4))
        topics = [{"name": self.topic, "topic_id": self.k.topic_ids[self.topic], "partition_indexes": indexes}]
        values: dict[str, Any] = {"group_id": self.group, "topics": topics}
        if self.is_so(0.7):
            values |= {"member_id": one.member_id, "member_epoch": self.one_of(epoch, epoch, epoch + 1, epoch - 1)}
        if (version := self.one_of(*consumer.FETCH, 9, 9, 10)) >= 8:
            values = {"groups": [values]}
        self.ask(self.k.line("watch"), "offset_fetch", [version], **values)

    def look(self) -> None:
        """Describe the group, but not the assignments after a downgrade, nor the assignment epoch of an empty group
        (docs/differences.md)."""
        watch, found, state = self.k.line("watch"), consumer.describe_quietly(self.k, self.group), self.state()
        if self.has_been_modern and state in IN_REBALANCE:
            self.k.events.append({"state": state})
        else:
            self.ask(watch, "describe_groups", classic.DESCRIBE, groups=[self.group])
        if found.group_state != "Empty":
            self.ask(watch, "consumer_group_describe", consumer.DESCRIBE, group_ids=[self.group])

    def list(self) -> None:
        states = self.one_of([], [], ["Stable"], ["reconciling", "Empty"], ["ASSIGNING", "PreparingRebalance"])
        types = self.one_of([], [], ["classic"], ["Consumer"])
        self.ask(self.k.line("watch"), "list_groups", classic.LIST, states_filter=states, types_filter=types)

    def delete(self) -> None:
        self.ask(self.k.line("admin"), "delete_groups", classic.DELETE, groups_names=[self.group])

    def delete_offsets(self) -> None:
        parts = [{"partition_index": index} for index in self.some_of(range(4), 1)]
        topics = [{"name": self.one_of(self.topic, self.k.name("none")), "partitions": parts}]
        self.ask(self.k.line("admin"), "offset_delete", [0], group_id=self.group, topics=topics)

    def grow(self) -> None:
        if self.sizes[self.topic] < 6:
            self.sizes[self.topic] += self.dice.randint(1, 2)
            self.k.grow_topic(self.topic, self.sizes[self.topic])
            self.settle()

    def long_pause(self) -> None:
        """Let time pass, in halves between which some go on."""
        self.pause(HALF_MS)
        self.take_late_answers()
        for one in self.some_of([*self.free_old(), *self.new]):
            self._live(one)
            self.take_late_answers()
        self.pause(HALF_MS)


class MigrationRestarted(Migration):
    """The same on a broker that is restarted meanwhile."""

    server = "range-restart"

    def restart(self) -> None:
        """But not in the rebalance of a downgrade, after which Kafka takes the group for stable (docs/differences.md)."""
        if not self.has_been_modern or self.state() not in IN_REBALANCE:
            super().restart()
