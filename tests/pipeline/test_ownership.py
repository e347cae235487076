"""The owner of each partition, from generation to generation, against a replay of the whole past."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.history.ownership import Change, Ownership
from pipeline.history.records import ClassicMember

PARTITIONS, TIMEOUTS = range(3), {"a": 10, "b": 20, "c": 40}  # each member's rebalance timeout

Generation = tuple[int, frozenset[str], Mapping[int, str]]
"""When it was, its members, and who has each partition of one topic."""


@st.composite
def generations(draw: st.DrawFn) -> list[Generation]:
    made, at_ts = list[Generation](), 0
    for _ in range(draw(st.integers(2, 6))):
        at_ts += draw(st.sampled_from([1, 1, 20, 21, 40, 41, 80, 81]))
        members = frozenset(draw(st.sampled_from(["abc", "abc", "ab", "bc", "a", ""])))
        owners = {one: draw(st.sampled_from([None, None, *sorted(members)])) for one in PARTITIONS}
        made.append((at_ts, members, {one: owner for one, owner in owners.items() if owner is not None}))
    return made


def expect(past: list[Generation], partition: int) -> tuple[str | None, str | None, str, bool] | None:
    """The former owner, the new one, the kind, and whether it was handed over; None if there is nothing to tell."""
    (at_ts, members, owners), before = past[-1], past[-2][2].get(partition)
    now = owners.get(partition)
    if before is not None:
        return before, now, "revoked" if now is None else "kept" if now == before else "moved", False
    if now is None:
        return None
    had = next((at for at in range(len(past) - 2, -1, -1) if partition in past[at][2]), None)
    if had is not None:
        owner = past[had][2][partition]
        stayed = all(owner in names for _, names, _ in past[had + 1 :])
        if stayed and at_ts - past[had + 1][0] <= 2 * max(TIMEOUTS[name] for name in members):
            return owner, now, "kept" if now == owner else "moved", True
    return None, now, "gained", False


@settings(max_examples=200)
@given(generations())
def test_a_partition_comes_from_the_member_that_gave_it_up_while_that_waits(past: list[Generation]) -> None:
    """However many generations it takes: as long as the member is there, and for two rebalance timeouts."""
    ownership = Ownership()
    for number, (at_ts, members, owners) in enumerate(past, start=1):
        assigned = {name: tuple(one for one, owner in owners.items() if owner == name) for name in members}
        changes = ownership.advance(
            tuple(
                ClassicMember(name, rebalance_timeout=TIMEOUTS[name], assignment={"t": assigned[name]})
                for name in sorted(members)
            ),
            at_ts,
        )
        seen = [(0, frozenset[str](), dict[int, str]()), *past[:number]]
        expected = {one: found for one in PARTITIONS if (found := expect(seen, one)) is not None}
        assert {change.partition[1]: _tell(change) for change in changes} == expected


def _tell(change: Change) -> tuple[str | None, str | None, str, bool]:
    return change.from_owner, change.to_owner, change.kind, change.is_handed_over
