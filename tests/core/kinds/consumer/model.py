"""A consumer group, thought of a second time: sets of partitions, no records, no counters or indices, and slow.

It says what each request is answered, what a member then owns and has to give up, and which timers run. What an assignor
chooses is not thought of again: the model takes the target that the shard has computed, when one is due, if it gives each
partition of the topics to one member that subscribes to it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from coordinator.core import regex
from coordinator.core.limits import Limits
from coordinator.core.topics import Topic, Topics

OK, ILLEGAL, INCONSISTENT, UNKNOWN, REBALANCING, NO_GROUP = 0, 22, 23, 25, 27, 69
ID_REQUIRED, FULL, FENCED_INSTANCE, FENCED_EPOCH, UNRELEASED = 79, 81, 82, 110, 111
STABLE, OWES, WAITS = "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"
AWAY = -2
THROTTLE_MS = 10_000

Partition = tuple[bytes, int]
Owned = dict[Partition, int]  # with the epoch in which it came
Told = frozenset[Partition] | None  # what a member says that it owns
Targets = Mapping[str, frozenset[Partition]]


@dataclass(frozen=True)
class Classic:
    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.protocols}


@dataclass(frozen=True)
class Member:
    id: str
    names: frozenset[str] = frozenset()
    pattern: str = ""
    instance: str | None = None
    rack: str | None = None
    assignor: str | None = None
    rebalance_ms: int = -1
    host: str = ""
    classic: Classic | None = None
    epoch: int = 0
    previous: int = -1
    state: str = STABLE
    assigned: Owned = field(default_factory=dict)
    pending: Owned = field(default_factory=dict)

    @property
    def is_away(self) -> bool:
        return self.epoch == AWAY

    @property
    def held(self) -> set[Partition]:
        return {*self.assigned, *self.pending}


@dataclass(frozen=True)
class Says:
    """What a request changes about a member; None leaves it as it is."""

    names: frozenset[str] | None = None
    pattern: str | None = None
    instance: str | None = None
    rack: str | None = None
    assignor: str | None = None
    rebalance_ms: int | None = None
    host: str = ""
    classic: Classic | None = None


@dataclass(frozen=True)
class Answer:
    error: int = OK
    epoch: int = 0
    assigned: frozenset[Partition] | None = None


class RefusalError(Exception):
    def __init__(self, error: int) -> None:
        super().__init__(error)
        self.answer = Answer(error)


@dataclass
class Model:
    limits: Limits
    topics: Topics
    epoch: int = 1
    assignment_epoch: int = 1
    assigned_ms: int = 0
    exists: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, frozenset[Partition]] = field(default_factory=dict)
    resolved: dict[str, frozenset[str]] = field(default_factory=dict)
    resolved_ms: int = 0
    resolved_version: int = 0
    resolving: Topics | None = None  # the topics that patterns are being matched against
    matching: list[str] = field(default_factory=list)  # these patterns
    noted: frozenset[Topic] = frozenset()  # the topics for which the epoch was raised last
    seen: Topics | None = None
    timers: dict[tuple[str, str], int] = field(default_factory=dict)
    converted: list[Member] | None = None  # the members of the classic group that it has become
    generation: int = 0  # of that group
    rebalances: bool = False  # that one
    gone: list[str] = field(default_factory=list)  # members that were removed, for others to take note of
    now: int = 0

    # -- requests ------------------------------------------------------------------------------------------------------

    def beat(
        self, id_: str, epoch: int, says: Says, told: Told, *, full: bool, now: int, targets: Callable[[], Targets]
    ) -> Answer:
        """ConsumerGroupHeartbeat of a member that joins or stays."""
        if not self.exists and epoch != 0:
            return Answer(NO_GROUP)
        if self.is_full(id_, says.instance):
            return Answer(FULL)
        joins = epoch == 0
        old = self.by_instance(says.instance)
        if joins and old is not None and old.classic is None and not old.is_away:
            return Answer(UNRELEASED)
        if joins and old is not None:
            found = self.replace(old, id_)
        elif joins:
            found = self.members.get(id_) or Member(id_)
        else:
            try:
                found = self.find(id_, says.instance)
            except RefusalError as refused:
                return refused.answer
            repeats = epoch == found.previous and epoch < found.epoch and told is not None and told <= {*found.assigned}
            if epoch != found.epoch and not repeats:
                return Answer(FENCED_EPOCH)
        self.exists = True
        member = self.advance(found, says, told, now, targets)
        if found.classic is not None:
            self.stop("join", id_)
            self.stop("sync", id_)
        self.timers["session", id_] = now + self.limits.group_consumer_session_timeout_ms
        tells = joins or full or member.assigned != found.assigned
        return Answer(OK, member.epoch, frozenset(member.assigned) if tells else None)

    def leave(self, id_: str, instance: str | None, epoch: int) -> int:
        """ConsumerGroupHeartbeat of a member that leaves."""
        if not self.exists:
            return NO_GROUP
        try:
            member = self.find(id_, instance)
        except RefusalError as refused:
            return refused.answer.error
        if epoch == AWAY:
            self.members[id_] = replace(member, epoch=AWAY, assigned=dict.fromkeys(member.assigned, 0), pending={})
        else:
            self.remove([id_])
        return OK

    def join(
        self,
        id_: str,
        says: Says,
        told: Told,
        now: int,
        targets: Callable[[], Targets],
        *,
        is_named: bool,
        version: int,
    ) -> Answer:
        """JoinGroup. A member that `is_named` has brought its id."""
        assert says.classic is not None
        if self.limits.group_consumer_migration_policy == "disabled":
            return Answer(INCONSISTENT)
        if self.is_full(id_, says.instance):
            return Answer(FULL)
        everybody = [member.classic.names for member in self.members.values() if member.classic]
        if not any(all(name in names for names in everybody) for name in says.classic.names):
            return Answer(INCONSISTENT)
        if not is_named and says.instance is None and version >= 4:
            return Answer(ID_REQUIRED)
        old = self.by_instance(says.instance)
        others = [member for member in self.members.values() if member is not old]
        ends = old is not None and self.can_convert(others, len(self.members))
        try:
            if is_named and says.instance is not None:
                found = self.find(id_, says.instance)
            elif old is not None:
                found = self.replace(old, id_)
            else:
                found = self.members.get(id_) or Member(id_)
        except RefusalError as refused:
            return refused.answer
        if ends:
            self.generation = self.epoch  # before this request
            changed = self.keep(found, says, now)
            if self.assignment_epoch == self.epoch:
                self.move(id_, told, now, resubscribed=changed)
            is_settled = all(one.epoch == self.epoch and one.state == STABLE for one in self.members.values())
            self.converted, self.rebalances = list(self.members.values()), not is_settled
            return Answer(OK, self.members[id_].epoch)
        member = self.advance(found, says, told, now, targets)
        self.stop("join", id_)
        self.timers["session", id_] = now + says.classic.session_ms
        self.timers["sync", id_] = now + member.rebalance_ms
        return Answer(OK, member.epoch)

    def sync(self, id_: str, instance: str | None, generation: int, now: int) -> Answer:
        try:
            member, classic = self.find_classic(id_, instance, generation)
        except RefusalError as refused:
            return refused.answer
        if self.assignment_epoch > member.epoch and member.state != OWES:
            self.timers.setdefault(("join", id_), now + member.rebalance_ms)
            return Answer(REBALANCING)
        self.stop("sync", id_)
        self.timers["session", id_] = now + classic.session_ms
        return Answer(OK, 0, frozenset(member.assigned))

    def heartbeat(self, id_: str, instance: str | None, generation: int, now: int) -> int:
        """Heartbeat of a classic member."""
        try:
            member, classic = self.find_classic(id_, instance, generation)
        except RefusalError as refused:
            return refused.answer.error
        self.timers["session", id_] = now + classic.session_ms
        missing = self.targets.get(id_, frozenset()) - {*member.assigned}
        can_take = member.state == WAITS and not any(self.holder(each) for each in missing)
        if member.epoch < self.assignment_epoch or member.state == OWES or can_take:
            self.timers.setdefault(("join", id_), now + member.rebalance_ms)
            return REBALANCING
        return OK

    def leave_group(self, named: list[tuple[str, str | None]]) -> list[int]:
        """LeaveGroup of several members; an empty id is that of a static one."""
        going, errors = [], []
        for id_, instance in named:
            old = self.by_instance(instance)
            try:
                member = old if old is not None and not id_ else self.find(id_, instance)
            except RefusalError as refused:
                errors.append(refused.answer.error)
                continue
            errors.append(OK)
            going.append(member.id)
        self.remove(going)
        return errors

    def set_target(self, targets: Targets, now: int) -> None:
        self.raise_epoch()
        self.targets = {id_: targets.get(id_, frozenset()) for id_ in self.members}
        self.assignment_epoch, self.assigned_ms = self.epoch, now

    def upgrade(self, generation: int, members: Iterable[Member], now: int) -> bool:
        """Become a consumer group of the members of a classic one. Return whether that can be."""
        self.members = {member.id: member for member in members}
        everything = [each for member in self.members.values() for each in member.assigned]
        if len(everything) > len({*everything}) or any(not self.is_there(each) for each in everything):
            return False
        self.exists = True
        self.targets = {id_: frozenset(member.assigned) for id_, member in self.members.items()}
        self.epoch = self.assignment_epoch = generation
        topics = self.existing_topics()
        is_whole = {*everything} >= {(topic.id, p) for topic in topics for p in range(topic.partitions)}
        self.noted = topics if is_whole else frozenset()
        for member in self.members.values():
            assert member.classic is not None
            self.timers["session", member.id] = now + member.classic.session_ms
        return True

    # -- time ----------------------------------------------------------------------------------------------------------

    def fire(self, now: int) -> None:
        """Do what is due, the earliest first."""
        while self.converted is None and (due := min(self.timers, key=self.timers.__getitem__, default=None)):
            if self.timers[due] > now:
                return
            self.now = self.timers.pop(due)
            kind, id_ = due
            if kind == "regex":
                self.resolve(self.now)
            elif kind != "rebalance" or (self.members[id_].state == OWES and not self.members[id_].is_away):
                self.remove([id_])

    def restart(self, now: int, order: Iterable[str]) -> None:
        """Only what was written is left, and every member has a full session, and full time to give up. They end at
        once, in the `order` of the members."""
        self.resolving = self.seen = None
        self.timers = {("session", id_): now + self.limits.group_consumer_session_timeout_ms for id_ in order}
        for id_, member in self.members.items():
            if member.state == OWES:
                self.timers["rebalance", id_] = now + member.rebalance_ms

    def resolve(self, now: int) -> None:
        """Keep what matches the patterns that somebody still has, of the topics of when that began."""
        assert self.resolving is not None
        topics, self.resolving = self.resolving, None
        before = dict(self.resolved)
        for pattern in self.matching:
            if pattern in self.patterns():
                self.resolved[pattern] = frozenset(regex.matches(pattern, list(topics)))
                self.resolved_ms, self.resolved_version = now, topics.version
        is_changed = any(found != before.get(pattern, frozenset()) for pattern, found in self.resolved.items())
        if is_changed or self.existing_topics() != self.noted:
            self.raise_epoch()
            self.seen = self.topics

    # -- the group -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        are_settled = all(
            member.epoch == self.assignment_epoch and member.state == STABLE for member in self.members.values()
        )
        return "Stable" if are_settled else "Reconciling"

    def can_convert(self, members: Iterable[Member], size: int) -> bool:
        """Return whether a group of these members, and perhaps one more, may be a classic one."""
        may = self.limits.group_consumer_migration_policy.downgrades and size <= self.limits.group_max_size
        return may and all(member.classic for member in members)

    def is_full(self, id_: str, instance: str | None) -> bool:
        is_known = id_ in self.members or self.by_instance(instance) is not None
        return len(self.members) >= self.limits.group_consumer_max_size and not is_known

    def by_instance(self, instance: str | None) -> Member | None:
        return next((one for one in self.members.values() if instance is not None and one.instance == instance), None)

    def find(self, id_: str, instance: str | None) -> Member:
        if instance is not None:
            known = self.by_instance(instance)
            if known is None or known.id != id_:
                raise RefusalError(UNKNOWN if known is None else FENCED_INSTANCE)
        if id_ not in self.members:
            raise RefusalError(UNKNOWN)
        return self.members[id_]

    def find_classic(self, id_: str, instance: str | None, generation: int) -> tuple[Member, Classic]:
        member = self.find(id_, instance)
        if member.classic is None:
            raise RefusalError(UNKNOWN)
        if member.epoch != generation:
            raise RefusalError(ILLEGAL)
        return member, member.classic

    def replace(self, old: Member, id_: str) -> Member:
        if id_ != old.id and id_ in self.members:  # of a member that is no more
            del self.members[id_]
            self.stop_all(id_)
            self.forget_patterns()
        del self.members[old.id]
        if old.id != id_:
            self.stop_all(old.id)
        target = self.targets.pop(old.id, frozenset())
        self.members[id_], self.targets[id_] = replace(old, id=id_, epoch=0, previous=0), target
        return self.members[id_]

    def remove(self, ids: list[str]) -> None:
        """Let members go, all at once; a group of which only classic ones stay becomes a classic one."""
        going = set(ids)
        staying = [member for id_, member in self.members.items() if id_ not in going]
        if not going:
            return
        self.gone += going
        if staying and self.can_convert(staying, len(staying)):
            self.converted, self.rebalances, self.generation = staying, True, self.epoch
            return
        for id_ in going:
            del self.members[id_]
            self.targets.pop(id_, None)
            self.stop_all(id_)
        self.forget_patterns()
        self.raise_epoch()
        if not self.members:
            self.assignment_epoch, self.assigned_ms = self.epoch, 0

    def forget_patterns(self) -> None:
        self.resolved = {pattern: found for pattern, found in self.resolved.items() if pattern in self.patterns()}

    def raise_epoch(self) -> None:
        self.epoch, self.noted = self.epoch + 1, self.existing_topics()

    # -- a member's step -----------------------------------------------------------------------------------------------

    def advance(self, found: Member, says: Says, told: Told, now: int, targets: Callable[[], Targets]) -> Member:
        changed = self.keep(found, says, now)
        interval_ms = self.limits.group_consumer_assignment_interval_ms
        if self.epoch > self.assignment_epoch and not 0 <= now - self.assigned_ms < interval_ms:
            self.take_target(targets(), now)
        self.move(found.id, told, now, resubscribed=changed)
        return self.members[found.id]

    def keep(self, found: Member, says: Says, now: int) -> bool:
        """Keep what the member says. Return whether it subscribes to something else."""
        before, assignor_before = (
            replace(self, members=dict(self.members), resolved=dict(self.resolved)),
            self.assignor(),
        )
        changes = {
            name: value
            for name in ("names", "pattern", "instance", "rack", "assignor", "rebalance_ms")
            if (value := getattr(says, name)) is not None
        }
        member = self.members[found.id] = replace(found, host=says.host, classic=says.classic, **changes)
        other_names, other_pattern = member.names != found.names, member.pattern != found.pattern
        if found.pattern and found.pattern not in self.patterns():
            self.resolved.pop(found.pattern, None)
        is_new_pattern = other_pattern and bool(member.pattern) and member.pattern not in before.patterns()
        is_known = not member.pattern or (member.pattern in before.resolved and not is_new_pattern)
        self.refresh(before, now, is_new=is_new_pattern)
        raises = other_names or (other_pattern and is_known) or self.assignor() != assignor_before
        if raises or (before.have_topics_changed(self.topics) and self.existing_topics() != self.noted):
            self.raise_epoch()
        self.seen = self.topics
        return other_names or other_pattern

    def refresh(self, before: "Model", now: int, *, is_new: bool) -> None:
        """Have the patterns matched again, if it is time."""
        if self.resolving is not None or not self.patterns():
            return
        age_ms = now - self.resolved_ms
        if before.resolved and 0 <= age_ms <= THROTTLE_MS:
            return
        is_old = bool(before.resolved) and (
            not self.topics.created_version <= self.resolved_version <= self.topics.version
            or age_ms > self.limits.group_consumer_regex_refresh_interval_ms
        )
        if is_new or len(self.patterns()) != len(before.resolved) or is_old:
            self.resolving, self.matching = self.topics, sorted(self.patterns())
            self.timers["regex", ""] = now

    def take_target(self, targets: Targets, now: int) -> None:
        """Take a target that the shard has computed, if it is one."""
        wanted = {(topic.id, p) for topic in self.existing_topics() for p in range(topic.partitions)}
        given = [each for target in targets.values() for each in target]
        assert sorted(given) == sorted(wanted), "each partition is given to one member"
        assert set(targets) == set(self.members), "every member has a target"
        for id_, target in targets.items():
            assert {topic for topic, _ in target} <= self.subscribed(self.members[id_]), f"{id_} does not want that"
        self.targets, self.assignment_epoch, self.assigned_ms = dict(targets), self.epoch, now

    def move(self, id_: str, told: Told, now: int, *, resubscribed: bool) -> None:
        member = self.members[id_]
        is_at = member.epoch == self.assignment_epoch and member.state == STABLE
        still_owes = member.state == OWES and self.may_own(told, member.pending)
        if (is_at or still_owes) and not resubscribed:
            return
        after = self.unsubscribe(member, told) if is_at or still_owes else self.step(member, told)
        if after == member:
            return
        self.members[id_] = after
        if member.state == OWES and after.state != OWES:
            self.stop("rebalance", id_)
        if after.state == OWES and after.classic is None:
            self.timers["rebalance", id_] = now + after.rebalance_ms

    def step(self, member: Member, told: Told) -> Member:
        """Give up what the target lacks; without anything to give up, take what nobody else holds."""
        subscribed = self.subscribed(member)
        target = {each for each in self.targets.get(member.id, ()) if each[0] in subscribed}
        kept = {each: since for each, since in member.assigned.items() if each in target}
        lost = {each: since for each, since in member.assigned.items() if each not in target}
        if lost and self.may_own(told, lost):
            return replace(member, state=OWES, previous=member.epoch, assigned=kept, pending=lost)
        new = target - kept.keys()
        free = {each for each in new if self.holder(each) in (None, member.id)}
        return replace(
            member,
            state=STABLE if free == new else WAITS,
            epoch=self.assignment_epoch,
            previous=member.epoch,
            assigned={**kept, **dict.fromkeys(free, self.assignment_epoch)},
            pending={},
        )

    def unsubscribe(self, member: Member, told: Told) -> Member:
        """Give up what is of topics that the member no longer wants, whatever its target still says."""
        subscribed = self.subscribed(member)
        kept = {each: since for each, since in member.assigned.items() if each[0] in subscribed}
        if kept == member.assigned:
            return member
        pending = {**member.pending, **member.assigned}
        pending = {each: since for each, since in pending.items() if each not in kept}
        if self.may_own(told, pending):
            return replace(member, state=OWES, previous=member.epoch, assigned=kept, pending=pending)
        return replace(member, previous=member.epoch, assigned=kept)

    @staticmethod
    def may_own(told: Told, partitions: Owned) -> bool:
        return told is None or not told.isdisjoint(partitions)

    def holder(self, partition: Partition) -> str | None:
        return next((id_ for id_, member in self.members.items() if partition in member.held), None)

    # -- topics --------------------------------------------------------------------------------------------------------

    def patterns(self) -> set[str]:
        return {member.pattern for member in self.members.values() if member.pattern}

    def existing_topics(self, topics: Topics | None = None) -> frozenset[Topic]:
        names = {name for member in self.members.values() for name in member.names}.union(*self.resolved.values())
        found = self.topics if topics is None else topics
        return frozenset(found[name] for name in names if name in found)

    def subscribed(self, member: Member) -> set[bytes]:
        names = member.names | self.resolved.get(member.pattern, frozenset())
        return {self.topics.id_of(name) for name in names if name in self.topics}

    def have_topics_changed(self, topics: Topics) -> bool:
        return self.seen is None or self.existing_topics(self.seen) != self.existing_topics(topics)

    def is_there(self, partition: Partition) -> bool:
        topic = self.topics.by_id(partition[0])
        return topic is not None and 0 <= partition[1] < topic.partitions

    def assignor(self) -> str:
        """The one that most members ask for; of several the one that is configured first."""
        votes = [member.assignor for member in self.members.values()]
        return max(self.limits.group_consumer_assignors, key=votes.count)

    # -- timers --------------------------------------------------------------------------------------------------------

    def stop(self, kind: str, id_: str) -> None:
        self.timers.pop((kind, id_), None)

    def stop_all(self, id_: str) -> None:
        for kind in ("session", "rebalance", "join", "sync"):
            self.stop(kind, id_)
