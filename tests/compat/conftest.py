"""What tests with released clients share."""

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group of the test's own, on a server that it shares."""
    return str(request.node.name)


@pytest.fixture(autouse=True)
def find_unclosed_clients() -> Iterator[None]:
    """Fail a test that leaves a client of kafka-python running: it would connect, and log, in the tests that follow."""
    before = threading.enumerate()
    yield
    left = [one.name for one in threading.enumerate() if one not in before and one.name.startswith("kafka-io-")]
    assert not left, f"clients that the test has not closed: {left}"
