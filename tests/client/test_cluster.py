"""Requests to the broker that coordinates a group, while that is another one by now, or not known yet."""

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.client import cluster as module
from coordinator.client.cluster import Cluster
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

BEAT = HeartbeatRequest("g", 1, "m")
MOVED, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Broker:
    """A connection to a broker, which answers with these codes, one after the other."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)

    def ask(self, message: Any, up_to: int | None = None) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=self.codes.pop(0))


@pytest.mark.parametrize(
    "brokers",
    [
        [Broker(ErrorCode.NONE)],
        [Broker(MOVED), Broker(ErrorCode.NONE)],
        [Broker(LOADING), Broker(MOVED), Broker(ErrorCode.UNKNOWN_MEMBER_ID)],
    ],
)
def test_whoever_is_not_ready_is_looked_up_again(monkeypatch: pytest.MonkeyPatch, brokers: list[Broker]) -> None:
    lookups: Iterator[Broker] = iter(brokers)
    expected = brokers[-1].codes[-1]
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(Cluster, "_connect_to_first", lambda cluster, addresses: None)
    monkeypatch.setattr(Cluster, "_find_coordinator", lambda cluster, name, key_type, deadline: next(lookups))
    cluster = Cluster(["127.0.0.1:1"], timeout=60.0)
    answer = cluster.ask_coordinator("g", BEAT, lambda response: [response.error_code])
    assert answer.error_code == expected
    assert not any(broker.codes for broker in brokers)
    brokers[-1].codes.append(ErrorCode.NONE)
    assert cluster.ask_coordinator("g", BEAT, lambda response: [response.error_code]).error_code == ErrorCode.NONE
    assert next(lookups, None) is None, "the one that was ready is asked again at once"
