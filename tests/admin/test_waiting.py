"""A wait ends for a group that meets its conditions, and for no other group."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.admin.control_types import Wait
from coordinator.admin.control_waiting import find_difference
from coordinator.control.verify import Times
from coordinator.core.group_view import GroupView, MemberView

PARTITIONS = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True).map(sorted)
ASSIGNMENTS = st.dictionaries(st.sampled_from(["orders", "payments"]), PARTITIONS)
TASKS = st.fixed_dictionaries(dict.fromkeys(("active", "standby", "warmup"), st.lists(st.sampled_from(["0_0", "0_1", "1_0"]), unique=True)))  # fmt: skip
OFFSETS = st.dictionaries(
    st.sampled_from(["orders", "payments"]), st.dictionaries(st.sampled_from("012"), st.integers(0, 9), min_size=1)
)


@st.composite
def views(draw: st.DrawFn) -> GroupView:
    members = [
        MemberView(f"{name}-id", name, f"{name}-instance", "/h", draw(ASSIGNMENTS), tasks=draw(TASKS))
        for name in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    ]
    state = draw(st.sampled_from(["Stable", "Empty"]))
    return GroupView("g", "consumer", state, "epoch", draw(st.integers(0, 5)), "uniform", members, draw(OFFSETS))


def describe(view: GroupView, draw: Any) -> dict[str, Any]:
    """What a test may say of a group that is so: members by any of their names, an empty list for what they have nothing
    of."""
    names = [draw(st.sampled_from((one.client_id, one.member_id, one.instance_id))) for one in view.members]
    said = zip(names, view.members, strict=True)
    return {
        "state": view.state,
        "members": len(view.members),
        "generation": draw(st.sampled_from([view.generation, Times(gte=view.generation), Times(lte=view.generation)])),
        "assigned": {name: {"nothing": [], **{k: v[::-1] for k, v in one.assignment.items()}} for name, one in said},
        "tasks": {one.client_id: {k: v[::-1] for k, v in one.tasks.items()} for one in view.members},
        "offsets": view.offsets,
    }  # fmt: skip


@given(views(), st.data())
def test_a_group_is_what_is_said_of_it(view: GroupView, data: st.DataObject) -> None:
    assert find_difference(view, Wait("g", **describe(view, data.draw))) is None


@given(views(), views(), st.data())
def test_a_group_is_not_what_is_said_of_another_one(view: GroupView, other: GroupView, data: st.DataObject) -> None:
    """Each part counts by itself, where the groups differ in it."""
    said = describe(other, data.draw)
    by_client = [{one.client_id: getattr(one, name) for one in each.members} for name in ("assignment", "tasks") for each in (view, other)]  # fmt: skip
    are_equal = {
        "state": view.state == other.state,
        "members": len(view.members) == len(other.members),
        "assigned": all(by_client[0].get(name) == owned for name, owned in by_client[1].items()),
        "tasks": all(_sort(by_client[2].get(name)) == _sort(held) for name, held in by_client[3].items()),
        "offsets": all(view.offsets.get(t, {}).get(p) == at for t, of in other.offsets.items() for p, at in of.items()),
    }
    for part, is_equal in are_equal.items():
        assert (find_difference(view, Wait("g", **{part: said[part]})) is None) == is_equal, part


def _sort(tasks: Any) -> Any:
    return tasks and {role: sorted(held) for role, held in tasks.items()}
