"""Which records of a share partition were given up, whatever its records say again."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_state.values import NO_OFFSET, DeliveryState
from pipeline.history.shares import ShareHistory

TOPIC_ID = (b"t" * 16).hex()


def row(number: int, start: int, *batches: tuple[int, int, int], is_snapshot: bool = False) -> dict[str, Any]:
    """A row of `share_records`: batches by first and last offset and delivery state."""
    told = [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": 1}
        for first, last, state in batches
    ]
    fields = {"snapshot_epoch": 0, "state_epoch": 1, "leader_epoch": 0, "delivery_complete_count": 0}
    times = {"create_ts": 0, "write_ts": 0, "record_ts": number, "log_offset": number}
    return {
        "key_version": 0 if is_snapshot else 1, "is_tombstone": False, "start_offset": start, "batches": told,
        **fields, **times,
    }  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),  # by how much the start offset moves
            st.booleans(),  # whether the record says where it is
            st.lists(st.tuples(st.integers(0, 8), st.integers(1, 6), st.sampled_from([0, 2, 4, 4])), max_size=2),
        ),
        max_size=8,
    )
)
def test_each_record_is_told_once(steps: list[tuple[int, bool, list[tuple[int, int, int]]]]) -> None:
    history, told, start = ShareHistory("queue", TOPIC_ID, 0), list[int](), 0
    expected = set[int]()
    list(history.apply(row(0, 0, is_snapshot=True)))
    for number, (further, says_start, batches) in enumerate(steps, 1):
        start += further if says_start else 0
        said = [(start + first, start + first + size - 1, state) for first, size, state in batches]
        found = list(history.apply(row(number, start if says_start else NO_OFFSET, *said)))
        told += [at for one in found for at in range(one.first_offset, one.last_offset + 1)]
        expected |= {
            at for first, last, state in said if state == DeliveryState.ARCHIVED for at in range(first, last + 1)
        }
        assert all(one.records == one.last_offset - one.first_offset + 1 for one in found)
        assert all((one.at_ms, one.log_offset) == (number, number) for one in found)
    assert sorted(told) == sorted(expected)
