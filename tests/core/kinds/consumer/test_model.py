"""Consumer groups at random, held against a model: who is answered what, who owns what, and which timers run.

Members of both protocols come, say other things, repeat what was answered already, hold on to what they have to give up, and
go; static ones come back under other ids, or by the other protocol; topics come, grow, go and are made again; the server
starts again, and an operator interferes. A group that becomes a classic one is compared once more, and ends.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.events import Cause
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.registry import KINDS
from coordinator.core.limits import Limits, MigrationPolicy
from coordinator.core.result import Result
from coordinator.core.topics import Topic, Topics
from coordinator.core.verbs import Rebalance, RemoveMember, SetTarget
from protocol.messages import consumer_protocol as embedded
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.driver import ShardDriver
from tests.core.kinds.consumer.commands import check
from tests.core.kinds.consumer.model import (
    AWAY,
    FULL,
    INCONSISTENT,
    NO_GROUP,
    OWES,
    THROTTLE_MS,
    Classic,
    Member,
    Model,
    Partition,
    Says,
)
from tests.core.weighing import weigh_members

NAMES = ("a", "ab", "b", "\u00f1")
PATTERNS = ("a.*", "b|\u00f1", "\u00f1+", "[bx]")
INSTANCES = ("i", "j")
LIVES, STEPS = 80, 120
CONSUMER = KINDS["consumer"]
REMOVALS = {Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.REBALANCE_TIMED_OUT, Cause.PENDING_SYNC_EXPIRED}
LIMITS = Limits(offsets_retention_check_interval_ms=10**12)


class Driver(ShardDriver):
    """A shard whose parked requests are answered into `answered`."""

    def __init__(self, limits: Limits) -> None:
        topics = Topics([Topic(name, bytes([number + 1]) * 16, 2) for number, name in enumerate(NAMES[:3])])
        self.answered: dict[int, Any] = {}
        self.told_gone: list[str] = []  # members of whom an event says that they were removed
        super().__init__(limits, topics)

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        self.answered |= {reply.ticket: reply.response for reply in result.replies}
        self.told_gone += [event.member for event in result.events if event.cause in REMOVALS]


class Life:
    """What a seed makes happen."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        interval_ms = self.dice.choice((0, 0, 0, 7_000))
        size = self.dice.choice((2, 4, 6, 6))
        limits = replace(
            LIMITS,
            group_consumer_assignment_interval_ms=interval_ms,
            group_consumer_max_size=size,
            group_consumer_migration_policy=self.dice.choice([MigrationPolicy.BIDIRECTIONAL] * 4 + [*MigrationPolicy]),
            group_max_size=self.dice.choice((2, 9, 9)),
            group_consumer_regex_refresh_interval_ms=self.dice.choice((25_000, 600_000)),
        )
        self.driver = Driver(limits)
        self.ids = self.topic_ids = 100
        self.begin()

    def begin(self) -> None:
        """Let the group be one that nobody has ever joined."""
        self.model = Model(self.driver.limits, self.driver.topics)
        self.owns: dict[str, frozenset[Partition]] = {}
        self.driver.told_gone.clear()

    def play(self) -> None:
        acts: list[Callable[[], None]] = [
            *[self.join, self.rejoin, self.sync, self.heartbeat, self.leave, self.leave_group, self.interfere] * 2,
            *[self.beat] * 5,
            *[self.behave] * 14,
            *[self.join_classic] * 3,
            *[self.change_topics, self.wait, self.wait_exactly, self.restart, self.convert],
        ]
        for _ in range(STEPS):
            self.model.now = self.driver.now_ms
            act = self.dice.choice(acts)
            act = self.upgrade if not self.model.members and self.dice.random() < 0.4 else act
            act()
            if act != self.wait_exactly and self.dice.random() < 0.9:  # else the next request comes in the same turn
                self.driver.wait(1)
                self.model.fire(self.driver.now_ms)
            self.compare()
        if self.group is not None:
            self.forget()

    # -- what is compared ----------------------------------------------------------------------------------------------

    @property
    def group(self) -> Any:
        return self.driver.shard.groups.get("g")

    def compare(self) -> None:
        """The group is the model's, in all that is durable and in its timers."""
        model, group = self.model, self.group
        assert sorted(self.driver.told_gone) == sorted(model.gone)
        self.driver.told_gone.clear()
        model.gone.clear()
        assert self.driver.shard.members_bytes == weigh_members(self.driver.shard)
        if model.converted is not None:
            self.compare_conversion(model.converted)
            self.forget()
            return
        assert (group is not None) == model.exists
        if group is None:
            return
        assert isinstance(group, ConsumerGroup)
        check(group, self.driver.limits)
        assert (group.epoch, group.assignment_epoch, group.assignment_at_ms, group.state) == (
            model.epoch,
            model.assignment_epoch,
            model.assigned_ms,
            model.state,
        )
        assert {id_: as_model(member) for id_, member in group.members.items()} == model.members
        assert {id_: frozenset(flat(target)) for id_, target in group.targets.items()} == model.targets
        assert {pattern: found.topics for pattern, found in group.resolved.items()} == model.resolved
        assert {found.at_ms for found in group.resolved.values()} <= {model.resolved_ms}
        in_use = {name for name in NAMES if CONSUMER.is_subscribed(group, name)}
        assert in_use == {name for member in model.members.values() for name in member.names}.union(
            *model.resolved.values()
        )
        timers = {(key[0], key[2]): at_ms for key, at_ms in self.driver.shard.timers.items() if key[1] == "g"}
        assert timers == model.timers

    def compare_conversion(self, members: Iterable[Member]) -> None:
        """A classic group has all that its members owned or had to give up, and every session anew."""
        group, model = self.group, self.model
        assert isinstance(group, ClassicGroup)
        assert group.generation == model.generation
        assert set(group.members) == {member.id for member in members}
        assert (group.state == "PreparingRebalance") == model.rebalances
        assert group.state == "PreparingRebalance" or group.state == "Stable"
        timers = {(key[0], key[2]): at_ms for key, at_ms in self.driver.shard.timers.items() if key[1] == "g"}
        assert {kind for kind, _ in timers} <= {"session", "join"}
        for member in members:
            assert member.classic is not None
            found = group.members[member.id]
            subscription = found.metadata(group.protocol)
            assert embedded.version_of(found.assignment) == embedded.version_of(subscription)
            read = embedded.read_assignment(found.assignment).assigned_partitions
            names = {topic.id: name for name, topic in self.driver.topics.items()}
            wanted = {(names[topic_id], p) for topic_id, p in member.held if topic_id in names}
            assert {(entry.topic, p) for entry in read for p in entry.partitions} == wanted
            assert (found.protocols, found.session_timeout_ms) == (member.classic.protocols, member.classic.session_ms)
            assert (found.rebalance_timeout_ms, found.instance_id) == (member.rebalance_ms, member.instance)
            assert timers["session", member.id] == model.now + member.classic.session_ms
        self.start_again()
        assert (self.group.state == "PreparingRebalance") == model.rebalances

    def start_again(self) -> None:
        """Serve from the log, of which compaction may have taken all that is not needed, tombstones too."""
        if self.dice.random() < 0.5:
            self.driver.compact()
            self.driver.log = [entry for entry in self.driver.log if entry[1] is not None]
        self.driver.rebuild()
        self.driver.load()

    def forget(self) -> None:
        self.driver.forget_group("g")
        self.begin()

    def targets(self) -> Mapping[str, frozenset[Partition]]:
        return {id_: frozenset(flat(target)) for id_, target in self.group.targets.items()}

    # -- the consumer protocol -----------------------------------------------------------------------------------------

    def join(self) -> None:
        """A new member, one that begins anew, or one that takes over."""
        known = [id_ for id_, member in self.model.members.items()]
        id_ = self.dice.choice([*known, self.new_id(), self.new_id()])
        instance = self.dice.choice((None, None, *INSTANCES))
        member = self.model.members.get(id_)
        if member is not None and member.instance not in (None, instance):
            instance = member.instance  # a member does not become another one
        self.say(id_, 0, instance, self.says(joins=True), ())

    def beat(self) -> None:
        if not self.model.members:
            self.join()
            return
        member = self.dice.choice(list(self.model.members.values()))
        epoch = self.dice.choice([*[member.epoch] * 8, member.previous, member.previous, member.epoch + 1])
        if epoch <= 0 or (member.classic is not None and self.dice.random() < 0.8):
            return
        says = self.says() if self.dice.random() < 0.3 else Says(host="/127.0.0.1")
        instance = self.dice.choice([member.instance] * 5 + [None, "i"])
        self.say(member.id, epoch, instance, says, self.told(member.id))

    def says(self, *, joins: bool = False) -> Says:
        dice = self.dice
        names = frozenset(dice.sample(NAMES, dice.randint(0, 3)))
        pattern = dice.choice(("", "", *PATTERNS))
        timeout_ms = dice.choice((9_001, 20_003))
        if not joins and dice.random() < 0.4:  # one thing alone
            alone: tuple[dict[str, Any], ...] = (
                *({"names": names}, {"pattern": pattern}, {"rack": "r1"}, {"assignor": "range"}),
                *({"rebalance_ms": timeout_ms}, {"host": "/10.0.0.1"}),
            )
            return Says(**{"host": "/127.0.0.1", **dice.choice(alone)})
        return Says(
            names=names if joins or dice.random() < 0.5 else None,
            pattern=pattern if dice.random() < 0.6 else None,
            rack=dice.choice((None, None, "r1", "r2")),
            assignor=dice.choice((None, None, None, "range", "uniform")),
            rebalance_ms=timeout_ms if joins or dice.random() < 0.4 else None,
            host=dice.choice(("/127.0.0.1", "/127.0.0.1", "/10.0.0.1")),
        )

    def told(self, id_: str) -> tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None:
        """What a member says that it owns: what it was told last, more than that, some of it, or nothing at all."""
        owns = set(self.owns.get(id_, frozenset()))
        member = self.model.members.get(id_)
        how = self.dice.random()
        if how < 0.15:
            return None
        if how < 0.3 and member is not None:
            owns = member.held
        elif how < 0.4:
            owns = {each for each in owns if self.dice.random() < 0.5}
        elif how < 0.45:
            owns.add((b"?" * 16, 0))
        entries = [partitions_of(topic_id, owns) for topic_id in sorted({topic_id for topic_id, _ in owns})]
        if how < 0.6:
            entries.append(ConsumerGroupHeartbeatRequestTopicPartitions(b"!" * 16, ()))
        return tuple(entries)

    def say(
        self,
        id_: str,
        epoch: int,
        instance: str | None,
        says: Says,
        told: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None,
    ) -> None:
        """Send a heartbeat, and compare the answer."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=id_,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=says.rack,
            rebalance_timeout_ms=-1 if says.rebalance_ms is None else says.rebalance_ms,
            subscribed_topic_names=None if says.names is None else (*says.names, *says.names),
            subscribed_topic_regex=says.pattern,
            server_assignor=says.assignor,
            topic_partitions=told,
        )
        call = self.driver.call(1, client_host=says.host)
        result = self.driver.handle(request, call)
        answer = result.response
        is_full = says.rebalance_ms is not None and told is not None and (says.names, says.pattern) != (None, None)
        owned = None if told is None else frozenset((entry.topic_id, p) for entry in told for p in entry.partitions)
        says = Says(**{**says.__dict__, "instance": instance})
        expected = self.model.beat(id_, epoch, says, owned, full=is_full, now=self.driver.now_ms, targets=self.targets)
        assert answer.error_code == expected.error
        if answer.error_code:
            assert answer.error_message or answer.error_code == -1
            assert not result.records and not result.effects and result.group is None
            return
        assert (answer.member_id, answer.member_epoch) == (id_, expected.epoch)
        assigned = answer.assignment
        told_now = (
            None
            if assigned is None
            else frozenset((entry.topic_id, p) for entry in assigned.topic_partitions for p in entry.partitions)
        )
        assert told_now == expected.assigned
        if told_now is not None:
            self.owns[id_] = told_now

    def leave(self) -> None:
        if not self.model.members:
            return
        members = list(self.model.members.values())
        owing = [member for member in members if member.instance is not None and member.state == OWES]
        member = self.dice.choice(members + owing * 4)
        instance = self.dice.choice((member.instance, member.instance, None, "i"))
        epoch = -1 if instance is None or self.dice.random() < 0.3 else AWAY
        if member.classic is not None and epoch == AWAY:
            return
        request = ConsumerGroupHeartbeatRequest("g", member.id, epoch, instance)
        answer = self.driver.handle(request, self.driver.call(1)).response
        assert answer.error_code == self.model.leave(member.id, instance, epoch)
        assert answer.error_code or (answer.member_id, answer.member_epoch) == (member.id, epoch)

    # -- the classic protocol ------------------------------------------------------------------------------------------

    def join_classic(self) -> None:
        """A new classic member, or a static one that comes back without an id, whichever protocol it spoke."""
        if not self.model.members:
            return
        self.send_join("", self.dice.choice((None, None, None, *INSTANCES)), self.dice.choice((3, 9)))

    def rejoin(self) -> None:
        member = self.somebody()
        if member is not None:
            instance = self.dice.choice([member.instance] * 5 + [None, "i"])
            self.send_join(member.id, instance, 9)

    def send_join(self, id_: str, instance: str | None, version: int, names: frozenset[str] | None = None) -> None:
        dice, driver = self.dice, self.driver
        session_ms, rebalance_ms = dice.choice((10_007, 15_013)), dice.choice((12_001, 25_007, -1))
        subscription_version = dice.choice((0, 1, 2, 3))
        known, behaves = self.model.members.get(id_), names is not None
        if names is None:
            names = frozenset(dice.sample(NAMES, dice.randint(0, 3)))
            names = known.names if known is not None and dice.random() < 0.5 else names
        owned = self.reported(id_) if subscription_version else ()
        rack = dice.choice((None, "r1")) if subscription_version == 3 else None
        subscription = embedded.ConsumerProtocolSubscription(tuple(sorted(names)), None, owned, -1, rack)
        metadata = embedded.write(subscription, subscription_version)
        offered = (
            ("range",) if behaves else dice.choice((("range",), ("range", "sticky"), ("sticky", "range"), ("other",)))
        )
        last = embedded.write(subscription, 3 - subscription_version)  # the first one's version counts
        protocols = tuple((name, last if at else metadata) for at, name in enumerate(offered))
        request = JoinGroupRequest(
            "g", session_ms, rebalance_ms, id_, instance, "consumer",
            tuple(JoinGroupRequestProtocol(*protocol) for protocol in protocols),
        )  # fmt: skip
        driver.answered.clear()
        call = driver.call(version)
        named = id_ or str(driver.ids + 1)
        result = driver.handle(request, call)
        answer = result.response or driver.answered[call.ticket]
        topics = driver.topics
        told = frozenset(
            (topics.id_of(entry.topic), p) for entry in owned if entry.topic in topics for p in entry.partitions
        )
        says = Says(
            names, "", instance, rack, None, session_ms if rebalance_ms == -1 else rebalance_ms, "/127.0.0.1",
            Classic(session_ms, protocols),
        )  # fmt: skip
        expected = self.model.join(named, says, told, driver.now_ms, self.targets, is_named=bool(id_), version=version)
        assert answer.error_code == expected.error
        if answer.error_code:
            assert result.group is None and not result.records
            return
        assert (answer.member_id, answer.generation_id, answer.protocol_name) == (named, expected.epoch, offered[0])

    def reported(self, id_: str) -> tuple[embedded.ConsumerProtocolSubscriptionTopicPartition, ...]:
        """What a classic member says that it owns, by the names of topics; some of them are gone."""
        found: dict[str, set[int]] = {}
        names = {topic.id: name for name, topic in self.driver.topics.items()}
        for entry in self.told(id_) or ():
            found.setdefault(names.get(entry.topic_id, "gone"), set()).update(entry.partitions)
        return tuple(
            embedded.ConsumerProtocolSubscriptionTopicPartition(name, tuple(sorted(partitions)))
            for name, partitions in found.items()
        )

    def behave(self) -> None:
        """Some members do what their protocol asks for, so that the group gets on."""
        for id_ in self.dice.sample(list(self.model.members), min(len(self.model.members), 2)):
            member = self.model.members.get(id_)
            if member is None or member.is_away or self.model.converted is not None:
                continue
            owns = frozenset(member.assigned)
            if member.classic is None:
                entries = [partitions_of(topic_id, owns) for topic_id in sorted({topic_id for topic_id, _ in owns})]
                told = tuple(entries) if self.dice.random() < 0.7 else None
                self.say(id_, member.epoch, member.instance, Says(host="/127.0.0.1"), told)
                continue
            request = HeartbeatRequest("g", member.epoch, id_, member.instance)
            error = self.driver.handle(request, self.driver.call(4)).response.error_code
            assert error == self.model.heartbeat(id_, member.instance, member.epoch, self.driver.now_ms)
            if error or ("sync", id_) in self.model.timers:
                self.owns[id_] = owns
                self.send_join(id_, member.instance, 9, names=member.names)

    def convert(self) -> None:
        """All members come to speak the classic protocol, one that is static last, under another id."""
        statics = [member for member in self.model.members.values() if member.instance and member.classic is None]
        last = self.dice.choice(statics) if statics else None
        for member in list(self.model.members.values()):
            if member.classic is None and member is not last and self.model.converted is None:
                self.send_join(member.id, member.instance, 9, names=member.names)
        if last is not None and self.model.converted is None:
            self.send_join("", last.instance, 9, names=last.names)

    def somebody(self) -> Member | None:
        """A classic member, more often than not."""
        members = list(self.model.members.values())
        classic = [member for member in members if member.classic is not None]
        return self.dice.choice(classic * 4 + members) if members else None

    def sync(self) -> None:
        member = self.somebody()
        if member is None:
            return
        instance = self.dice.choice([member.instance] * 4 + [None, "i"])
        generation = self.dice.choice([member.epoch] * 4 + [member.epoch - 1])
        name = member.classic.protocols[0][0] if member.classic is not None else "range"
        named = self.dice.choice((None, name, name, "wrong"))
        request = SyncGroupRequest("g", generation, member.id, instance, None if named is None else "consumer", named)
        answer = self.driver.handle(request, self.driver.call(3 if named is None else 5)).response
        before = dict(self.model.timers)
        expected = self.model.sync(member.id, instance, generation, self.driver.now_ms)
        if named == "wrong" and expected.error in (0, 27):
            self.model.timers = before
            assert answer.error_code == INCONSISTENT
            return
        assert answer.error_code == expected.error
        if answer.error_code:
            return
        names = {topic.id: name for name, topic in self.driver.topics.items()}
        assert expected.assigned is not None
        read = embedded.read_assignment(answer.assignment)
        classic = self.model.members[member.id].classic
        assert classic is not None
        assert embedded.version_of(answer.assignment) == embedded.version_of(classic.protocols[0][1])
        owned = {(entry.topic, p) for entry in read.assigned_partitions for p in entry.partitions}
        assert owned == {(names[topic_id], p) for topic_id, p in expected.assigned if topic_id in names}
        self.owns[member.id] = expected.assigned

    def heartbeat(self) -> None:
        member = self.somebody()
        if member is None:
            return
        instance = self.dice.choice([member.instance] * 4 + [None, "i"])
        generation = self.dice.choice([member.epoch] * 5 + [member.epoch - 1])
        request = HeartbeatRequest("g", generation, member.id, instance)
        answer = self.driver.handle(request, self.driver.call(4)).response
        assert answer.error_code == self.model.heartbeat(member.id, instance, generation, self.driver.now_ms)

    def leave_group(self) -> None:
        """Some members at once, of either protocol."""
        named: list[tuple[str, str | None]] = []
        for _ in range(self.dice.randint(1, 3)):
            member = self.dice.choice([*self.model.members.values(), Member("nobody")])
            instance = self.dice.choice((member.instance, None, "i"))
            named.append(("" if instance is not None and self.dice.random() < 0.5 else member.id, instance))
        if self.dice.random() < 0.3:
            named = [(member.id, None) for member in self.model.members.values() if member.classic is None]
        if not named or not self.model.members:
            return
        request = LeaveGroupRequest("g", members=tuple(LeaveGroupRequestMemberIdentity(*each) for each in named))
        answer = self.driver.handle(request, self.driver.call(5)).response
        assert [each.error_code for each in answer.members] == self.model.leave_group(named)

    # -- the world around ----------------------------------------------------------------------------------------------

    def change_topics(self) -> None:
        """A topic comes, grows, goes, or is made again."""
        topics, name = self.driver.topics, self.dice.choice(NAMES)
        known, how = topics.get(name), self.dice.random()
        if known is not None and how < 0.4:
            topics = topics.without_topic(name)
        elif known is not None and how < 0.7:
            topics = topics.with_topic(replace(known, partitions=known.partitions + 1))
        else:
            self.topic_ids += 1
            topics = topics.with_topic(Topic(name, bytes([self.topic_ids % 256]) * 16, self.dice.randint(1, 3)))
        self.driver.set_topics(topics)
        self.model.topics = topics

    def wait(self) -> None:
        for _ in range(self.dice.choice((1, 3_000, 11_000, 30_000, 50_000)) // 1_000):
            self.driver.wait(1_000)
            self.model.fire(self.driver.now_ms)
            if self.model.converted is not None:
                return
            self.model.now = self.driver.now_ms

    def wait_exactly(self) -> None:
        """Until an interval is just over, or just not: whatever comes next comes at that moment."""
        limits, model = self.driver.limits, self.model
        at_ms = self.dice.choice(
            (
                model.assigned_ms + limits.group_consumer_assignment_interval_ms,
                model.resolved_ms + THROTTLE_MS,
                model.resolved_ms + limits.group_consumer_regex_refresh_interval_ms,
            )
        ) + self.dice.choice((0, 0, 1))
        while self.driver.now_ms < at_ms <= self.driver.now_ms + 60_000 and model.converted is None:
            self.driver.advance(min(self.driver.now_ms + 1_000, at_ms))
            model.fire(self.driver.now_ms)

    def restart(self) -> None:
        if self.dice.random() < 0.3:  # this server counts changes of topics from the beginning
            self.driver.topics = self.model.topics = Topics(self.driver.topics.values(), 0, 0)
        self.start_again()
        self.model.restart(self.driver.now_ms, self.group.members if self.model.exists else ())

    def interfere(self) -> None:
        """What an operator may do."""
        if not self.model.members:
            return
        member, call, how = self.dice.choice(list(self.model.members.values())), self.driver.call(0), self.dice.random()
        if how < 0.3:
            self.driver.handle(RemoveMember("g", member.id), call)
            self.model.remove([member.id])
        elif how < 0.6:
            self.driver.handle(Rebalance("g"), call)
            self.model.raise_epoch()
        else:
            self.force()

    def force(self) -> None:
        """Force a target: of several topics and members, or one that cannot be."""
        topics, ids = self.driver.topics, list(self.model.members)
        dealt: dict[str, dict[str, list[int]]] = {}
        wanted = self.model.existing_topics()
        for topic in wanted:
            for p in range(topic.partitions):
                if self.dice.random() < 0.9:
                    dealt.setdefault(self.dice.choice(ids), {}).setdefault(topic.name, []).insert(0, p)
        how, name, is_wrong = self.dice.random(), self.dice.choice(NAMES), True
        if how < 0.1:
            dealt.setdefault("nobody", {})
        elif how < 0.2:
            dealt.setdefault(ids[-1], {})["gone"] = [0]
        elif how < 0.3 and name in topics:
            dealt.setdefault(ids[-1], {})[name] = [self.dice.choice((-1, topics[name].partitions))]
        elif how < 0.4 and len(ids) > 1 and wanted:
            shared = min(wanted, key=lambda topic: topic.name).name
            dealt = {id_: {**dealt.get(id_, {}), shared: [0]} for id_ in ids[:2]}
        else:
            is_wrong = False
        standbys = {ids[0]: {"0": (1,)}} if 0.4 <= how < 0.5 else {}
        forced = {id_: {name: tuple(parts) for name, parts in target.items()} for id_, target in dealt.items()}
        before = self.group
        answer = self.driver.handle(SetTarget("g", forced, standbys), self.driver.call(0)).response
        if is_wrong or standbys:
            assert self.group is before
            assert answer.refusal.startswith("invalid topic 'gone'" if 0.1 <= how < 0.2 else "invalid ")
            return
        assert not answer.refusal
        self.model.set_target(
            {id_: frozenset((topics.id_of(name), p) for name, ps in target.items() for p in ps) for id_, target in forced.items()},
            self.driver.now_ms,
        )  # fmt: skip

    def upgrade(self) -> None:
        """A classic group with an assignment of its leader's, which a consumer joins then."""
        if self.model.exists:
            if not self.model.members:
                self.forget()
            return
        driver, dice = self.driver, self.dice
        joined: dict[str, tuple[frozenset[str], str | None, Classic, int]] = {}
        driver.answered.clear()
        for number in range(dice.randint(1, min(3, driver.limits.group_max_size))):
            names = frozenset(dice.sample(NAMES, dice.randint(0, 3)))
            instance = dice.choice((None, "ij"[number] if number < 2 else None))
            classic = Classic(
                dice.choice((10_007, 15_013)),
                (("range", embedded.write(embedded.ConsumerProtocolSubscription(tuple(sorted(names))), 1)),),
            )
            rebalance_ms = dice.choice((12_001, 25_007))
            offered = tuple(JoinGroupRequestProtocol(*protocol) for protocol in classic.protocols)
            request = JoinGroupRequest("g", classic.session_ms, rebalance_ms, "", instance, "consumer", offered)
            call = driver.call(5 if instance else 3)
            driver.handle(request, call)
            joined[f"{instance or 'c'}-{driver.ids}"] = (names, instance, classic, rebalance_ms)
        driver.fire()
        assert {answer.member_id for answer in driver.answered.values()} == set(joined)
        leader = next(iter(driver.answered.values())).leader
        dealt, is_wrong = self.deal(joined)
        shares = tuple(SyncGroupRequestAssignment(id_, written) for id_, (written, _) in dealt.items())
        synced = [leader] if dice.random() < 0.3 else [leader, *(id_ for id_ in joined if id_ != leader)]
        for id_ in synced:
            driver.handle(SyncGroupRequest("g", 1, id_, joined[id_][1], assignments=shares), driver.call(4))
        driver.wait(1)
        before = self.group
        members = [
            Member(
                id_, names, "", instance, None, None, rebalance_ms, "/127.0.0.1", classic, 1, 1,
                assigned=dict.fromkeys(dealt[id_][1], 1),
            )
            for id_, (names, instance, classic, rebalance_ms) in joined.items()
        ]  # fmt: skip
        is_possible = self.model.upgrade(1, members, driver.now_ms) and not is_wrong
        limits, size = driver.limits, len(members)
        is_possible = is_possible and limits.group_consumer_migration_policy.upgrades
        if is_possible and size < limits.group_consumer_max_size:
            self.owns = {id_: frozenset(owned) for id_, (_, owned) in dealt.items()}
            self.say(self.new_id(), 0, dice.choice((None, "i")), self.says(joins=True), ())
            return
        request = ConsumerGroupHeartbeatRequest("g", self.new_id(), 0, None, None, 9_001, ("a",), None, None, ())
        answer = driver.handle(request, driver.call(1)).response
        if is_possible and size == limits.group_consumer_max_size:
            assert answer.error_code == FULL
        else:
            assert answer.error_code == NO_GROUP and answer.error_message.startswith("Cannot upgrade classic group g")
        assert self.group is before
        self.forget()

    def deal(self, joined: Mapping[str, Any]) -> tuple[dict[str, tuple[bytes, set[Partition]]], bool]:
        """What a leader assigns: the bytes and what they say, for each member; and whether it is more than partitions."""
        topics, dice = self.driver.topics, self.dice
        owned: dict[str, list[tuple[str, int]]] = {id_: [] for id_ in joined}
        for name, topic in topics.items():
            for p in range(topic.partitions):
                if dice.random() < 0.9:
                    owned[dice.choice(list(owned))].append((name, p))
        how, some = dice.random(), dice.choice(list(owned))
        if how < 0.1 and topics:
            topic = topics[dice.choice(list(topics))]
            owned[some].append((topic.name, dice.choice((-1, topic.partitions))))
        elif how < 0.2 and owned[some] and len(owned) > 1:
            owned[next(id_ for id_ in owned if id_ != some)].append(owned[some][0])
        elif how < 0.3:
            owned[some].append(("gone", 0))
        entry = embedded.ConsumerProtocolAssignmentTopicPartition
        dealt = {}
        for id_, parts in owned.items():
            entries = [entry(name, (p,)) for name, p in parts] + [entry("a", ())]  # a topic more than once
            data = b"mine" if 0.3 <= how < 0.4 and id_ == some else None
            written = embedded.write(embedded.ConsumerProtocolAssignment(tuple(entries), data), dice.choice((0, 1)))
            dealt[id_] = written, {(topics.id_of(name), p) for name, p in parts if name in topics}
        return dealt, 0.3 <= how < 0.4

    def new_id(self) -> str:
        self.ids += 1
        return f"m{self.ids}"


def partitions_of(topic_id: bytes, owned: Iterable[Partition]) -> ConsumerGroupHeartbeatRequestTopicPartitions:
    return ConsumerGroupHeartbeatRequestTopicPartitions(
        topic_id, tuple(p for each, p in sorted(owned) if each == topic_id)
    )


def flat(owned: Mapping[bytes, Iterable[int]]) -> list[Partition]:
    return [(topic_id, p) for topic_id, partitions in owned.items() for p in partitions]


def as_model(member: Any) -> Member:
    """A member of the shard's as the model has it."""
    metadata, classic = member.metadata, member.classic
    return Member(
        member.member_id,
        frozenset(member.names),
        member.pattern,
        member.instance_id,
        metadata.rack_id,
        metadata.server_assignor,
        metadata.rebalance_timeout_ms,
        metadata.client_host,
        None
        if classic is None
        else Classic(
            classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
        ),
        member.epoch,
        member.previous_epoch,
        member.state.name,
        {(topic_id, p): since for topic_id, held in member.assigned.items() for p, since in held.items()},
        {(topic_id, p): since for topic_id, held in member.pending.items() for p, since in held.items()},
    )


@pytest.mark.parametrize("first", range(0, LIVES, 20))
def test_whatever_members_do_the_group_is_the_model_s(first: int) -> None:
    for seed in range(first, first + 20):
        Life(seed).play()
