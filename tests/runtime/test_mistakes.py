"""What happens when a handler has a mistake that nobody thought of."""

import logging
from typing import Any, NoReturn

import pytest

from coordinator.core import dispatch
from coordinator.core.env import Env
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Message
from tests.requests import commit, join
from tests.server.in_memory import InMemory

COMMIT = commit("g", {"orders": {0: 0}})


def mistaken(group: None, request: Any, env: Env) -> NoReturn:
    raise KeyError("nobody thought of that")


@pytest.mark.rule("G-048")
@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (join("g"), 3),
        (SyncGroupRequest("g", 1, "m"), 3),
        (HeartbeatRequest("g", 1, "m"), 3),
        (LeaveGroupRequest("g", "m"), 2),
        (ConsumerGroupHeartbeatRequest("g", "m", 1), 1),
        (COMMIT, 8),
        (OffsetDeleteRequest("g"), 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_it_costs_that_request_alone(
    request_: Message, version: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = InMemory()
    peer = server.connect()
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR, "muster"):
        broken.setitem(dispatch.HANDLERS, (type(request_), type(None)), mistaken)
        answer = peer.ask(request_, version)
    codes = [p.error_code for t in answer.topics for p in t.partitions] if request_ is COMMIT else [answer.error_code]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "KeyError" in caplog.text and "nobody thought of that" in caplog.text
    assert not server.node.partitions.owner("g").shard.groups, "the group is as it was"
    assert peer.ask(request_, version) is not None, "the next one is decided, on the same connection"
