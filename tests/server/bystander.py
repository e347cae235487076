"""A member that measures how long other clients delay it, and the number of descriptors that a test may use."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coordinator.client import Client
from protocol.errors import ErrorCode
from tests.live import Muster
from tests.members import ClassicMember


class Bystander(ClassicMember):
    """A member of a group that beats on a connection of its own."""

    def __init__(self, muster: Muster) -> None:
        super().__init__(Client.to(muster.kafka), "calm")
        assert (self.join(600_000, 600_000).error_code, self.sync().error_code) == (0, 0)

    def is_well(self) -> bool:
        return self.beat() == ErrorCode.NONE


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
