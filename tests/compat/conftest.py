"""What tests with released clients share."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group of the test's own, on a server that it shares."""
    return str(request.node.name)


@pytest.fixture(autouse=True)
def find_unclosed_clients() -> Iterator[None]:
    """Fail a test that leaves a client running: it would connect, and log, in the tests that follow."""
    before, native = threading.enumerate(), find_librdkafka()
    yield
    if find_librdkafka() - native:
        gc.collect()  # one without `close` ends with its object
    assert find_librdkafka() <= native, "the test has left a client of confluent-kafka"
    left = [one.name for one in threading.enumerate() if one not in before and one.name.startswith("kafka-io-")]
    assert not left, f"clients that the test has not closed: {left}"


def find_librdkafka() -> set[str]:
    """Return the main thread of each client of librdkafka in this process; none where the system does not tell."""
    found = set()
    for thread in Path("/proc/self/task").glob("*"):
        try:
            if (thread / "comm").read_text() == "rdk:main\n":
                found.add(thread.name)
        except OSError:  # it has ended meanwhile
            continue
    return found
