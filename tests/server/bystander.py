"""A member that notices what others do to a server process, and how many descriptors a test may have for them."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coordinator.client import Client
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.live import Muster
from tests.requests import join


class Bystander:
    """A member of a group that beats on a connection of its own."""

    def __init__(self, muster: Muster) -> None:
        self._client = Client.to(muster.kafka)
        self._member = self._client.ask(join("calm", session_ms=600_000, rebalance_ms=600_000), version=3)
        synced = self._client.ask(
            SyncGroupRequest("calm", self._member.generation_id, self._member.member_id), version=3
        )
        assert (self._member.error_code, synced.error_code) == (0, 0)

    def is_well(self) -> bool:
        beat = HeartbeatRequest("calm", self._member.generation_id, self._member.member_id)
        return bool(self._client.ask(beat).error_code == ErrorCode.NONE)


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Let this process have so many more descriptors than a test of one server needs. Skips if it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 300:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 300), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
