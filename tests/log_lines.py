"""Log lines as an operator sees them: each message with its fields."""

import logging
from typing import Any

import pytest

_OF_EVERY_RECORD = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime"}


def log_lines(caplog: pytest.LogCaptureFixture, logger: str = "muster") -> list[tuple[str, dict[str, Any]]]:
    """The message and the fields of each line of one logger and those under it."""
    return [
        (record.getMessage(), {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD})
        for record in caplog.records
        if record.name.startswith(logger)
    ]
