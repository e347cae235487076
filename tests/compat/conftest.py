"""What tests with released clients share. One that is run again when its client has stopped does not wait for minutes."""

import pytest

from tests import live

STOPPED_SECONDS = (
    45.0  # a group of kafka-python that goes on at all does so within some seconds, also on a busy machine
)


@pytest.fixture(autouse=True)
def wait_less_for_a_client_that_may_stop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("flaky"):
        monkeypatch.setattr(live, "wait_seconds", STOPPED_SECONDS)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group of the test's own, on a server that it shares."""
    return str(request.node.name)
