"""What every assignment must be, for random members x topics x racks, as a group lives on."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import Assignment, AssignorError, GroupSpec, MemberSpec

TOPICS = [bytes([n]) * 16 for n in range(6)]
Owned = Mapping[str, Assignment]


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool) -> list[GroupSpec]:
    """Some chapters of a group: members come, go and resubscribe; topics grow."""
    counts = {topic: draw(st.integers(1, 20)) for topic in draw(st.permutations(TOPICS))[: draw(st.integers(1, 5))]}
    every = tuple(counts)
    chapters = []
    for _ in range(draw(st.integers(1, 3))):
        ids = draw(st.sets(st.integers(0, 12), min_size=1, max_size=9))
        members = {
            f"m-{n}": MemberSpec(
                topics=every if homogeneous else tuple(t for t in every if draw(st.booleans())),
                instance_id=f"i-{n}" if draw(st.booleans()) else None,
                rack_id=draw(st.none() | st.sampled_from("abc")),
            )
            for n in sorted(ids)
        }
        chapters.append(GroupSpec(members, dict(counts), homogeneous))
        for topic in draw(st.sets(st.sampled_from(every))):
            counts[topic] += draw(st.integers(1, 5))
    return chapters


def after(spec: GroupSpec, owned: Owned) -> GroupSpec:
    """The chapter, its members holding what they were given in the one before."""
    members = {m: MemberSpec(s.topics, owned.get(m, {}), s.instance_id, s.rack_id) for m, s in spec.members.items()}
    return GroupSpec(members, spec.partition_counts, spec.is_homogeneous)


def load(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def flat(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def check_valid(spec: GroupSpec, owned: Owned) -> None:
    """K-191: each partition of each subscribed topic has one owner, and it subscribes to the topic."""
    wanted = {t for member in spec.members.values() for t in member.topics}
    given_out = Counter(pair for assignment in owned.values() for pair in flat(assignment))
    assert given_out == Counter((t, p) for t in wanted for p in range(spec.partition_counts[t]))
    for member_id, assignment in owned.items():
        assert set(assignment) <= set(spec.members[member_id].topics)
        assert all(list(partitions) == sorted(set(partitions)) != [] for partitions in assignment.values())


@pytest.mark.rule("K-191 K-205 K-192 K-193")
@pytest.mark.parametrize("name", BUILT_IN)
@given(chapters=st.booleans().flatmap(lambda alike: groups(homogeneous=alike)))
@settings(max_examples=60, deadline=None)
def test_assignments_are_valid_and_deterministic(name: str, chapters: list[GroupSpec]) -> None:
    """K-191, K-205; K-192: racks change nothing; K-193: the same question has the same answer."""
    owned: Owned = {}
    for chapter in chapters:
        spec = after(chapter, owned)
        owned = BUILT_IN[name](spec)
        check_valid(spec, owned)
        assert BUILT_IN[name](spec) == owned
        assert BUILT_IN[name](GroupSpec(spec.members, spec.partition_counts, spec.is_homogeneous)) == owned


@pytest.mark.rule("K-200 K-201 K-202")
@given(chapters=groups(homogeneous=True))
@settings(max_examples=80, deadline=None)
def test_uniform_for_equal_subscriptions_is_balanced_and_moves_only_what_it_must(chapters: list[GroupSpec]) -> None:
    """K-200: totals differ by one at most. K-201: everybody keeps what fits its quota. K-202: growth moves little."""
    owned: Owned = {}
    for chapter in chapters:
        spec = after(chapter, owned)
        now = BUILT_IN["uniform"](spec)
        base, extras = divmod(sum(spec.partition_counts.values()), len(spec.members))
        sizes = Counter(load(assignment) for assignment in now.values())
        assert sizes == Counter({base + 1: extras, base: len(spec.members) - extras}) - Counter()
        # At most `extras` members may stay above the base, so this many partitions have to leave their owners at least.
        over = sorted((load(s.previous) - base for s in spec.members.values() if load(s.previous) > base), reverse=True)
        must = sum(excess - (i < extras) for i, excess in enumerate(over))
        moved = sum(len(flat(s.previous) - flat(now[m])) for m, s in spec.members.items())
        assert moved == must
        owned = now


@pytest.mark.rule("K-206 K-209")
@given(chapters=groups(homogeneous=False))
@settings(max_examples=80, deadline=None)
def test_uniform_for_differing_subscriptions_leaves_no_move_that_would_help(chapters: list[GroupSpec]) -> None:
    """Within each topic, whoever owns some of it owns at most one more than its least loaded subscriber."""
    owned: Owned = {}
    for chapter in chapters:
        owned = BUILT_IN["uniform"](after(chapter, owned))
        loads = {member_id: load(owned.get(member_id, {})) for member_id in chapter.members}
        for topic in chapter.partition_counts:
            subscribers = [m for m, s in chapter.members.items() if topic in s.topics]
            owners = [m for m in subscribers if topic in owned[m]]
            if owners:
                assert max(loads[m] for m in owners) - min(loads[m] for m in subscribers) <= 1


@pytest.mark.rule("K-194 K-196 K-197")
@given(chapters=st.booleans().flatmap(lambda alike: groups(homogeneous=alike)))
@settings(max_examples=60, deadline=None)
def test_range_gives_contiguous_blocks_in_the_order_of_the_members(chapters: list[GroupSpec]) -> None:
    """Blocks of one topic differ by one at most, the longer ones first, static members first."""
    spec = chapters[-1]
    owned = BUILT_IN["range"](spec)
    in_order = sorted(
        spec.members, key=lambda m: (spec.members[m].instance_id is None, spec.members[m].instance_id or m)
    )
    for topic, count in spec.partition_counts.items():
        blocks = [owned[m].get(topic, ()) for m in in_order if topic in spec.members[m].topics]
        if blocks:
            assert [p for block in blocks for p in block] == list(range(count))
            sizes = [len(block) for block in blocks]
            assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


@pytest.mark.rule("K-189 K-120")
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_topic_without_metadata_fails_the_assignment(name: str) -> None:
    """A topic that vanished between subscription and assignment."""
    for alike in (True, False):
        spec = GroupSpec({"a": MemberSpec((TOPICS[0],)), "b": MemberSpec((TOPICS[0],))}, {}, alike)
        with pytest.raises(AssignorError):
            BUILT_IN[name](spec)


@pytest.mark.rule("K-190")
@pytest.mark.parametrize("name", BUILT_IN)
def test_no_members_and_no_topics_mean_nothing_to_assign(name: str) -> None:
    assert BUILT_IN[name](GroupSpec({}, {}, True)) == {}
    for alike in (True, False):
        owned = BUILT_IN[name](GroupSpec({"a": MemberSpec(())}, {}, alike))
        assert not any(owned.values())
