"""What is made or deleted at once is cut into portions that are decided in one step each."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinator.admin import portions
from coordinator.core.catalog.settings import PARTITIONS_PER_REQUEST_MAX
from coordinator.core.result import STEP_ENTRIES
from coordinator.server.verbs.state import State
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


@given(st.lists(st.sampled_from((-1, 0, 1, 100, 4_000, 6_000, 10_000, 10_001)), max_size=250))
def test_topics_that_are_made_are_no_more_at_once_than_one_request_may_make(sizes: list[int]) -> None:
    """What `GET /v1/state` has told of a server can be made again on another one."""
    topics = {str(number): size for number, size in enumerate(sizes)}
    cut = [portion.topics for portion in portions.cut_state(State(topics))]
    assert {name: size for portion in cut for name, size in portion.items()} == topics
    for portion in cut:
        assert 1 <= len(portion) <= portions.TOPICS_MAX
        assert len(portion) == 1 or sum(portion.values()) <= PARTITIONS_PER_REQUEST_MAX
