"""How many clients a process takes, by how many descriptors it may have."""

import resource

import pytest

from coordinator.server.descriptors import SLACK, raise_limit, room_for_clients
from tests.log_lines import log_lines


@pytest.mark.parametrize(
    ("limit", "kept", "room"),
    [
        (10_000, 400, 10_000 - 400 - SLACK),
        (600, 434, 150),  # too few for all: a quarter, rather than nobody
        (resource.RLIM_INFINITY, 434, 2**31 - 1),
    ],
)
def test_what_the_logs_need_is_kept_from_the_clients(limit: int, kept: int, room: int) -> None:
    assert room_for_clients(limit, kept) == room


def test_a_limit_that_is_too_low_is_told(caplog: pytest.LogCaptureFixture) -> None:
    room_for_clients(10_000, 434)
    assert log_lines(caplog) == []
    room_for_clients(600, 434)
    fields = {"limit": 600, "logs": 434, "clients": 150}
    assert log_lines(caplog) == [("there are few descriptors (ulimit -n)", fields)]


@pytest.mark.parametrize("soft", [256, 10_240, 20_000])
def test_a_hard_limit_that_is_not_meant_is_not_asked_for(soft: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS: 256, of an infinity of which 10240 are given, or as many as there are already."""
    now, most = [soft], max(soft, 10_240)

    def give(_: int, limits: tuple[int, int]) -> None:
        if not 0 <= limits[0] <= most:
            raise ValueError("current limit exceeds maximum limit")
        now[0] = limits[0]

    monkeypatch.setattr(resource, "getrlimit", lambda _: (now[0], resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", give)
    assert raise_limit() == most == now[0]


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        assert raise_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
