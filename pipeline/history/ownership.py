"""Track the owner of each partition of a classic group from generation to generation, cooperative hand-overs included.

A cooperative assignor moves a partition in two generations (KIP-429): in the first nobody has it, since its owner must
give it up, in the second it has its new owner. The former owner is remembered in between.
"""

from collections.abc import Iterable, Mapping

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
    is_new: bool = False  # the leader did not see it before: it is beyond those that had an owner, none was given up
    is_of_new_topic: bool = False  # no partition of the topic had an owner


class Ownership:
    """The owners now, and the former ones of partitions that are being handed over."""

    def __init__(self) -> None:
        self.owners: dict[Partition, str] = {}
        self._released: dict[Partition, tuple[str, int]] = {}  # former owner that is still there, and when

    def advance(self, members: tuple[ClassicMember, ...], at_ts: int) -> list[Change]:
        """Take over a generation's assignment.

        Members that gave up partitions rejoin at once, and the group waits for them no longer than the rebalance
        timeout. A hand-over ends within twice that; what is unassigned for longer has no owner.
        """
        patience_ms = 2 * max((member.rebalance_timeout for member in members), default=0)
        names = {member.owner for member in members}
        given_up = {one: value for one, value in self._released.items() if value[0] in names}
        pending = {one: owner for one, (owner, since) in given_up.items() if at_ts - since <= patience_ms}
        now, highest = owners_of(members), _highest(self.owners)
        changes = [
            _gain(one, now[one], highest, is_given_up=one in given_up)
            if one not in self.owners and one not in pending
            else _change(one, self.owners.get(one), now.get(one), pending.get(one))
            for one in self.owners | now
        ]
        released = {one: (owner, at_ts) for one, owner in self.owners.items() if one not in now and owner in names}
        waiting = {one: value for one, value in given_up.items() if one not in now}
        self.owners, self._released = now, released | waiting
        return sorted(changes, key=lambda change: change.partition)


def owners_of(members: tuple[ClassicMember, ...]) -> dict[Partition, str]:
    """Return the owner of each assigned partition."""
    return {partition: member.owner for member in members for partition in partitions_of(member)}


def partitions_of(member: ClassicMember) -> list[Partition]:
    """Return the partitions that are assigned to a member."""
    return [(topic, number) for topic, numbers in member.assignment.items() for number in numbers]


def _highest(owners: Iterable[Partition]) -> dict[str, int]:
    """Return the highest number of each topic's partitions."""
    highest: dict[str, int] = {}
    for topic, number in owners:
        highest[topic] = max(highest.get(topic, -1), number)
    return highest


def _gain(partition: Partition, owner: str, highest: Mapping[str, int], *, is_given_up: bool) -> Change:
    """Return the change of a partition that nobody had. One that was given up long ago is not new to the leader."""
    topic, number = partition
    return Change(
        partition, None, owner, "gained",
        is_new=not is_given_up and number > highest.get(topic, -1),
        is_of_new_topic=not is_given_up and topic not in highest,
    )  # fmt: skip


def _change(partition: Partition, before: str | None, now: str | None, released_by: str | None) -> Change:
    if before is None and released_by is not None:
        return Change(partition, released_by, now, "kept" if now == released_by else "moved", is_handed_over=True)
    if now is None:
        return Change(partition, before, None, "revoked")
    return Change(partition, before, now, "kept" if before == now else "moved")
