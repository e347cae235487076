"""A test that is run again when its client has stopped does not wait for it for minutes."""

import pytest

from tests import live

STOPPED_SECONDS = (
    45.0  # a group of kafka-python that goes on at all does so within some seconds, also on a busy machine
)


@pytest.fixture(autouse=True)
def wait_less_for_a_client_that_may_stop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("flaky"):
        monkeypatch.setattr(live, "wait_seconds", STOPPED_SECONDS)
