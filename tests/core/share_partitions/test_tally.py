"""The counters of the records of share groups."""

import pytest

from coordinator.core.share_partitions.tally import LOCK, DeliveryTally
from coordinator.core.share_state.values import DeliveryState, StateBatch


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
