"""Groups with epochs whose members come, go, return and change their minds at once, against what was made to happen."""

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.history.group import GroupHistory
from pipeline.history.records import OF_EPOCHS, Rebalance, Record, Role, Row, Session
from tests.reachable import find_reachable

KINDS = sorted({kind for kind, _ in OF_EPOCHS.values()})
CHANGES = {
    "subscribed_topic_names": ["t", "u"], "subscribed_topic_regex": "t.*", "rack_id": "r", "server_assignor": "uniform",
    "topology_epoch": 3,
}  # fmt: skip
ACTS = st.tuples(
    st.sampled_from(["join", "leave", "leave", "swap", "come_back", "come_back", "move_back", "look_in", "rejoin",
                     "change", "pattern", "topics", "states", "nothing", "overtake", "settle", "settle", "delete"]),
    st.integers(0, 5), st.integers(1, 3),
)  # fmt: skip


class Life:
    """One group of a kind. Each act writes its records, a second after the one before, and notes what they mean."""

    def __init__(self, kind: str) -> None:
        self.kind, self.number = kind, {role: version for version, (of, role) in OF_EPOCHS.items() if of == kind}
        self.history, self.rows = GroupHistory("g"), list[Row]()
        self.members: dict[str, dict[str, Any]] = {}
        self.at, self.offset, self.epoch, self.digest, self.known = 0, 0, 0, 1, [0, 0]
        self.targets: dict[int, tuple[int, int]] = {}  # by epoch: when its target was written, and its row
        self._names = count(1)
        self.expected: list[list[Any]] = []  # epoch, at_ms, causes, joined, left, before, after, settle_ms
        self.details: list[str] = []
        self.sessions: dict[str, list[Any]] = {}  # of members: id, instance, client, host, from, to, why it ended
        self.ended: list[list[Any]] = []

    def write(self, role: Role, value: dict[str, Any] | None, member: str | None = None, epoch: int | None = None) -> None:  # fmt: skip
        self.offset += 1
        payload = msgspec.json.encode(value or {}).decode()
        record = Record(self.offset, self.at, self.number[role], member, epoch, value is None, payload)
        self.rows += self.history.apply(record)

    # What happens

    def join(self, which: int, size: int) -> None:
        came = [self._come(f"i{next(self._names)}" if (which + n) % 2 else None) for n in range(size)]
        self._begin_epoch(["join"], joined=came)

    def leave(self, which: int, size: int) -> None:
        if gone := self._some(which, size):
            for member in gone:
                self._go(member, "leave_or_timeout")
                self._wait(which)
            self._begin_epoch(["leave_or_timeout"], left=gone)

    def swap(self, which: int, size: int) -> None:
        """Some leave and others come, in one epoch; whatever else has changed is not the cause."""
        gone = self._some(which, size)
        for member in gone:
            self._go(member, "leave_or_timeout")
        self._wait(which)
        came = [self._come(f"i{next(self._names)}" if which % 2 else None)]
        self.digest += 1
        self._begin_epoch(["leave_or_timeout"] * bool(gone) + ["join"], joined=came, left=gone)

    def come_back(self, which: int, size: int) -> None:
        """Static members return under other ids, in one moment, without a new epoch."""
        if returned := self._replace(which, size):
            now = len(self.members)
            self.expected.append([self.epoch, self.at, ["static_rejoin"], [], [], now, now, None])
            self.details.append(f"returned: {', '.join(returned)}")

    def move_back(self, which: int, size: int) -> None:
        """Static members return with other wishes, which takes an epoch; another member leaves at the same time."""
        returned = self._replace(which, size)
        gone = [member for member in self._some(which, 1) if member not in returned]
        for member in gone:
            self._go(member, "leave_or_timeout")
        if returned:
            causes = ["static_rejoin"] + ["leave_or_timeout"] * bool(gone)
            self._begin_epoch(causes, left=gone, detail=f"returned: {', '.join(returned)}")
        elif gone:
            self._begin_epoch(["leave_or_timeout"], left=gone)

    def look_in(self, which: int, size: int) -> None:
        """A member comes and goes before there is an epoch."""
        before, visitor = len(self.members), self._come(None)
        self._wait(which)
        self._go(visitor, "leave_or_timeout")
        self._begin_epoch(["leave_or_timeout"], left=[visitor], before=before + 1)

    def rejoin(self, which: int, size: int) -> None:
        """A member goes and comes again under the same id before there is an epoch."""
        for member in [one for one in self._some(which, 1) if self.members[one]["instance_id"] is None]:
            self._go(member, "leave_or_timeout")
            self._wait(which)
            self._come(None, member)
            self._begin_epoch(["leave_or_timeout", "join"], joined=[member], left=[member])

    def change(self, which: int, size: int) -> None:
        """A member wants something else; all others say again what they have said, the topics may have grown too."""
        name = sorted(CHANGES)[(which + size) % len(CHANGES)]
        if changed := self._some(which, 1):
            value = self.members[changed[0]]
            value[name] = None if value.get(name) else CHANGES[name]
            for member in [changed[0], *sorted(self.members)]:
                self._write_member(member)
            self.digest += size - 1
            self._begin_epoch(["subscription_change"])

    def pattern(self, which: int, size: int) -> None:
        """What a pattern or a topology says is another thing; that one is gone is no change."""
        for role in (Role.PATTERN, Role.TOPOLOGY):
            if role in self.number:
                self.write(role, {} if which % 2 else None, None)
                self._begin_epoch(["subscription_change"] if which % 2 else ["unknown"])

    def topics(self, which: int, size: int) -> None:
        self.digest += size
        self._begin_epoch(["partition_count_change"])

    def states(self, which: int, size: int) -> None:
        """There are states of more partitions, of a topic or of another one; in a share group that is a cause."""
        if self.kind == "share":
            self.known[which % 2] += size
            topics = [{"topic_id": f"t{n}", "partitions": list(range(many))} for n, many in enumerate(self.known)]
            self.write(Role.STATES, {"initialized_topics": topics})
            self._begin_epoch(["partitions_initialized"])

    def nothing(self, which: int, size: int) -> None:
        self._begin_epoch(["unknown"])

    def overtake(self, which: int, size: int) -> None:
        """There is a further epoch before the target of one is there, which is written late, or never."""
        self._begin_epoch(["unknown"], has_target=False)
        self._begin_epoch(["unknown"], has_target=False)
        for epoch, row in ((self.epoch - 1, -2), (self.epoch, -1))[which % 2 :]:
            self._write_target(epoch, len(self.expected) + row)
        self.settle(0, size)

    def settle(self, which: int, size: int) -> None:
        """Members reach the epoch, or late the one before, one after the other: the last one counts. The clock may go
        back meanwhile."""
        epoch = self.epoch - (which % 3 == 0)
        for member in self._some(which, size):
            self.at += -3000 if which == 5 else 1000
            self.write(Role.CURRENT, {}, member, epoch)
            if epoch in self.targets:
                since, row = self.targets[epoch]
                self.expected[row][-1] = max(0, self.at - since)

    def delete(self, which: int, size: int) -> None:
        """The group is deleted, with whoever is still in it; one of that name is a new one."""
        before = len(self.members)
        for member in list(self.members):
            self._end(member, "deleted")
        self.write(Role.EPOCH, None)
        self.expected.append([None, self.at, ["deleted"], [], [], before, 0, None])
        self.details.append("")
        self.members, self.epoch, self.targets, self.known = {}, 0, {}, [0, 0]
        self.at += 1000
        self.join(which, size)

    # How it is written

    def _wait(self, which: int) -> None:
        """Some time passes, or none: a membership ends where its record says so, whenever that is understood."""
        self.at += 300 * (which % 3)

    def _some(self, which: int, size: int) -> list[str]:
        known = sorted(self.members)
        return sorted({known[(which + n) % len(known)] for n in range(size)}) if known else []

    def _come(self, instance: str | None, member: str | None = None) -> str:
        member = member or f"m{next(self._names):03}"
        self.members[member] = {"instance_id": instance, "client_id": f"c{self.at}", "client_host": f"h{self.at}"}
        self.sessions[member] = [member, instance, "", "", self.at, None, None]
        self._write_member(member)
        return member

    def _write_member(self, member: str) -> None:
        value = self.members[member]
        value["client_host"] = f"h{self.at}"
        self.sessions[member][2:4] = value["client_id"], value["client_host"]
        self.write(Role.MEMBER, value, member)

    def _go(self, member: str, reason: str) -> None:
        del self.members[member]
        self._end(member, reason)
        self.write(Role.MEMBER, None, member)

    def _end(self, member: str, reason: str) -> None:
        self.ended.append([*self.sessions.pop(member)[:5], self.at, reason])

    def _replace(self, which: int, size: int) -> list[str]:
        """Remove static members first, and then let all of them come, the last one first."""
        static = [one for one in sorted(self.members) if self.members[one]["instance_id"]][which % 3 :][:size]
        instances = [self.members[member]["instance_id"] for member in static]
        for member in static:
            self._go(member, "static_rejoin")
        self._wait(which)
        return [self._come(instance) for instance in reversed(instances)]

    def _begin_epoch(
        self,
        causes: list[str],
        joined: list[str] | None = None,
        left: list[str] | None = None,
        before: int | None = None,
        detail: str = "",
        *,
        has_target: bool = True,
    ) -> None:
        joined, left, self.epoch = joined or [], left or [], self.epoch + 1
        after = len(self.members)
        before = after - len(joined) + len(left) if before is None else before
        self.write(Role.EPOCH, {"metadata_hash": self.digest}, epoch=self.epoch)
        parts = [f"joined: {', '.join(joined)}"] * bool(joined) + [f"gone: {', '.join(left)}"] * bool(left)
        self.details.append("; ".join([*parts, *([detail] if detail else [])]))
        self.expected.append([self.epoch, self.at, causes, joined, left, before, after, None])
        if has_target:
            self._write_target(self.epoch, len(self.expected) - 1)

    def _write_target(self, epoch: int, row: int) -> None:
        self.at += 1000
        self.write(Role.TARGET, {}, epoch=epoch)
        self.targets[epoch] = self.at, row


@pytest.mark.parametrize("kind", KINDS)
@given(acts=st.lists(ACTS, max_size=12))
def test_each_epoch_has_its_causes_and_each_member_its_session(kind: str, acts: list[tuple[str, int, int]]) -> None:
    life = Life(kind)
    life.join(1, 3)
    for act, which, size in acts:
        life.at += 1000
        getattr(life, act)(which, size)
    rows = [*life.rows, *life.history.end()]
    found = sorted((row for row in rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
    assert [
        [
            row.generation, row.at_ms, row.causes, row.joined, row.left, row.members_before, row.members_after,
            row.epoch_settle_ms,
        ]
        for row in found
    ] == life.expected  # fmt: skip
    assert [row.cause_detail for row in found] == life.details
    assert {row.type for row in found} == {kind}
    sessions = [
        [row.member_id, row.instance_id, row.client_id, row.host, row.from_ts, row.to_ts, row.end_reason]
        for row in rows
        if isinstance(row, Session) and row.type == kind
    ]
    assert sorted(sessions, key=str) == sorted([*life.ended, *life.sessions.values()], key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_keeps_nothing_of_what_is_over(kind: str) -> None:
    """However often all of that has happened: what members, epochs and sessions leave is given back."""
    life, sizes = Life(kind), list[int]()
    acts = [life.swap, life.come_back, life.move_back, life.look_in, life.rejoin, life.change, life.pattern,
            life.topics, life.nothing, life.settle]  # fmt: skip
    for _ in range(8):
        life.join(1, 3)
        for number, act in enumerate(acts):
            life.at += 1000
            act(1 + number % 2, 2)
        life.leave(0, 99)
        sizes.append(len(find_reachable(life.history)))
    assert sizes[1:] == [sizes[1]] * 7
