"""What a command asks for in several requests: all of it, in order, and no request is more than a broker takes."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coordinator.cli.requests import ENTRIES_MAX, PARTITIONS_MAX, cut


@given(
    st.lists(
        st.sampled_from((-1, 1, 50, 3_000, PARTITIONS_MAX, PARTITIONS_MAX + 1)).flatmap(
            lambda size: st.sampled_from((1, 2, 199, ENTRIES_MAX)).map(lambda times: [size] * times)
        ),
        max_size=5,
    )
)
@settings(max_examples=30, phases=[Phase.generate])
def test_each_request_is_as_large_as_it_may_be(runs: list[list[int]]) -> None:
    sizes = [size for run in runs for size in run]
    portions = list(cut(sizes, lambda size: size))
    assert [size for portion in portions for size in portion] == sizes
    created = [sum(max(size, 0) for size in portion) for portion in portions]
    for portion, partitions in zip(portions, created, strict=True):
        assert 0 < len(portion) <= ENTRIES_MAX and (partitions <= PARTITIONS_MAX or len(portion) == 1)
    for portion, partitions, following in zip(portions, created, portions[1:], strict=False):
        assert len(portion) == ENTRIES_MAX or partitions + max(following[0], 0) > PARTITIONS_MAX, "there was room"
