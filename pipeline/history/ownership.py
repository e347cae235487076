"""Track the owner of each partition of a classic group from generation to generation, cooperative hand-overs included.

A cooperative assignor moves a partition in two generations (KIP-429): in the first nobody has it, since its owner must
give it up, in the second it has its new owner. The former owner is remembered in between.
"""

import msgspec

from pipeline.history.records import ClassicMember

Partition = tuple[str, int]


class Change(msgspec.Struct, frozen=True):
    """The fate of a partition: kept, moved, gained (nobody had it) or revoked (nobody has it)."""

    partition: Partition
    from_owner: str | None
    to_owner: str | None
    kind: str
    is_handed_over: bool = False  # it was revoked a generation before, from a member that is still there


class Ownership:
    """The owners now, and the former ones of partitions that are being handed over."""

    def __init__(self) -> None:
        self.owners: dict[Partition, str] = {}
        self._released: dict[Partition, tuple[str, int]] = {}  # former owner, when

    def advance(self, members: tuple[ClassicMember, ...], at_ts: int) -> list[Change]:
        """Take over a generation's assignment.

        Members that gave up partitions rejoin at once, and the group waits for them no longer than the rebalance
        timeout. A hand-over ends within twice that; what is unassigned for longer has no owner.
        """
        patience_ms = 2 * max((member.rebalance_timeout for member in members), default=0)
        names = {member.owner for member in members}
        pending = {
            partition: owner
            for partition, (owner, since) in self._released.items()
            if owner in names and at_ts - since <= patience_ms
        }
        now = owners_of(members)
        changes = [_change(one, self.owners.get(one), now.get(one), pending.get(one)) for one in self.owners | now]
        released = {one: (owner, at_ts) for one, owner in self.owners.items() if one not in now and owner in names}
        waiting = {one: since for one, since in self._released.items() if one in pending and one not in now}
        self.owners, self._released = now, released | waiting
        return sorted(changes, key=lambda change: change.partition)


def owners_of(members: tuple[ClassicMember, ...]) -> dict[Partition, str]:
    """Return the owner of each assigned partition."""
    return {
        (topic, number): member.owner
        for member in members
        for topic, numbers in member.assignment.items()
        for number in numbers
    }


def _change(partition: Partition, before: str | None, now: str | None, released_by: str | None) -> Change:
    if before is None and released_by is not None:
        return Change(partition, released_by, now, "kept" if now == released_by else "moved", is_handed_over=True)
    if before is None:
        return Change(partition, None, now, "gained")
    if now is None:
        return Change(partition, before, None, "revoked")
    return Change(partition, before, now, "kept" if before == now else "moved")
