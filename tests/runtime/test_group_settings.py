"""Settings of one group: a restart remembers them."""

import pytest

from protocol.errors import ErrorCode
from storage.memory_files import MemoryFiles
from tests.members import ConsumerMember
from tests.requests import alter_configs
from tests.server.in_memory import InMemory

GROUP = 32  # a resource type


@pytest.mark.rule("K-338 K-341")
def test_a_session_is_as_long_as_the_group_says_also_after_a_restart() -> None:
    """The settings are there before the group is."""
    files = MemoryFiles()
    first = InMemory(files)
    changes = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    assert first.connect().ask(alter_configs(GROUP, "shop", changes), 1).responses[0].error_code == ErrorCode.NONE
    member = ConsumerMember(first.connect("m"), "m", "shop")
    member.beat()
    first.node.close()

    again = InMemory(files)
    member.peer = again.connect()
    assert member.beat().heartbeat_interval_ms == 7_000
    again.advance(49.9)
    assert again.events == []
    again.advance(0.2)
    assert next(str(event.cause) for event in again.events) == "session_expired"
