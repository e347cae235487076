"""Durations are read as Java reads them."""

import pytest

from coordinator.core.durations import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P2DT3H4M5.678S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_678),
        ("pt0.5s", 500),
        ("PT-1.5S", -1_500),
        ("-PT6H", -6 * 3_600_000),
        ("PT10S", 10_000),
        ("P1D", 86_400_000),
        ("PT1,25S", 1_250),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1W", None),
        ("1H", None),
        ("PT١S", None),
        ("", None),
    ],
)
def test_a_duration_is_milliseconds(text: str, ms: int | None) -> None:
    assert parse_duration_ms(text) == ms
