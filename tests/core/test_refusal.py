"""What is told of what a client sent fits into an answer, however long it was."""

from typing import Any

import pytest

from coordinator.core.catalog.names import reason_invalid
from coordinator.core.refusal import TEXT_CHARACTERS_MAX, Refusal, truncate
from protocol.apis import api_of
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.schema import Message
from tests.requests import create_topics
from tests.server.in_memory import InMemory

LONG = "€" * 10_920  # 32,760 bytes, nearly all that a text may have
PATTERN = "(" + LONG


def heartbeat(group_id: str = "g", **changes: Any) -> ConsumerGroupHeartbeatRequest:
    given = {"member_id": "m", "rebalance_timeout_ms": 1, "subscribed_topic_names": (), "topic_partitions": ()}
    return ConsumerGroupHeartbeatRequest(group_id, **given, **changes)


def creation(name: str, *nulls: str) -> Message:
    return create_topics({name: 1}, dict.fromkeys(nulls))


def test_a_text_that_fits_is_told_whole() -> None:
    assert truncate("x" * TEXT_CHARACTERS_MAX) == "x" * TEXT_CHARACTERS_MAX
    assert Refusal(ErrorCode.INVALID_CONFIG, "y").message == "y"


def test_of_a_longer_one_both_ends_are_told() -> None:
    text = f"Member {LONG} is not a member."
    cut = truncate(text)
    assert (len(cut), cut[:9], cut[-17:]) == (TEXT_CHARACTERS_MAX, "Member €€", " is not a member.")
    assert Refusal(ErrorCode.INVALID_CONFIG, text).message == cut
    assert len((reason_invalid(LONG) or "").encode()) < 32_767


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (heartbeat(subscribed_topic_regex=PATTERN), ErrorCode.INVALID_REGULAR_EXPRESSION),
        (heartbeat(server_assignor=LONG), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (heartbeat(LONG, member_epoch=3), ErrorCode.GROUP_ID_NOT_FOUND),
        (creation(LONG), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creation("t", LONG, LONG[:10_000]), ErrorCode.INVALID_CONFIG),
        (DescribeGroupsRequest((LONG,)), ErrorCode.GROUP_ID_NOT_FOUND),
        (ConsumerGroupDescribeRequest((LONG,)), ErrorCode.GROUP_ID_NOT_FOUND),
        (ListTransactionsRequest(transactional_id_pattern=PATTERN), ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_every_answer_has_its_bytes(request_: Message, error: ErrorCode, capfd: pytest.CaptureFixture[str]) -> None:
    """And what is wrong with a client's pattern is not written to the server's standard error."""
    server = InMemory()
    answer = server.connect().ask(request_, server.node.engine.offered[api_of(request_).key][-1])
    entry = next((getattr(answer, name)[0] for name in ("topics", "groups") if getattr(answer, name, ())), answer)
    assert entry.error_code == error
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if not line.startswith("%")] == [], "a line with % is of another test's client"
