"""What is made or deleted at once is cut into portions that are decided in one step each."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.result import STEP_ENTRIES
from coordinator.server.verbs.topic_portions import cut_topics


@given(st.lists(st.integers(1, 2 * STEP_ENTRIES)))
def test_topics_are_all_cut_and_a_portion_is_one_topic_or_one_step(sizes: list[int]) -> None:
    topics = {str(number): size for number, size in enumerate(sizes)}
    portions = list(cut_topics(topics))
    assert [name for portion in portions for name in portion] == list(topics)
    for portion in portions:
        assert len(portion) == 1 or sum(topics[name] for name in portion) < STEP_ENTRIES
    for portion, following in pairwise(portions):
        assert sum(topics[name] for name in (*portion, following[0])) >= STEP_ENTRIES, "no step has room for one more"
