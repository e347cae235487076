"""The counters of the records of share groups."""

import pytest

from coordinator.core.share_partitions.tally import LOCK, DeliveryTally
from coordinator.core.share_partitions.values import Run
from coordinator.core.share_state.values import DeliveryState, StateBatch


def test_what_is_acquired_counts_by_records_and_not_for_the_first_time_as_redelivered() -> None:
    tally = DeliveryTally()
    tally.count_acquired([Run(5, 7, DeliveryState.ACQUIRED, 1, 5, 9), Run(8, 9, DeliveryState.ACQUIRED, 2, 5, 9)])
    assert tally == DeliveryTally(acquired=5, redelivered=2)


@pytest.mark.parametrize(
    ("state", "by", "counted"),
    [
        (DeliveryState.AVAILABLE, LOCK, {"expired"}),
        (DeliveryState.ARCHIVED, LOCK, {"expired", "archived"}),
        (DeliveryState.AVAILABLE, "ShareAcknowledge", {"released"}),
        (DeliveryState.ARCHIVED, "ShareAcknowledge", {"archived"}),
        (DeliveryState.ACKNOWLEDGED, "ShareAcknowledge", {"accepted"}),
    ],
)
def test_each_record_counts_for_what_became_of_it(state: DeliveryState, by: str, counted: set[str]) -> None:
    """Each of a range. The last delivery whose lock ends is both."""
    tally = DeliveryTally()
    tally.count_settled([StateBatch(5, 7, state, 1), StateBatch(9, 9, state, 2)], by)
    assert {name for name in tally.__struct_fields__ if getattr(tally, name)} == counted
    assert all(getattr(tally, name) == 4 for name in counted)
