"""What tests of commands share."""

import pytest

from tests.cli.command import Command
from tests.live import Muster


@pytest.fixture
def command(muster: Muster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(muster.kafka, capsys)
