"""A classic group, thought of a second time: plain, mutable, without counters or shared parts, and slow.

It says what each request is answered and when what is parked is answered; tests hold the shard against it. Where the
rules leave a choice, who leads, it takes what the shard chose, if it may.
"""

from dataclasses import dataclass, field

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
OK, ILLEGAL, UNKNOWN, REBALANCING, ID_REQUIRED, FENCED, INCONSISTENT = 0, 22, 25, 27, 79, 82, 23
NEW_MEMBER_MS = 300_000
WALKED = ("sticky", "range", "roundrobin")  # as a Java HashMap has them: their hashes end in 8, 9 and a


@dataclass
class Member:
    id: str
    instance: str | None
    protocols: tuple[str, ...]
    session_ms: int
    rebalance_ms: int
    ends_ms: int = 0
    join: int | None = None  # tickets
    sync: int | None = None
    owes_sync: bool = False
    new: bool = True
    assignment: str = ""

    @property
    def metadata(self) -> tuple[str, ...]:
        return self.protocols


@dataclass
class Model:
    """One group. `answers` are the tickets that were answered since somebody last looked, with their errors."""

    delay_ms: int = 0
    exists: bool = False
    state: str = EMPTY
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)  # id -> when it runs out
    join_at: int | None = None
    sync_at: int | None = None
    initial: bool = False
    left_ms: int = 0
    newcomer: bool = False
    answers: dict[int, int] = field(default_factory=dict)
    written: tuple[int, str | None, str | None, dict[str, Member]] = (0, None, None, {})

    # -- requests ------------------------------------------------------------------------------------------------------

    def join_new(self, ticket: int, id_: str, member: Member, version: int, now: int) -> None:
        self.exists = True
        if not self.supports_protocols(member):
            self.answers[ticket] = INCONSISTENT
        elif member.instance is not None and (old := self.by_instance(member.instance)):
            self.replace(ticket, old, member, now)
        elif member.instance is None and version >= 4:
            self.pending[id_] = now + member.session_ms
            self.answers[ticket] = ID_REQUIRED
        else:
            self.add(ticket, member, now)

    def join_known(self, ticket: int, member: Member, now: int) -> None:
        if not self.exists:
            self.answers[ticket] = UNKNOWN
        elif not self.supports_protocols(member):
            self.answers[ticket] = INCONSISTENT
        elif member.id in self.pending:
            del self.pending[member.id]
            self.add(ticket, member, now)
        elif error := self.validate_member(member.id, member.instance):
            self.answers[ticket] = error
        else:
            self.rejoin(ticket, member, now)

    def sync(
        self, ticket: int, id_: str, instance: str | None, generation: int, given: dict[str, str], now: int
    ) -> None:
        if error := self.refusal(id_, instance, generation):
            self.answers[ticket] = error
        elif self.state == PREPARING:
            self.answers[ticket] = REBALANCING
        else:
            member = self.members[id_]
            member.owes_sync = False
            if not any(each.owes_sync for each in self.members.values()):
                self.sync_at = None
            if self.state == STABLE:
                self.answers[ticket] = OK
                return
            if member.sync is not None:
                self.answers[member.sync] = REBALANCING  # the earlier one of the same member
            member.sync = ticket
            if id_ == self.leader:
                self.assign(given, now)

    def beat(self, id_: str, instance: str | None, generation: int, now: int) -> int:
        if error := self.refusal(id_, instance, generation):
            return error
        self.members[id_].ends_ms = now + self.members[id_].session_ms
        return REBALANCING if self.state == PREPARING else OK

    def commit(self, id_: str, instance: str | None, generation: int, now: int) -> int:
        if not self.exists:
            return OK if generation < 0 else 69
        if generation < 0 and self.state == EMPTY:
            return OK
        if generation < 0 and not id_ and instance is None:
            return UNKNOWN
        if error := self.validate_member(id_, instance):
            return error
        if generation != self.generation:
            return ILLEGAL
        if self.state == COMPLETING:
            return REBALANCING
        self.members[id_].ends_ms = now + self.members[id_].session_ms
        return OK

    def leave(self, named: list[tuple[str, str | None]], now: int) -> list[int]:
        errors = []
        for id_, instance in named:
            error = OK
            if not id_:
                found = self.by_instance(instance) if instance is not None else None
                id_ = found.id if found else ""
                error = OK if found else UNKNOWN
            elif id_ not in self.pending:
                error = self.validate_member(id_, instance) if self.exists else UNKNOWN
            if error == OK:
                self.remove(id_)
            errors.append(error)
        if OK in errors and self.state in (STABLE, COMPLETING):
            self.prepare(now)
        elif OK in errors and self.state == PREPARING and not self.initial and self.all_joined:
            self.complete(now)
        return errors

    # -- time ----------------------------------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        ends = [member.ends_ms for member in self.members.values()] + list(self.pending.values())
        ends += [at for at in (self.join_at, self.sync_at) if at is not None]
        return min((at for at in ends if at >= 0), default=None)

    def fire(self, now: int) -> None:
        """Do the one thing that is due the earliest."""
        for id_, at in list(self.pending.items()):
            if at <= now:
                del self.pending[id_]
                if self.state == PREPARING and self.all_joined:
                    self.complete(now)
                return
        for member in list(self.members.values()):
            if 0 <= member.ends_ms <= now:
                self.session_ends(member, now)
                return
        if self.sync_at is not None and self.sync_at <= now:
            for member in [each for each in self.members.values() if each.owes_sync]:
                self.remove(member.id)
            self.prepare(now)
        elif self.join_at is not None and self.join_at <= now:
            self.join_phase_ends(now)

    def session_ends(self, member: Member, now: int) -> None:
        if (member.join is not None or member.sync is not None) and not member.new:
            member.ends_ms = -1  # until it is answered
            return
        self.remove(member.id)
        if self.state in (STABLE, COMPLETING):
            self.prepare(now)
        elif self.state == PREPARING and self.all_joined:
            self.complete(now)

    def join_phase_ends(self, now: int) -> None:
        if self.initial and self.newcomer and self.left_ms:
            self.newcomer = False
            self.join_at = now + min(self.delay_ms, self.left_ms)
            self.left_ms = max(self.left_ms - self.delay_ms, 0)
        else:
            self.complete(now)

    def restart(self, now: int) -> None:
        """Only what was written is left."""
        self.generation, self.protocol, self.leader, members = self.written
        self.members = {
            each.id: Member(
                each.id,
                each.instance,
                (self.protocol or "",),
                each.session_ms,
                each.rebalance_ms,
                now + each.session_ms,
                new=False,
                assignment=each.assignment,
            )
            for each in members.values()
        }
        self.state = STABLE if self.members else EMPTY
        self.pending, self.join_at, self.sync_at = {}, None, None
        self.initial = self.newcomer = False

    # -- the group -----------------------------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.join is not None for member in self.members.values())

    @property
    def rebalance_ms(self) -> int:
        return max([0, *(member.rebalance_ms for member in self.members.values())])

    def by_instance(self, instance: str) -> Member | None:
        return next((member for member in self.members.values() if member.instance == instance), None)

    def validate_member(self, id_: str, instance: str | None) -> int:
        if instance is not None:
            known = self.by_instance(instance)
            if known is None or known.id != id_:
                return UNKNOWN if known is None else FENCED
        return OK if id_ in self.members else UNKNOWN

    def refusal(self, id_: str, instance: str | None, generation: int) -> int:
        return self.validate_member(id_, instance) or (OK if generation == self.generation else ILLEGAL)

    def supports_protocols(self, joiner: Member) -> bool:
        if self.state == EMPTY:
            return bool(joiner.protocols)
        return any(all(name in member.protocols for member in self.members.values()) for name in joiner.protocols)

    def add(self, ticket: int, member: Member, now: int) -> None:
        if self.initial:
            self.newcomer = True
        member.join, member.ends_ms = ticket, now + NEW_MEMBER_MS
        self.members[member.id] = member
        self.leader = self.leader or member.id
        self.changed(now)

    def rejoin(self, ticket: int, asked: Member, now: int) -> None:
        member = self.members[asked.id]
        same = asked.metadata == member.metadata
        settled = self.state == COMPLETING or (self.state == STABLE and member.id != self.leader)
        if settled and same:
            self.answers[ticket] = OK
            return
        if member.join is not None:
            self.answers[member.join] = REBALANCING
        member.protocols, member.session_ms, member.rebalance_ms = asked.protocols, asked.session_ms, asked.rebalance_ms
        member.join = ticket
        self.changed(now)

    def replace(self, ticket: int, old: Member, new: Member, now: int) -> None:
        for waiting in (old.join, old.sync):
            if waiting is not None:
                self.answers[waiting] = FENCED
        del self.members[old.id]
        new.assignment, new.new, new.join, new.ends_ms = old.assignment, False, ticket, now + old.session_ms
        self.members[new.id] = new
        if self.leader == old.id:
            self.leader = new.id
        if not any(each.owes_sync for each in self.members.values()):
            self.sync_at = None
        if self.state == STABLE and self.protocol == self.winner():
            new.join = None
            self.answers[ticket] = OK
            self.write()
        elif self.state == PREPARING:
            self.changed(now)
        else:
            self.prepare(now)

    def winner(self) -> str:
        """The protocol with the most votes among those that all support; of several the first in Kafka's hash map."""
        everybody = [set(member.protocols) for member in self.members.values()]
        candidates = set.intersection(*everybody)
        votes = [next(name for name in member.protocols if name in candidates) for member in self.members.values()]
        return min(votes, key=lambda name: (-votes.count(name), WALKED.index(name)))

    def remove(self, id_: str) -> None:
        self.pending.pop(id_, None)
        member = self.members.pop(id_, None)
        if member is None:
            return
        for waiting in (member.join, member.sync):
            if waiting is not None:
                self.answers[waiting] = UNKNOWN
        if self.leader == id_:
            self.leader = next(iter(self.members), None)

    def changed(self, now: int) -> None:
        if self.state != PREPARING:
            self.prepare(now)
        elif not self.initial and self.all_joined:
            self.complete(now)

    def prepare(self, now: int) -> None:
        for member in self.members.values():
            if self.state == COMPLETING:
                member.assignment = ""
            if member.sync is not None:
                self.answers[member.sync] = REBALANCING
                member.sync, member.ends_ms = None, now + member.session_ms
            member.owes_sync = False
        self.initial, self.sync_at, self.state = self.state == EMPTY, None, PREPARING
        if self.initial:
            self.join_at, self.left_ms = now + self.delay_ms, max(self.rebalance_ms - self.delay_ms, 0)
        elif self.all_joined:
            self.complete(now)
        else:
            self.join_at = now + self.rebalance_ms

    def complete(self, now: int) -> None:
        self.join_at = None
        for member in [each for each in self.members.values() if each.join is None and each.instance is None]:
            self.remove(member.id)
        joined = [member for member in self.members.values() if member.join is not None]
        if not self.members:
            self.generation, self.state, self.protocol, self.initial = self.generation + 1, EMPTY, None, False
            self.write()
        elif not joined:
            self.join_at, self.left_ms = now + self.rebalance_ms, 0
        else:
            self.begin(joined, now)

    def begin(self, joined: list[Member], now: int) -> None:
        self.generation, self.state, self.initial = self.generation + 1, COMPLETING, False
        self.protocol = self.winner()
        if self.leader not in {member.id for member in joined}:
            self.leader = joined[0].id
        for member in self.members.values():
            if member.join is not None:
                self.answers[member.join] = OK
            member.join, member.new, member.owes_sync = None, False, True
            member.ends_ms = now + member.session_ms
        self.sync_at = now + self.rebalance_ms

    def assign(self, given: dict[str, str], now: int) -> None:
        for member in self.members.values():
            member.assignment = given.get(member.id, "")
            if member.sync is not None:
                self.answers[member.sync] = OK
                member.sync, member.ends_ms = None, now + member.session_ms
        self.state = STABLE
        self.write()

    def write(self) -> None:
        self.written = (
            self.generation,
            self.protocol,
            self.leader,
            {member.id: Member(**vars(member)) for member in self.members.values()},
        )
