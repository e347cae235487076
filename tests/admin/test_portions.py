"""States of many topics and offsets, made in portions."""

from coordinator.admin.portions import OFFSETS_MAX, TOPICS_MAX, cut_state
from coordinator.server.verbs.state import State


def test_each_portion_is_bounded_and_nothing_is_left_out() -> None:
    topics = {f"t{number}": 1 for number in range(2 * TOPICS_MAX + 1)}
    offsets = {
        "g": {"a": {str(index): index for index in range(OFFSETS_MAX - 1)}, "b": {"0": 1, "1": 2}},
        "h": {"b": {"0": 3}},
    }
    portions = list(cut_state(State(topics, offsets)))
    assert [len(one.topics) for one in portions] == [TOPICS_MAX, TOPICS_MAX, 1, 0, 0, 0]
    assert [one.offsets.get("g", {}).get("b") for one in portions[3:]] == [{"0": 1}, {"1": 2}, None]
    assert [sum(map(len, of.values())) for one in portions for of in one.offsets.values()] == [OFFSETS_MAX, 1, 1]
    assert portions[-1].offsets == {"h": {"b": {"0": 3}}}
