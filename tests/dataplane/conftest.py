"""What tests of topics and records share."""

import pytest

from tests.dataplane.broker import Broker


@pytest.fixture
def broker() -> Broker:
    """A broker with the topic "t"."""
    broker = Broker()
    broker.create("t", partitions=2)
    return broker
