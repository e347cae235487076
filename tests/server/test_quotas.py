"""Clients over their quotas: what they are told, who waits, and for how long."""

from itertools import product
from math import inf
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.config import Config
from coordinator.core.addresses import address_of
from coordinator.core.principal import Principal
from coordinator.core.quotas.buckets import THROTTLE_MS_MAX
from coordinator.core.quotas.entities import CONNECTIONS, IP, SAMPLES
from coordinator.core.quotas.rules import QuotaRules
from coordinator.core.share_state.values import StateKey
from coordinator.server import quotas
from coordinator.server.admission import Admission
from coordinator.server.quotas import Rate
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from storage.memory_files import MemoryFiles
from storage.segment import count_records
from tests.dataplane.broker import batch
from tests.requests import create_topics, delete_records, fetch, fetch_all, produce
from tests.server.in_memory import InMemory
from tests.server.listening import VERSIONS, listening, until

BEAT = (HeartbeatRequest("g", 1, "m"), 3)
MB = "x" * 10_000


def limit(server: InMemory, key: str, value: float | None, *entity: tuple[str, str | None]) -> None:
    parts = tuple(AlterClientQuotasRequestEntityData(*part) for part in entity)
    ops = (AlterClientQuotasRequestOpData(key, value or 0.0, value is None),)
    request = AlterClientQuotasRequest((AlterClientQuotasRequestEntryData(parts, ops),))
    (answer,) = server.connect("admin").ask(request, 1).entries
    assert answer.error_code == ErrorCode.NONE, answer


def producing(partition: int = 0) -> tuple[Any, int]:
    return produce("orders", {partition: batch(MB)}), 9


def fetching(partition: int = 0, wait_ms: int = 0) -> tuple[Any, int]:
    return fetch("orders", partition, max_wait_ms=wait_ms, max_bytes=1 << 20, partition_max_bytes=1 << 20), 11


def test_a_rate_is_measured_over_eleven_samples() -> None:
    rate = Rate()
    rate.add(1_000, 0.0)
    assert rate.throttle_ms(100, 0.0) == 0, "a client that begins may use ten seconds' worth at once"
    rate.add(500, 0.5)
    assert rate.throttle_ms(100, 0.5) == pytest.approx(4_500, abs=1)
    assert rate.throttle_ms(100, SAMPLES + 1.0) == 0, "and what is old is forgotten"


@pytest.mark.parametrize(("quota", "throttle_ms"), [(5e-324, THROTTLE_MS_MAX), (1e300, 0), (inf, 0)])
def test_a_rate_is_held_against_any_number(quota: float, throttle_ms: int) -> None:
    rate = Rate()
    rate.add(1.0, 0.0)
    assert rate.throttle_ms(quota, 0.5) == throttle_ms


@pytest.mark.parametrize("key", ["request_percentage", "controller_mutation_rate"])
@pytest.mark.parametrize("quota", [5e-324, inf])
def test_a_quota_may_be_any_number(key: str, quota: float) -> None:
    server = InMemory()
    limit(server, key, quota, ("client-id", "c"))
    answer = server.connect("c").ask(create_topics({"new": 3}), 6)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert answer.throttle_time_ms == (THROTTLE_MS_MAX if (key, quota) == ("controller_mutation_rate", 5e-324) else 0)


def test_a_producer_over_its_quota_waits_and_nobody_else() -> None:
    server = InMemory()
    limit(server, "producer_byte_rate", 1_000, ("client-id", "p"))
    peer, other = server.connect("p"), server.connect("q")
    told = [peer.ask(*producing()).throttle_time_ms]
    assert told[0] > 0
    peer.send(VERSIONS)
    server.turn()
    assert len(peer.answers) == 1, "its next request waits"
    assert other.ask(*producing()).throttle_time_ms == 0
    server.advance(told[0] / 1000 - 0.1)
    assert len(peer.answers) == 1
    server.advance(0.2)
    server.turn()
    assert len(peer.answers) == 2, "and is decided when the time is over"


def test_a_consumer_over_its_quota_gets_nothing_and_a_waiting_one_too() -> None:
    server = InMemory()
    filler = server.connect("filler")
    for _ in range(3):
        filler.ask(*producing())
    limit(server, "consumer_byte_rate", 100, ("user", None))
    answer = server.connect("c").ask(*fetching())
    assert answer.throttle_time_ms > 0 and answer.responses == ()
    limit(server, "consumer_byte_rate", None, ("user", None))
    limit(server, "consumer_byte_rate", 100, ("client-id", "w"))
    waiting = server.connect("w")
    assert waiting.ask(*fetching(1, 9_000)) is None
    filler.ask(*producing(1))
    server.turn()
    assert waiting.answers[-1][1].throttle_time_ms > 0 and waiting.answers[-1][1].responses == ()


def test_a_fetch_over_the_quota_begins_no_session_and_ends_none() -> None:
    """A client pays no heed to a session that comes with an empty response, and begins another one."""
    server = InMemory()
    server.connect("filler").ask(*producing())
    request, version = fetching()
    begins = replace(request, session_epoch=0)
    session = server.connect("c").ask(begins, version).session_id
    limit(server, "consumer_byte_rate", 100, ("client-id", "c"))
    assert server.connect("c").ask(begins, version).session_id == 0
    going_on = replace(request, session_id=session, session_epoch=1)
    answer = server.connect("c").ask(going_on, version)
    assert (answer.throttle_time_ms > 0, answer.responses, answer.session_id) == (True, (), session)
    assert len(server.node.world.dataplane._state.sessions) == 1


@pytest.mark.parametrize("version", [11, 13])
def test_what_a_throttled_consumer_was_not_told_it_is_told_next_time(version: int) -> None:
    """News of partitions without records, too: a session tells of them once."""
    server = InMemory()
    topic_id = server.node.world.ledger.catalog.topics_by_name["orders"].id
    server.connect("filler").ask(*producing(1))
    consumer, none = server.connect("c"), FetchRequest(max_wait_ms=0)

    def ask(request: FetchRequest, *session: int) -> Any:
        topics = tuple([replace(topic, topic_id=topic_id) for topic in request.topics])
        request = replace(request, topics=topics, session_id=session[0], session_epoch=session[1])
        answer = consumer.ask(request, version)
        server.advance(answer.throttle_time_ms / 1000 + 1)
        server.turn()
        return answer

    session = ask(fetch_all("orders", {0: 0, 1: 1}), 0, 0).session_id
    server.connect("filler").ask(*producing(0))
    server.connect("filler").ask(delete_records("orders", {1: 1}), 2)
    limit(server, "consumer_byte_rate", 100, ("client-id", "c"))
    assert ask(none, session, 1).responses == ()
    limit(server, "consumer_byte_rate", None, ("client-id", "c"))
    (told,) = ask(none, session, 2).responses
    news = {(one.partition_index, bool(one.records), one.log_start_offset) for one in told.partitions}
    assert news == {(0, True, 0), (1, False, 1)}
    assert ask(none, session, 3).responses[0].partitions[0].records, "as long as it asks from there on"


def test_what_a_throttled_consumer_did_not_get_is_not_counted() -> None:
    """Else each try would make the wait longer, and the consumer would never get anything."""
    server = InMemory()
    limit(server, "consumer_byte_rate", 2_000, ("client-id", "c"))
    server.connect("filler").ask(*producing())
    waits = []
    consumer = server.connect("c")
    for _ in range(10):
        answer = consumer.ask(*fetching())
        waits.append(answer.throttle_time_ms)
        server.advance(answer.throttle_time_ms / 1000 + 0.001)
        server.turn()
    assert waits[0] == 0, "ten seconds' worth may be used at once"
    assert max(waits) < 5_100, f"records of 10 KB are five seconds' worth: {waits}"
    assert waits.count(0) >= 3, f"it gets records again and again: {waits}"


@given(
    quota=st.integers(200, 40_000),
    sizes=st.lists(st.integers(1, 1_500), min_size=1, max_size=12),
    max_bytes=st.sampled_from((1, 5_000, 1 << 20)),
    has_session=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_consumer_reads_on_whatever_its_quota_is(
    quota: int, sizes: list[int], max_bytes: int, has_session: bool
) -> None:
    """A response that its quota could never allow would be withheld for ever. No batch is larger than ten seconds' worth.

    And it reads no faster than its quota, but for what it may use at once."""
    server = InMemory()
    written = [batch("x" * size) for size in sizes]
    for one in written:
        assert (
            not server.connect("filler")
            .ask(produce("orders", {0: one}), 9)
            .responses[0]
            .partition_responses[0]
            .error_code
        )
    limit(server, "consumer_byte_rate", quota, ("client-id", "c"))
    consumer, offset, got, session = server.connect("c"), 0, 0, (0, 0 if has_session else -1)
    for _ in range(4 * len(sizes)):
        wanted = fetch("orders", 0, offset, max_bytes=max_bytes, partition_max_bytes=max_bytes)
        answer = consumer.ask(replace(wanted, session_id=session[0], session_epoch=session[1]), 11)
        if answer.session_id:
            session = answer.session_id, session[1] + 1
        records = b"".join(one.records for topic in answer.responses for one in topic.partitions)
        got, offset = got + len(records), offset + count_records(records)
        assert got <= quota * (server.seconds + SAMPLES)
        if offset == len(sizes):
            return
        server.advance(answer.throttle_time_ms / 1000 + 0.001)
        server.turn()
    raise AssertionError(f"{offset} of {len(sizes)} records in {server.seconds} s")


def test_a_share_consumer_over_its_quota_gets_what_it_has_acquired() -> None:
    server = InMemory()
    server.connect("filler").ask(*producing())
    topic = server.node.world.ledger.catalog.topics_by_name["orders"]
    server.node.engine.share_states.initialize(StateKey("g", topic.id, 0), 1, 0, 0)
    limit(server, "consumer_byte_rate", 100, ("client-id", "c"))
    answer = share_fetch(server, "c", topic.id)
    assert answer.throttle_time_ms > 0
    assert answer.responses[0].partitions[0].acquired_records


def share_fetch(server: InMemory, client_id: str, topic_id: bytes, member_id: str = "m") -> Any:
    topics = (ShareFetchRequestTopic(topic_id, (ShareFetchRequestPartition(0),)),)
    consumer = server.connect(client_id)
    consumer.send((ShareFetchRequest("g", member_id, max_records=500, max_bytes=1 << 20, topics=topics), 2))
    while not consumer.answers:
        server.turn()
    return consumer.answers[-1][1]


def test_a_share_consumer_acquires_no_more_at_once_than_its_quota_allows() -> None:
    """The locks of what it has acquired would end while it waits, until the records are archived."""
    server = InMemory()
    for _ in range(20):
        server.connect("filler").ask(produce("orders", {0: batch("x" * 500)}), 9)
    topic = server.node.world.ledger.catalog.topics_by_name["orders"]
    server.node.engine.share_states.initialize(StateKey("g", topic.id, 0), 1, 0, 0)
    limit(server, "consumer_byte_rate", 200, ("client-id", "c"))
    answer = share_fetch(server, "c", topic.id)
    assert answer.throttle_time_ms == 0
    assert 0 < len(answer.responses[0].partitions[0].records) <= 2_000
    rest = share_fetch(server, "unlimited", topic.id, "n").responses[0].partitions[0]
    assert rest.acquired_records[-1].last_offset == 19


def test_the_time_of_requests_is_counted_and_waits_are_bounded() -> None:
    server = InMemory()
    limit(server, "request_percentage", 0.000001, ("client-id", "r"))
    ticks = iter(range(10**6))
    server.frontend.turn.real_s = lambda: server.seconds + next(ticks) / 1e5
    assert 0 < server.connect("r").ask(*BEAT).throttle_time_ms <= 1_000
    assert server.connect("s").ask(*BEAT).throttle_time_ms == 0
    waiting = server.connect("r")
    assert waiting.ask(*fetching(1, 9_000)) is None
    server.connect("filler").ask(*producing(1))
    server.turn()
    assert 0 < waiting.answers[-1][1].throttle_time_ms <= 1_000, "its response came later"
    assert waiting.answers[-1][1].responses, "its records count for another quota"
    assert waiting.ask(*BEAT) is None and waiting.connection.is_muted


def test_a_topic_costs_as_many_tokens_as_it_gets_partitions() -> None:
    server = InMemory(num_partitions=5)
    limit(server, "controller_mutation_rate", 0.1, ("client-id", "t"))
    answer = server.connect("t").ask(create_topics({"a": -1, "b": -1}), 7)
    assert [one.error_code for one in answer.topics] == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]


@pytest.mark.parametrize(("partitions", "refused"), [(1, False), (3, True)])
def test_a_topic_with_assignments_costs_a_token_for_each_of_them(partitions: int, refused: bool) -> None:
    """The bucket has 1.1 tokens: one partition leaves some, three are owed before the next topic."""
    server = InMemory(num_partitions=1)
    limit(server, "controller_mutation_rate", 0.1, ("client-id", "t"))
    assigned = tuple(CreateTopicsRequestCreatableReplicaAssignment(at, (0,)) for at in range(partitions))
    topics = (CreateTopicsRequestCreatableTopic("a", -1, -1, assigned), CreateTopicsRequestCreatableTopic("b", 1, 1))
    answer = server.connect("t").ask(CreateTopicsRequest(topics, 1_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert answer.topics[0].num_partitions == partitions
    assert (answer.topics[1].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED) is refused
    assert answer.throttle_time_ms == pytest.approx(max(partitions - 1.1, 0) / 0.1 * 1000 if refused else 9_000, abs=1)


@pytest.mark.parametrize("version", [1, 5, 6])
@pytest.mark.parametrize("by_id", [False, True])
def test_a_topic_costs_as_many_tokens_as_it_had_partitions(version: int, by_id: bool) -> None:
    server = InMemory(topics={"a": 5, "b": 1})
    limit(server, "controller_mutation_rate", 0.1, ("client-id", "t"))
    topics = server.node.world.ledger.catalog.topics
    ids = [topics[name].id for name in ("a", "b")]
    named = tuple(DeleteTopicsRequestDeleteTopicState(name) for name in ("a", "b"))
    by_state = tuple(DeleteTopicsRequestDeleteTopicState(None, one) for one in ids) if by_id else named
    request = DeleteTopicsRequest(by_state) if version >= 6 else DeleteTopicsRequest(topic_names=("a", "b"))
    answer = server.connect("t").ask(request, version)
    second = ErrorCode.NONE if version < 5 else ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [one.error_code for one in answer.responses] == [ErrorCode.NONE, second]
    assert answer.responses[0].name == "a"
    assert answer.responses[1].topic_id == ids[1] if by_id and version >= 6 else answer.responses[1].name == "b"
    owed = (
        3.9 if version >= 5 else 4.9
    )  # five tokens of 1.1 that there were, and the one of a client that is not refused
    assert answer.throttle_time_ms == pytest.approx(owed / 0.1 * 1000, abs=1)


@pytest.mark.parametrize(("count", "owed"), [(4, 0), (9, 3.9), (1, 0)])
def test_partitions_that_are_added_cost_a_token_each(count: int, owed: float) -> None:
    server = InMemory()
    limit(server, "controller_mutation_rate", 0.1, ("client-id", "t"))
    answer = server.connect("t").ask(CreatePartitionsRequest((CreatePartitionsRequestTopic("orders", count, None),)), 3)
    assert answer.throttle_time_ms == pytest.approx(owed / 0.1 * 1000, abs=1)


def test_a_client_that_changes_too_much_waits_whatever_it_makes_of_the_answer() -> None:
    server = InMemory()
    limit(server, "controller_mutation_rate", 0.5, ("client-id", "t"))
    peer = server.connect("t")
    assert peer.ask(create_topics({"a": 7}), 5).throttle_time_ms == 3_000
    peer.send(VERSIONS)
    server.advance(2.9)
    assert len(peer.answers) == 1, "its next request waits"
    server.advance(0.2)
    server.turn()
    assert len(peer.answers) == 2


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("produce", "produce", "leave", "wait"))), max_size=12)
)
@settings(max_examples=40)
def test_each_of_several_clients_waits_for_its_own_time(done: list[tuple[str, str]]) -> None:
    """Some of which leave meanwhile; clients of one id share a rate, and each waits for what it was told."""
    server = InMemory()
    for number, name in enumerate("abc"):
        limit(server, "producer_byte_rate", 900 + 200 * number, ("client-id", name))
    waits: list[tuple[Any, float]] = []
    for name, what in done:
        if what == "produce":
            peer = server.connect(name)
            told_ms = peer.ask(*producing()).throttle_time_ms
            peer.send(VERSIONS)
            server.turn()
            waits.append((peer, server.seconds + told_ms / 1000))
        elif what == "leave" and waits:
            server.frontend.disconnect(waits.pop(len(waits) // 2)[0].connection)
        else:
            server.advance(3.7)
            server.turn()
        left = [until_s for _, until_s in waits if until_s > server.seconds]
        assert [len(peer.answers) for peer, _ in waits] == [1 if until > server.seconds else 2 for _, until in waits]
        assert server.frontend.throttled.next_s == (min(left) if left else None)


def test_a_client_waits_for_the_longest_of_its_times() -> None:
    """What it has produced, and the time that its requests have taken."""
    server = InMemory()
    limit(server, "request_percentage", 0.000001, ("client-id", "p"))
    ticks = iter(range(10**6))
    server.frontend.turn.real_s = lambda: server.seconds + next(ticks) / 1e5
    assert server.connect("p").ask(*producing()).throttle_time_ms == 1_000
    limit(server, "producer_byte_rate", 990, ("client-id", "p"))
    assert server.connect("p").ask(*producing()).throttle_time_ms == 1_000
    limit(server, "producer_byte_rate", 100, ("client-id", "p"))
    assert server.connect("p").ask(*producing()).throttle_time_ms > 10_000
    limit(server, "controller_mutation_rate", 0.1, ("client-id", "p"))
    assert server.connect("p").ask(create_topics({"a": 3}), 5).throttle_time_ms > 10_000, "the response's own one"


def test_a_fetch_without_records_is_answered_whole_over_the_quota_too() -> None:
    server = InMemory()
    limit(server, "consumer_byte_rate", 2_000, ("client-id", "c"))
    server.connect("filler").ask(*producing())
    assert server.connect("c").ask(*fetching()).responses != ()
    limit(server, "consumer_byte_rate", 1, ("client-id", "c"))
    assert server.connect("c").ask(*fetching()).responses == ()
    answer = server.connect("c").ask(*fetching(1))
    assert (answer.throttle_time_ms, len(answer.responses)) == (0, 1)


def test_the_rate_that_is_oldest_goes_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "RATES_MAX", 2)
    server = InMemory()
    limit(server, "producer_byte_rate", 2_500, ("client-id", None))

    def wait_ms(name: str) -> int:
        told: int = server.connect(name).ask(*producing()).throttle_time_ms
        return told

    assert [wait_ms(name) for name in "aabbc"] == [0] * 5, "some may be used at once"
    assert wait_ms("b") > 0, "it is known still"
    assert wait_ms("a") == 0, "it went as c came, and b goes now"
    assert wait_ms("c") == 0 and wait_ms("c") > 0
    assert [wait_ms("b"), wait_ms("b")] == [0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.sampled_from((0.0, 0.25, 0.5, 1.0, 3.0, 11.0))), max_size=20),
    st.sampled_from((10, 100, 500)),
)
def test_a_rate_is_that_of_the_samples_of_its_window(added: list[tuple[int, float]], quota: int) -> None:
    """Kafka's arithmetic, over a list of all samples there ever were."""
    rate, samples, now_s = Rate(), list[list[float]](), 0.0
    for amount, pause_s in added:
        now_s += pause_s
        if not samples or now_s - samples[-1][0] >= 1:
            samples.append([now_s, 0])
        samples[-1][1] += amount
        rate.add(amount, now_s)
        window = [one for one in samples if now_s - one[0] < SAMPLES]
        elapsed_s = now_s - window[0][0]
        window_s = elapsed_s + max(SAMPLES - 1 - int(elapsed_s), 0)
        over = sum(amount for _, amount in window) / window_s - quota
        assert rate.throttle_ms(quota, now_s) == (round(over / quota * window_s * 1000) if over > 0 else 0)


def test_quotas_are_there_after_a_restart_and_a_client_that_leaves_is_forgotten() -> None:
    files = MemoryFiles()
    one = InMemory(files)
    limit(one, "producer_byte_rate", 1_000, ("client-id", "p"))
    limit(one, "producer_byte_rate", 2_000, ("user", "gone"))
    limit(one, "producer_byte_rate", None, ("user", "gone"))
    peer = one.connect("p")
    assert peer.ask(*producing()).throttle_time_ms > 0
    one.frontend.disconnect(peer.connection)
    assert one.frontend.throttled.next_s is None
    one.node.close()
    two = InMemory(files)
    (entry,) = two.connect().ask(DescribeClientQuotasRequest(), 1).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("client-id", "p")]
    assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 1_000.0)]


def test_the_quota_of_a_user_counts_for_its_principal() -> None:
    server = InMemory()
    limit(server, "producer_byte_rate", 1_000, ("user", "alice"))
    peer = server.connect("p")
    peer.connection.principal = Principal("User", "alice")
    assert peer.ask(*producing()).throttle_time_ms > 0
    assert server.connect("p").ask(*producing()).throttle_time_ms == 0


@given(st.integers(1, 5), st.integers(2, 20), st.integers(60, 120))
@settings(max_examples=40)
def test_an_address_that_goes_on_trying_gets_its_rate_and_no_other_address_less(
    quota: int, attempts_a_second: int, seconds: int
) -> None:
    """A refused connection does not count: however many clients try, as many as may get in do."""
    admission, rules = Admission(Config()), QuotaRules()
    rules.put(((IP, None),), CONNECTIONS, quota)
    taken = 0
    for at in range(seconds * attempts_a_second):
        now_s = at / attempts_a_second
        taken += admission.refuse("10.0.0.1", rules, now_s) is None
        if at % attempts_a_second == 0 and now_s % 2 == 0:
            assert admission.refuse("10.0.0.2", rules, now_s) is None, "it comes slowly"
    wanted = min(quota, attempts_a_second) * seconds
    assert 0.8 * wanted - SAMPLES * quota <= taken <= wanted + SAMPLES * quota


async def test_so_many_connections_of_one_address_and_no_more() -> None:
    async with listening(max_connections_per_ip=2) as here:
        first, second = await here.connect(), await here.connect()
        assert await (await here.connect()).is_closed(), "one more is closed"
        assert here.poller.connections == 2
        await first.stream.aclose()
        await until(lambda: here.poller.connections == 1)
        await (await here.connect()).ask()
        await second.ask()
        assert here.server.stats.connections_closed["max.connections.per.ip"] == 1


def test_the_zone_of_an_address_is_none_of_it() -> None:
    admission, rules = Admission(Config({"max.connections.per.ip": 1})), QuotaRules()
    for host in ("fe80::1%eth0", "fe80::2", "fe80::1%eth1"):
        reason = admission.refuse(host, rules, 0.0)
        assert reason == ("max.connections.per.ip" if host.endswith("eth1") else None)
    admission.leave("/fe80::1")
    assert admission.refuse("fe80::1%eth1", rules, 0.0) is None


SPELLINGS = (
    ("127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "localhost"),
    ("::1", "0:0:0:0:0:0:0:1", "0000::0001", "::1%lo"),
    ("2001:DB8::ff", "2001:db8:0:0:0:0:0:ff", "2001:db8::00ff"),
)


@pytest.mark.parametrize(("named", "host"), [pair for same in SPELLINGS for pair in product(same, same)])
def test_an_address_is_one_however_it_is_written(named: str, host: str) -> None:
    """By a listener of IPv4 and IPv6 a client of IPv4 has an address of both; a setting or a quota may have any form."""
    rules = QuotaRules()
    rules.put(((IP, named),), CONNECTIONS, 1)
    assert rules.find_address(CONNECTIONS, address_of(host)) == 1
    rules.put(((IP, host),), CONNECTIONS, 2)
    assert rules.find_address(CONNECTIONS, address_of(named)) == 2, "the one that was set last"
    rules.put(((IP, host),), CONNECTIONS, None)
    assert rules.find_address(CONNECTIONS, address_of(named)) == (None if host == named else 1)
    if "localhost" not in (named, host) and "%" not in named:
        admission = Admission(
            Config({"max.connections.per.ip": 0, "max.connections.per.ip.overrides": (f"[{named}]:1",)})
        )
        assert [admission.refuse(host, QuotaRules(), 0.0) for _ in range(2)] == [None, "max.connections.per.ip"]
        admission.leave("/" + host)
        assert admission.refuse(named, QuotaRules(), 0.0) is None


async def test_an_override_is_for_its_address() -> None:
    async with listening(max_connections_per_ip=0, max_connections_per_ip_overrides=("127.0.0.1:1",)) as here:
        first, second = await here.connect(), await here.connect()
        assert await second.is_closed()
        await first.ask()


async def test_connections_that_come_too_fast_are_closed_or_wait() -> None:
    async with listening() as here:
        limit(here.server, "connection_creation_rate", 0.2 * 5, ("ip", None))
        clients = [await here.connect() for _ in range(30)]
        await until(lambda: here.server.stats.connections_closed["connection_creation_rate"] >= 10)
        assert here.poller.connections < 20
    async with listening(max_connection_creation_rate=1) as here:
        clients += [await here.connect() for _ in range(30)]
        await until(lambda: here.poller.connections >= 10)
        await trio.sleep(0.01)
        assert here.poller.connections < 20, "the others wait in the kernel's queue"
        here.server.seconds += 60
        await until(lambda: here.poller.connections >= 20)
