"""The log's lines about topics."""

import logging

import pytest

from coordinator.core.catalog.catalog import Change
from coordinator.core.catalog.records import TopicValue
from coordinator.runtime.topic_log import LINES_MAX, describe, log_changes

OLD, NEW, GROWN = TopicValue(b"1" * 16, 3), TopicValue(b"2" * 16, 1), TopicValue(b"1" * 16, 5)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (Change("t", None, OLD), [("topic created", 3)]),
        (Change("t", OLD, None), [("topic deleted", 3)]),
        (Change("t", OLD, GROWN), [("partitions added", 5)]),
        (Change("t", OLD, NEW), [("topic deleted", 3), ("topic created", 1)]),
        (Change("t", OLD, OLD), []),
    ],
)
def test_a_change_is_told(change: Change, lines: list[tuple[str, int]]) -> None:
    assert describe(change) == [(message, {"topic": "t", "partitions": count}) for message, count in lines]


def test_a_step_that_changes_many_topics_writes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="muster.topic"):
        log_changes([Change(str(number), None, OLD) for number in range(1_000)])
    assert len(caplog.records) == LINES_MAX + 1
    assert caplog.records[-1].__dict__["topics"] == 1_000 - LINES_MAX
