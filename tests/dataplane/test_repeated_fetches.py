"""An idle consumer fetches the same again and again: what was found is remembered, as long as it is still so."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.dataplane import long_polls
from coordinator.dataplane.fetch import FEW
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchRequestForgottenTopic, FetchRequestPartition, FetchRequestTopic
from tests.dataplane.broker import NODES, Broker, batch, call
from tests.requests import delete_records, fetch, fetch_all


def change(broker: Broker, dice: Random) -> None:
    """Do nothing, mostly; else something of which consumers of partition 0 must hear."""
    match dice.randrange(8):
        case 0:
            broker.produce("t", 0, batch("a"))
        case 1:
            broker.ask(delete_records("t", {0: -1}))
        case 2:
            broker.delete("t")
            broker.create("t", partitions=2)


def wait(broker: Broker, request: FetchRequest, version: int) -> Any:
    """Return the response, at once or when the wait is over."""
    answer = broker.ask(request, 7, version)
    if answer is None:
        broker.real_ms += 650
        ((_, answer),) = broker.replies()
    return answer


def topic_id(broker: Broker) -> bytes:
    return broker.ledger.catalog.topics_by_name["t"].id


@pytest.mark.parametrize("version", [12, 13])
def test_a_client_that_fetches_the_same_again_gets_what_a_new_client_gets(broker: Broker, version: int) -> None:
    dice, again = Random(version), fetch("t", 0, 0, max_wait_ms=500, min_bytes=1)
    repeated = 0
    for number in range(600):
        change(broker, dice)
        answers = [broker.ask(again, 7, version), broker.ask(replace(again), 8, version)]
        if answers == [None, None]:
            change(broker, dice)
            broker.real_ms += 650
            replies = dict(broker.replies())
            answers = [replies[7], replies[8]]
        assert answers[0] == answers[1], f"round {number}"
        found = answers[0].responses[0].partitions[0]
        repeated += not (found.records or found.error_code)
        if found.records or found.error_code or dice.random() < 0.02:
            topics = (replace(again.topics[0], topic_id=topic_id(broker) if version > 12 else bytes(16)),)
            end = 0 if found.error_code == ErrorCode.UNKNOWN_TOPIC_ID else broker.plane.end_offset("t", 0) or 0
            rows = (replace(again.topics[0].partitions[0], fetch_offset=end),)
            again = replace(again, topics=(replace(topics[0], partitions=rows),))
    assert repeated > 200, "a test of idle consumers"


def test_what_it_is_told_is_worked_out_once(broker: Broker) -> None:
    request = fetch("t", 0, 0, max_wait_ms=500, min_bytes=1)
    first = wait(broker, request, 12)
    assert wait(broker, request, 12) is first
    assert wait(broker, replace(request), 12) is not first
    assert wait(broker, request, 11) is first, "in the form of any version that knows topics by their names"
    assert wait(broker, request, 13).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_what_cannot_be_read_is_looked_for_each_time(broker: Broker) -> None:
    one = (FetchRequestPartition(0),)
    topics = (FetchRequestTopic("t", topic_id(broker), one), FetchRequestTopic("u", bytes(15) + b"u", one))
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)
    for version, error in ((12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)):
        for _ in range(2):
            there, missing = wait(broker, request, version).responses
            assert (there.partitions[0].error_code, missing.partitions[0].error_code) == (ErrorCode.NONE, error)
    broker.create("u")
    assert wait(broker, request, 12).responses[1].partitions[0].error_code == ErrorCode.NONE


def test_a_session_hears_of_news_once_and_of_all_news(broker: Broker) -> None:
    """What a consumer has heard in its session is what a full fetch tells."""
    dice, heard = Random(7), dict[int, tuple[int, int]]()
    session = epoch = offset = quiet = 0
    for number in range(400):
        if dice.random() < 0.5:
            change(broker, dice)
        topics = fetch_all("t", {0: offset, 1: 0}).topics
        request = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=session, session_epoch=epoch)
        answer = wait(broker, request if epoch else replace(request, topics=topics), 12)
        if not answer.error_code:
            session, epoch = answer.session_id, epoch + 1
        data = [one for topic in answer.responses for one in topic.partitions]
        news = {one.partition_index: (one.high_watermark, one.log_start_offset) for one in data}
        assert epoch == 1 or not any(heard[p] == told for p, told in news.items() if not data[0].error_code), number
        heard |= news
        full = broker.ask(FetchRequest(topics=topics), 2, 12).responses[0].partitions
        if any(one.error_code or one.records for one in full):
            offset, session, epoch = broker.plane.end_offset("t", 0) or 0, 0, 0  # the client goes on behind it
        else:
            assert heard == {one.partition_index: (one.high_watermark, one.log_start_offset) for one in full}, number
            quiet += not data
    assert quiet > 100, "a test of idle consumers"


def test_each_first_fetch_of_a_session_begins_one(broker: Broker) -> None:
    request = fetch("t", 0, 0, max_wait_ms=500, min_bytes=1, session_epoch=0)
    assert wait(broker, request, 12).session_id != wait(broker, request, 12).session_id


def test_a_session_whose_client_asks_for_something_else_is_read_again(broker: Broker) -> None:
    broker.produce("t", 0, batch("a"))
    first = fetch("t", 0, 1, max_wait_ms=500, min_bytes=1, session_epoch=0)
    session = wait(broker, first, 12).session_id
    again = replace(first, session_id=session, topics=())
    for epoch in (1, 2):
        assert wait(broker, replace(again, session_epoch=epoch), 12).responses == ()
    assert broker.ask(replace(again, session_epoch=3, min_bytes=0), 7, 12) is not None, "it has enough at once"
    assert wait(broker, replace(again, session_epoch=4), 12).responses == ()
    assert broker.ask(replace(again, session_epoch=5, max_wait_ms=0), 7, 12) is not None, "it does not wait"
    assert wait(broker, replace(again, session_epoch=6), 12).responses == ()
    back = replace(first, session_id=session, session_epoch=7, topics=fetch("t", 0, 0).topics)
    assert broker.ask(back, 7, 12).responses[0].partitions[0].records


def test_a_session_that_forgets_a_partition_does_not_wait_for_it(broker: Broker) -> None:
    first = replace(fetch_all("t", {0: 0, 1: 0}, max_wait_ms=500, min_bytes=1), session_epoch=0)
    session = wait(broker, first, 12).session_id
    again = replace(first, session_id=session, topics=())
    assert wait(broker, replace(again, session_epoch=1), 12).responses == ()
    gone = (FetchRequestForgottenTopic("t", partitions=(1,)),)
    assert broker.ask(replace(again, session_epoch=2, forgotten_topics_data=gone), 7, 12) is None
    broker.produce("t", 1, batch("a"))
    assert broker.replies() == []
    broker.produce("t", 0, batch("b"))
    ((_, answer),) = broker.replies()
    assert [one.partition_index for topic in answer.responses for one in topic.partitions] == [0]


def test_rights_are_looked_at_each_time(broker: Broker) -> None:
    """Somebody may have taken them away."""
    request = fetch("t", 0, 0, max_wait_ms=500, min_bytes=1)
    wait(broker, request, 12)
    rights: Any = SimpleNamespace(may=lambda *_: False)
    answer = broker.plane.handle(request, replace(call(request, 7, 12), rights=rights), NODES).response
    assert answer.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_few_fetches_are_remembered(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of few partitions."""
    monkeypatch.setattr(long_polls, "REMEMBERED_MAX", 2)
    requests = [fetch("t", 0, 0, max_wait_ms=500, min_bytes=1) for _ in range(3)]
    first = [wait(broker, request, 12) for request in requests]
    second = [wait(broker, request, 12) for request in reversed(requests)]
    assert [one is other for one, other in zip(reversed(first), second, strict=True)] == [True, True, False]
    broker.create("wide", partitions=FEW + 1)
    wide = fetch_all("wide", dict.fromkeys(range(FEW + 1), 0), max_wait_ms=500)
    assert wait(broker, wide, 12) is not wait(broker, wide, 12)
