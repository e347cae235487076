"""A classic group to which several things happen at once, against what was made to happen."""

from itertools import count
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.history.activity import activity_of
from pipeline.history.departures import follow
from pipeline.history.group import GroupHistory
from pipeline.history.records import GROUP_METADATA, Activity, Move, Rebalance, Record, Row, Session
from tests.reachable import find_reachable

SESSION_MS, SYNC_MS = 45_000, 300
PATIENCE_MS, LONG_MS = 20_000, 3_600_000  # the rebalance timeout: of an impatient group, and of any other
Place = tuple[str, int]
Told = tuple[int, str, int, str | None, str | None, str]
"""A move: the offset of its record, the partition, its owner before and after, and what became of it."""


class Act(NamedTuple):
    """What happens before the next record: so many members leave, come, and return under other ids. One that returns,
    and nothing else, may do so within the generation."""

    leave: int = 0
    come: int = 0
    replace: int = 0
    is_within: bool = False
    pause_ms: int = 1000
    wants: bool = False  # a member has another subscription
    votes: bool = False  # another protocol is chosen
    grows: bool = False  # a topic has more partitions
    finds: bool = False  # there is a further topic
    is_deleted: bool = False
    commits: tuple[tuple["Commit", ...], ...] = ((),)
    """Of the members in turns: what each commits before that."""


class Commit(NamedTuple):
    is_txn: bool
    ago_ms: int  # before the join phase is over; not before the last record


RARELY = st.sampled_from([False, False, False, True])
HALF_MS = PATIENCE_MS // 2
COMMITS = st.builds(
    Commit,
    st.booleans(),
    st.sampled_from([0, HALF_MS - 1, HALF_MS, PATIENCE_MS - 1, PATIENCE_MS, SESSION_MS - 1, SESSION_MS]),
)
ACTS = st.builds(
    Act, st.sampled_from([0, 0, 0, 1, 2, 9]), st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from([0, 0, 1, 2]),
    st.booleans(), st.sampled_from([1000, 1000, PATIENCE_MS, SESSION_MS - 1, SESSION_MS, 2 * SESSION_MS]),
    RARELY, RARELY, RARELY, RARELY, st.sampled_from([False] * 7 + [True]),
    st.lists(st.lists(COMMITS, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple),
)  # fmt: skip


class Life:
    """One group. What its rows must be is noted as it happens."""

    def __init__(self, patience_ms: int = LONG_MS) -> None:
        self.history, self.rows, self.patience_ms = GroupHistory("g"), list[Row](), patience_ms
        self.at, self.offset, self.generation, self.protocol = 1_000_000, 0, 0, 1
        self.members: dict[str, dict[str, Any]] = {}
        self.topics = {"orders": 3}
        self.shares: dict[str, list[Place]] = {}  # by member id
        self.owners: dict[Place, str] = {}  # by instance id, or else member id
        self.alive: dict[str, int] = {}
        self.renewed: dict[str, int] = {}  # by a commit since the last record
        self.formed = 0
        self._names = count(1)
        self.expected: list[list[Any]] = []
        self.moves: list[Told] = []
        self.sessions: dict[str, dict[str, Any]] = {}
        self.ended: list[dict[str, Any]] = []

    def act(self, act: Act) -> None:
        begun, self.at = self.at, self.at + act.pause_ms
        self._commit(act, begun)
        if act.is_deleted and self.generation:
            self._delete()
            return
        before, is_first, is_expired = dict(self.members), self.generation == 0, self._find_expired()
        returned = {old: self._come(instance) for old, instance in self._static()[: act.replace]}
        left = [member for member in sorted(before) if member not in returned][: act.leave]
        for member in (*left, *returned):
            del self.members[member]
        is_within = act.is_within and bool(returned) and not left and not act.come
        joined = [self._come(f"i{next(self._names)}" if n % 2 else None) for n in range(act.come)]
        if is_first and not joined:
            joined = [self._come(None)]
        self.protocol += act.votes and not is_within
        changed = [] if is_within else self._change(act, is_same=not (joined or left or returned))
        waited = self._may_have_waited([one for one in before if one not in left])
        ends = {
            one: "leave_or_timeout"
            if is_expired[one] or (waited and not self._is_kept(one, before[one]["group_instance_id"]))
            else "leave"
            for one in left
        }
        is_new = "_or_join" if not is_within else ""
        backs = {old: "static_rejoin" + is_new * is_expired[old] for old in returned}
        causes = ["emptied"] * (not self.members) + sorted(set(ends.values())) + ["join"] * bool(joined)
        causes += sorted(set(backs.values()))
        causes += ["assignor_change"] * (act.votes and not is_within and bool(before) and bool(self.members))
        causes += [cause for cause, _ in changed]
        moved = self._write_generation(is_within=is_within, is_first=is_first)
        topics = sorted({topic for _, topic in changed if topic})
        listed = {"joined": joined, "gone": left, "returned": sorted(returned.values()), "topics": topics}
        detail = "; ".join(f"{name}: {', '.join(ids)}" for name, ids in listed.items() if ids)
        sync_ms = None if is_within or not self.members else SYNC_MS
        row = [self.generation, self.at, set(causes) or {"unknown"}, detail, joined, left, len(before)]
        self.expected.append([*row, len(self.members), sync_ms, moved])
        for member, why in (ends | backs).items():
            self.ended.append(self.sessions.pop(member) | {"to_ts": self.at, "end_reason": why})

    def _find_expired(self) -> dict[str, bool]:
        """Return of each member whether its session may have ended before the others had joined. A transactional commit
        renews none."""
        last = {member: max(self.alive[member], self.renewed.get(member, 0)) for member in self.members}
        return {member: self.at - SYNC_MS - last[member] >= SESSION_MS for member in self.members}

    def _may_have_waited(self, stayed: list[str]) -> bool:
        """Return whether the join phase may have lasted for the whole rebalance timeout: while it does, nobody commits."""
        over = self.at - SYNC_MS
        busy = [self.renewed.get(one, 0) > over - self.patience_ms / 2 for one in stayed if self._own(one)]
        is_alone = len(self.alive) == 1 and not self.members
        return over - self.formed >= self.patience_ms and not is_alone and not (busy and all(busy))

    def _is_kept(self, member: str, instance: str | None) -> bool:
        """Return whether a join phase cannot have removed a member: a static one that was alive when it began."""
        return instance is not None and self.at - SYNC_MS - self.renewed.get(member, 0) < self.patience_ms

    def _own(self, member: str) -> list[Place]:
        return self.shares.get(member, [])

    def _commit(self, act: Act, begun: int) -> None:
        """Each member commits to the partitions that it has."""
        for number, member in enumerate(sorted(self.members)):
            found = dict[Place, Activity]()
            told = sorted(
                (max(begun, self.at - SYNC_MS - one.ago_ms), one.is_txn)
                for one in act.commits[number % len(act.commits)]
            )
            for nth, (ts, is_txn) in enumerate(told if self._own(member) else ()):
                place = self._own(member)[nth % len(self._own(member))]
                one = activity_of(ts, is_txn=is_txn)
                found[place] = follow(found[place], one) if place in found else one
                if not is_txn:
                    self.renewed[member] = ts
            for place, activity in found.items():
                self.history.observe(*place, activity)

    def _static(self) -> list[tuple[str, str]]:
        static = [(member, value["group_instance_id"]) for member, value in sorted(self.members.items())]
        return [(member, instance) for member, instance in static if instance]

    def _come(self, instance: str | None) -> str:
        member = f"m{next(self._names):03}"
        self.members[member] = {
            "member_id": member, "group_instance_id": instance, "client_id": f"c{member}", "rebalance_timeout": self.patience_ms,
            "session_timeout": SESSION_MS, "subscription": "s",
        }  # fmt: skip
        return member

    def _change(self, act: Act, *, is_same: bool) -> list[tuple[str, str]]:
        """The causes that there are in a group whose members stayed the same, each with its topic."""
        changed = list[tuple[str, str]]()
        if act.wants and self.members:
            self.members[max(self.members)]["subscription"] = f"s{self.at}"
            changed.append(("subscription_change", ""))
        if self.members and (act.grows or act.finds):
            names = [name for name in self.topics if act.grows]
            self.topics = {name: n + act.grows for name, n in self.topics.items()}
            changed += [("partition_count_change", name) for name in names if not act.wants]
            if act.finds:
                found = f"topic-{len(self.topics)}"
                self.topics[found] = 2
                changed += [("topic_found", found)] if not act.wants else []
        return changed if is_same else []

    def _share_out(self) -> dict[Place, str]:
        """Which member has each partition: all of them in turns."""
        places = [(topic, number) for topic, many in self.topics.items() for number in range(many)]
        members = sorted(self.members, key=lambda member: self.members[member]["group_instance_id"] or member)
        return {place: members[n % len(members)] for n, place in enumerate(places)} if members else {}

    def _write_generation(self, *, is_within: bool, is_first: bool) -> int | None:
        """Write the record, and return how many partitions have moved; None of the first generation."""
        self.generation += not is_within
        formed = self.at - SYNC_MS
        shares, self.shares = self._share_out(), {}
        for member, value in self.members.items():
            own = self.shares[member] = [place for place, owner in shares.items() if owner == member]
            value["assignment"] = {topic: [n for name, n in own if name == topic] for topic, _ in own}
            value["client_host"] = f"h{self.at}"
            session = self.sessions.setdefault(member, {"from_ts": self.at, "to_ts": None, "end_reason": None, "generations": 0})  # fmt: skip
            session |= {"member_id": member, "instance_id": value["group_instance_id"], "client_id": value["client_id"],
                        "host": value["client_host"], "partitions_owned": len(own)}  # fmt: skip
            if not is_within or not session["generations"]:
                session["generations"] += 1
        if is_within:
            self.alive = {member: self.alive.get(member, self.at) for member in self.members}
        else:
            self.alive, self.formed = dict.fromkeys(self.members, formed), formed
        self._write({
            "generation": self.generation, "protocol": f"p{self.protocol}", "members": list(self.members.values()),
            "current_state_timestamp": formed,
        })  # fmt: skip
        before, self.owners = self.owners, {
            place: self.members[owner]["group_instance_id"] or owner for place, owner in shares.items()
        }  # fmt: skip
        return None if is_first else self._note_moves(before)

    def _note_moves(self, before: dict[Place, str]) -> int:
        moves = list[Told]()
        for place in before | self.owners:
            old, new = before.get(place), self.owners.get(place)
            kind = "gained" if old is None else "revoked" if new is None else "kept" if old == new else "moved"
            moves.append((self.offset, *place, old, new, kind))
        self.moves += moves
        return sum(kind != "kept" for *_, kind in moves)

    def _delete(self) -> None:
        self._write(None)
        self.moves += [(self.offset, *place, owner, None, "revoked") for place, owner in self.owners.items()]
        gone = sorted(self.members)
        self.expected.append([None, self.at, {"deleted"}, "", [], gone, len(gone), 0, None, None])
        self.ended += [self.sessions.pop(one) | {"to_ts": self.at, "end_reason": "deleted"} for one in gone]
        self.members, self.owners, self.shares, self.generation = {}, {}, {}, 0

    def _write(self, value: dict[str, Any] | None) -> None:
        self.offset += 1
        payload = msgspec.json.encode(value or {}).decode()
        epoch = None if value is None else self.generation
        record = Record(self.offset, self.at, GROUP_METADATA, None, epoch, value is None, payload)
        self.rows += self.history.apply(record)
        self.renewed = {}


@settings(max_examples=200)
@given(st.lists(ACTS, min_size=1, max_size=10), st.sampled_from([PATIENCE_MS, LONG_MS]))
def test_each_generation_has_its_causes_and_moves_and_each_member_its_session(
    acts: list[Act], patience_ms: int
) -> None:
    life = Life(patience_ms)
    life.act(Act(come=3))
    for act in acts:
        life.act(act)
    rows = [*life.rows, *life.history.end()]
    found = sorted((row for row in rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
    assert [
        [
            row.generation, row.at_ms, set(row.causes), row.cause_detail, row.joined, row.left, row.members_before,
            row.members_after, row.sync_ms, row.partitions_moved,
        ]
        for row in found
    ] == life.expected  # fmt: skip
    moves = {
        (row.log_offset, row.topic, row.partition, row.from_owner, row.to_owner, row.kind)
        for row in rows
        if isinstance(row, Move)
    }
    assert moves == set(life.moves)
    sessions = [msgspec.structs.asdict(row) for row in rows if isinstance(row, Session)]
    for session in sessions:
        assert (session.pop("group"), session.pop("type")) == ("g", "classic")
    lasting = [*life.ended, *life.sessions.values()]
    assert sorted(sessions, key=lambda one: one["member_id"]) == sorted(lasting, key=lambda one: one["member_id"])


def test_a_history_keeps_nothing_of_what_is_over() -> None:
    """However often members come, go and return, and partitions that changed hands are committed again, or never."""
    life, sizes = Life(), list[int]()
    acts = [Act(come=3), Act(replace=1), Act(replace=1, is_within=True), Act(leave=1, come=2), Act(wants=True),
            Act(votes=True), Act(leave=1, pause_ms=SESSION_MS), Act(is_deleted=True)]  # fmt: skip
    for _ in range(40):
        for number, act in enumerate(acts):
            life.act(act)
            for partition in range(number % 3 if sizes else 3):  # the last one is never committed again
                life.history.observe("orders", partition, activity_of(life.at, is_txn=False))
        sizes.append(len(find_reachable(life.history)))
    assert sizes[5:] == [sizes[5]] * 35
