"""The methods of `Muster`, each against a real server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_muster import ExpectationError, Group, Muster, MusterError, Server

from coordinator.client import Client
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.records import Record
from tests.cli.command import classic_member
from tests.live import Muster as LiveServer
from tests.live import server_fixture
from tests.requests import produce
from tests.share_consumer import ShareConsumer

server = server_fixture("--ephemeral", "--set", "journal.max.bytes=1000000")


@pytest.fixture
def muster(server: LiveServer) -> Muster:
    found = Muster(server.kafka, server.ready["admin"])
    found.reset()
    return found


@pytest.fixture
def client(server: LiveServer, muster: Muster) -> Iterator[Client]:
    with Client.to(server.kafka) as client:
        yield client


def beat(client: Client, member_id: str) -> ErrorCode:
    return ErrorCode(client.ask(HeartbeatRequest("billing", 1, member_id)).error_code)


def test_a_session_expires_by_the_clock(muster: Muster, client: Client) -> None:
    muster.clock.freeze()
    topic = muster.topic("orders", 2)
    member_id = classic_member(client, "billing", {topic: (0, 1)})
    group = muster.group("billing")
    assert group.wait(state="Stable", members=1)["members"][0]["assignment"] == {topic: [0, 1]}
    assert [one["kind"] for one in muster.clock.deadlines() if one["group"] == group.id] == ["session"]
    before = muster.clock.now_ms()
    assert muster.clock.advance(400_000, keep_alive="all")["now_ms"] == before + 400_000
    assert beat(client, member_id) == ErrorCode.NONE
    assert muster.clock.step(keep_alive=["nobody"])["fired"], "the next deadline is one of the offsets' retention"
    assert "billing" in {one["group"] for one in muster.clock.advance(400_000)["fired"]}
    assert beat(client, member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    muster.clock.run(2.0)
    assert "session_expired" in [one["cause"]["kind"] for one in group.timeline()]
    assert "session expired" in group.timeline_text()


def test_a_clock_that_goes_faster_wakes_the_server_that_nobody_asks_for_anything(
    muster: Muster, client: Client
) -> None:
    muster.clock.freeze()
    classic_member(client, "billing", {muster.topic("orders", 1): (0,)})
    muster.clock.run(10_000)
    muster.group("billing").wait(members=0)


def test_the_logs_are_tended_in_a_move_right_after_a_reset(muster: Muster) -> None:
    """The janitor looks once a second whether it has another node; a move does not wait for that."""
    for _ in range(2):
        muster.reset()
        fired = {one["kind"] for one in muster.clock.advance(3_600_000)["fired"]}
        assert fired >= {"retention", "transactional_ids", "share_states"}


@pytest.mark.parametrize("verb", ["expire", "kick", "fence"])
def test_a_member_is_removed(muster: Muster, client: Client, verb: str) -> None:
    member_id = classic_member(client, "billing", {muster.topic("orders"): (0,)})
    getattr(muster.group("billing"), verb)(member_id)
    assert beat(client, member_id) != ErrorCode.NONE


def test_a_group_rebalances_and_is_forgotten(muster: Muster, client: Client) -> None:
    member_id = classic_member(client, "billing", {muster.topic("orders"): (0,)})
    group = muster.group("billing")
    assert group.rebalance("for the test")["state"] == "PreparingRebalance"
    assert beat(client, member_id) == ErrorCode.REBALANCE_IN_PROGRESS
    group.forget()
    group.wait(exists=False)
    with pytest.raises(MusterError, match="there is no group 'billing'") as caught:
        group.describe()
    assert caught.value.status == 404


def test_a_target_is_for_members_that_exist(muster: Muster, client: Client) -> None:
    classic_member(client, "billing", {muster.topic("orders"): (0,)})
    with pytest.raises(MusterError):
        muster.group("billing").set_target({"a": {"orders": [0]}})


def test_a_fault_meets_a_request(muster: Muster, client: Client) -> None:
    member_id = classic_member(client, "billing", {muster.topic("orders"): (0,)})
    fault = muster.fault({"error": "NOT_COORDINATOR"}, {"api": "Heartbeat", "group": "billing"})
    assert [beat(client, member_id) for _ in range(2)] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    fault.wait(1)
    assert fault.hits == 1
    fault.remove()
    muster.verify({"api": "Heartbeat", "group": "billing", "times": 2})
    assert [one["api"] for one in muster.requests(group="billing", api="Heartbeat")] == ["Heartbeat"] * 2
    assert muster.lint() == []
    with pytest.raises(ExpectationError, match="Heartbeat"):
        muster.verify({"api": "Heartbeat", "group": "billing", "times": 3})


@pytest.mark.parametrize("rate", [0, 2.0])
def test_a_worker_that_has_set_the_clock_of_a_shared_server_lets_it_run_again(
    server: LiveServer, muster: Muster, rate: float
) -> None:
    """But it leaves one alone that another worker has set."""
    mine, others = (Muster(server.kafka, server.ready["admin"], prefix) for prefix in ("gw0-", "gw1-"))
    if rate:
        mine.clock.run(rate)
    else:
        mine.clock.freeze()
    for worker, mode in ((others, "rate" if rate else "frozen"), (mine, "real")):
        worker.reset()
        assert muster.admin.call("GET", "/v1/clock")["mode"] == mode


def test_all_requests_of_the_journal_are_given(muster: Muster, client: Client) -> None:
    """The server gives 1,000 at a time, the oldest first: a test looks at the latest ones."""
    for _ in range(1_500):
        client.ask(HeartbeatRequest("billing", 1, "unknown"))
    client.ask(HeartbeatRequest("billing", 1, "the latest"))
    found = muster.requests(api="Heartbeat", group="billing")
    assert len(found) == 1_501 and found[-1]["request"]["member_id"] == "the latest"
    assert muster.requests(api="Heartbeat", after=found[-3]["number"]) == found[-2:]
    assert muster.requests(api="Heartbeat", after=found[-1]["number"]) == []


@pytest.mark.parametrize("prefix", ["", "gw0-"])
@pytest.mark.parametrize("is_kept", [False, True])
def test_what_came_before_a_reset_is_not_verified(
    server: LiveServer, muster: Muster, prefix: str, is_kept: bool
) -> None:
    """Nor shown, also if it is of any group, and something of a wider scope stays."""
    outer = Muster(server.kafka, server.ready["admin"], prefix, "session0-")
    outer.reset()
    if is_kept:
        outer.topic("catalogue")
    for number in range(2):
        muster = outer.narrow(f"test{number}-")
        muster.reset()
        muster.verify({"times": 0}, *({"event": event, "times": 0} for event in ("session_expired", "group_created")))
        group = muster.group("billing")
        with Client.to(server.kafka) as client:
            member_id = classic_member(client, group.id, {muster.topic("orders"): (0,)})
            client.ask(HeartbeatRequest(group.id, 1, member_id))
        group.expire(member_id)
        muster.verify({"event": "session_expired", "group": group.id, "times": 1})
        muster.verify({"api": "Heartbeat", "group": group.id, "times": 1})
        muster.verify({"api": "Heartbeat", "times": 1}, {"event": "session_expired", "times": 1})
        assert len(muster.requests(api="Heartbeat")) == 1
    muster.admin.call("PUT", "/v1/journal", {"bytes_max": 1 << 24})
    with Client.to(server.kafka) as client:
        client.ask(HeartbeatRequest("billing", 1, "unknown"))
    muster.verify({"api": "Heartbeat", "times": 1})
    outer.reset()


def test_a_request_is_held_and_released(muster: Muster, client: Client) -> None:
    member_id = classic_member(client, "billing", {muster.topic("orders"): (0,)})
    group = muster.group("billing")
    assert group.hold("heartbeat")["faults"]
    group.release()
    assert beat(client, member_id) == ErrorCode.NONE


def test_a_snapshot_is_restored(muster: Muster) -> None:
    muster.topic("orders", 2)
    muster.commit("billing", "orders", {0: 5})
    muster.take_snapshot("lagging")
    muster.reset()
    assert muster.state() == {"topics": {}, "offsets": {}}
    muster.restore_snapshot("lagging")
    assert muster.group("billing").wait(offsets={"orders": {0: 5}})["offsets"] == {"orders": {"0": 5}}
    muster.remove_snapshot("lagging")
    with pytest.raises(MusterError, match="lagging"):
        muster.restore_snapshot("lagging")


def test_with_a_prefix_others_are_left_alone(server: LiveServer, muster: Muster) -> None:
    ours = Muster(server.kafka, server.ready["admin"], "gw1-")
    ours.commit("billing", muster.topic("gw1-orders").removeprefix("gw1-"), {0: 1})
    muster.topic("orders")
    muster.commit("billing", "orders", {0: 1})
    ours.fault({"error": "NOT_COORDINATOR"}, {"api": "Heartbeat"})
    ours.reset()
    assert (ours.groups(), ours.state()["topics"]) == ([], {})
    assert list(muster.state()["topics"]) == ["orders"]
    assert muster.admin.call("GET", "/v1/faults")["faults"] == []
    assert (set(ours.timelines()), set(muster.timelines())) == (set(), {"gw1-billing"}), "each since its own reset"


def test_a_name_that_has_the_prefix_stays_as_it_is(server: LiveServer) -> None:
    ours = Muster(server.kafka, server.ready["admin"], "gw1-")
    topic, group = ours.topic("orders"), ours.group("billing")
    ours.commit(group, topic, {0: 1})
    assert ours.group(group.id).offsets() == {"gw1-orders": {0: 1}}
    ours.reset()


def test_coordinators_move_and_brokers_restart(tmp_path: Path) -> None:
    options = ["--brokers", "3", "--listen", "127.0.0.1:0"]
    server = Server(tmp_path, options, f"{sys.executable} -m coordinator")
    server.start()
    try:
        muster = Muster(server.bootstrap, server.admin)
        with Client.to(server.bootstrap.partition(",")[0]) as client:
            brokers = client.ask(MetadataRequest(topics=())).brokers
        told = ",".join(f"{one.host}:{one.port}" for one in sorted(brokers, key=lambda one: one.node_id))
        assert server.bootstrap == told, "clients get the addresses of all brokers, of the first listener"
        muster.topic("orders")
        muster.commit("billing", "orders", {0: 4})
        group = muster.group("billing")
        to = (group.coordinator()["broker"] + 1) % 3
        moved = group.move(to, load_ms=100)
        assert (moved["broker"], moved["is_loading"]) == (to, True)
        assert group.wait(coordinator=to)["offsets"] == {"orders": {"0": 4}}
        muster.stop_broker(to)
        assert [one["is_running"] for one in muster.brokers()] == [number != to for number in range(3)]
        assert group.coordinator()["broker"] != to
        muster.start_broker(to)
        muster.restart_brokers(down_ms=10)
        assert all(one["is_running"] and not one["loading"] for one in muster.brokers())
        assert group.offsets() == {"orders": {0: 4}}
        with pytest.raises(MusterError, match="there is no broker 7"):
            group.move(7)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("address", "url", "bootstrap"),
    [
        ("127.0.0.1:8092", "http://127.0.0.1:8092", "127.0.0.1:9092"),
        ("http://kafka.test:8092/", "http://kafka.test:8092", "kafka.test:9092"),
        ("[::1]:8092", "http://[::1]:8092", "[::1]:9092"),
        ("127.0.0.1", "http://127.0.0.1:8092", "127.0.0.1:9092"),
        ("http://[::1]", "http://[::1]:8092", "[::1]:9092"),
    ],
)
def test_an_address_may_be_written_as_for_the_commands(address: str, url: str, bootstrap: str) -> None:
    muster = Muster("", address)
    assert (muster.admin.url, muster.bootstrap) == (url, bootstrap)


def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "secret\nsecond line")
    with pytest.raises(MusterError, match=r"invalid MUSTER_TOKEN: expected printable ASCII characters"):
        Muster("", "127.0.0.1:1").groups()


def queue(muster: Muster, client: Client, records: int = 3) -> tuple[Group, str, ShareConsumer]:
    """Return a share group with one member that has acquired so many records."""
    topic, group = muster.topic("letters"), muster.group("mail")
    consumer = ShareConsumer.join(client, group.id, topic)
    consumer.fetch()  # which decides where the group begins: at the end
    client.ask(produce(topic, {0: record_batch.encode([Record(None, b"letter")] * records)}), 12)
    assert consumer.fetch(5_000) == [(0, records - 1, 1)]
    return group, topic, consumer


def test_records_of_a_queue_are_driven(muster: Muster, client: Client) -> None:
    group, topic, consumer = queue(muster, client)
    (view,) = group.in_flight(topic)
    assert [(run["first"], run["last"], run["state"]) for run in view["records"]] == [(0, 2, "acquired")]
    group.records(topic, 0).expire()
    group.records(topic, 1).accept()
    group.records(topic, 2).set_deliveries(5)
    group.records(topic, 2).release()
    for offset, state in enumerate(("available", "acknowledged", "archived")):
        group.records(topic, offset).wait(state, timeout_ms=0)
    with pytest.raises(ExpectationError, match=r"record 0 of \S+-0 is available, expected acquired"):
        group.records(topic, 0).wait("acquired", timeout_ms=0)
    assert consumer.fetch() == [(0, 0, 2)]
    group.records(topic, 0).reject()
    group.records(topic, 0, 2).wait("done", timeout_ms=0)
    group.records(topic, 3).wait("new", timeout_ms=0)
    causes = [one["cause"]["kind"] for one in group.timeline() if topic in one["cause"]["detail"]]
    assert causes == ["lock_expired", "records_archived", "records_archived"]
    assert f"records archived: {topic}-0 2, delivered 5 times, of " in group.timeline_text()


def test_deliveries_of_a_record_are_counted(muster: Muster, client: Client) -> None:
    group, topic, consumer = queue(muster, client)
    muster.clock.advance(30_000, keep_alive="all")
    assert consumer.fetch() == [(0, 2, 2)]
    poison = group.records(topic, 1)
    assert [(one["client"], one["count"]) for one in poison.deliveries()] == [("muster", 1), ("muster", 2)]
    poison.reject()
    muster.verify(
        {"event": "lock_expired", "group": group.id, "times": 1},
        {"event": "records_archived", "group": group.id, "times": 1},
    )
    assert group.records(topic, 3).deliveries() == []


def test_a_group_is_kept_from_its_records(muster: Muster, client: Client) -> None:
    topic, group = muster.topic("letters"), muster.group("mail")
    consumer = ShareConsumer.join(client, group.id, topic)
    fault = muster.fault({"error": "COORDINATOR_NOT_AVAILABLE"}, {"api": "ShareFetch", "group": group.id})
    with pytest.raises(AssertionError):
        consumer.fetch()
    fault.wait()
    assert group.in_flight() == []


def test_a_queue_begins_half_processed(muster: Muster, client: Client) -> None:
    topic, group = muster.topic("letters"), muster.group("mail")
    client.ask(produce(topic, {0: record_batch.encode([Record(None, b"letter")] * 5)}), 12)
    muster.set_queue(group, topic, 1, [{"first": 2, "last": 2, "state": "archived", "deliveries": 5}])
    assert muster.state()["queues"][group.id][topic]["0"]["start"] == 1
    assert ShareConsumer.join(client, group.id, topic).fetch() == [(1, 1, 1), (3, 4, 1)]
