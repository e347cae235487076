"""Requests to the broker that coordinates a group, while that is another one by now, or not known yet; and which brokers
are asked for a cluster, and for the offsets of partitions."""

from collections.abc import Collection, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client import cluster as module
from coordinator.client.cluster import BrokerError, Cluster
from coordinator.client.connection import AuthenticationError, Client, ClientError
from coordinator.client.offsets import TopicPartition, list_offsets
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

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


class Address:
    """A broker that is connected to by its address."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.is_closed = False

    def versions(self, message: Any) -> range:
        if self.failure is not None:
            raise self.failure
        return range(1)

    def close(self) -> None:
        self.is_closed = True


SILENT, REFUSED = ClientError("no reply"), AuthenticationError("wrong password")


@given(st.lists(st.sampled_from([None, SILENT, REFUSED]), min_size=1, max_size=4), st.booleans())
def test_the_first_broker_that_responds_is_taken_and_a_wrong_password_is_tried_once(
    failures: list[Exception | None], fails_to_connect: bool
) -> None:
    """A user may be locked out by further tries. Whether a broker fails while it is connected to or at once afterwards is
    the same."""
    tried: list[Address] = []

    def connect(address: str, **_: Any) -> Address:
        tried.append(Address(failures[int(address)]))
        if fails_to_connect and (failure := tried[-1].failure) is not None:
            raise failure
        return tried[-1]

    counts = [at for at, failure in enumerate(failures) if failure is not SILENT]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Client, "to", connect)
        if counts and failures[counts[0]] is None:
            assert Cluster([*map(str, range(len(failures)))]).any is tried[-1]
        else:
            with pytest.raises(AuthenticationError if counts else ClientError):
                Cluster([*map(str, range(len(failures)))])
    assert len(tried) == (counts[0] + 1 if counts else len(failures))
    assert fails_to_connect or all(one.is_closed for one in tried if one.failure is SILENT)


LEADERS, CODES = st.sampled_from([-1, 1, 2]), st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])


class Brokers:
    """A cluster whose partitions have these leaders, each of which answers with a code of its own."""

    def __init__(self, leaders: dict[TopicPartition, int], codes: dict[TopicPartition, ErrorCode]) -> None:
        self.leaders, self.codes = leaders, codes

    def metadata(self, topics: list[str]) -> MetadataResponse:
        partitions = {name: [at for at in self.leaders if at[0] == name] for name in topics}
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(
                    name=name, partitions=tuple(MetadataResponsePartition(0, at[1], self.leaders[at]) for at in those)
                )
                for name, those in partitions.items()
            )
        )

    def brokers(self, only: Collection[int]) -> dict[int, "Brokers"]:
        assert set(only) <= {1, 2}
        return dict.fromkeys(only, self)

    def ask(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsResponseTopic(
                    topic.name,
                    tuple(
                        ListOffsetsResponsePartition(at, self.codes[topic.name, at], offset=at + 100)
                        for at in (one.partition_index for one in topic.partitions)
                    ),
                )
                for topic in request.topics
            )
        )


@given(
    st.dictionaries(st.tuples(st.sampled_from("tu"), st.integers(0, 2)), st.tuples(LEADERS, CODES)),
    st.sets(st.tuples(st.sampled_from("tu"), st.integers(0, 2))),
    st.booleans(),
)
def test_offsets_are_those_of_the_partitions_that_can_be_read(
    there: dict[TopicPartition, tuple[int, ErrorCode]], wanted: set[TopicPartition], is_strict: bool
) -> None:
    """One without a leader, or that cannot be read, is left out, or refused where all are needed."""
    cluster: Any = Brokers({at: one[0] for at, one in there.items()}, {at: one[1] for at, one in there.items()})
    known = {at: there[at] for at in wanted if at in there}
    if is_strict and any(leader < 0 or code for leader, code in known.values()):
        with pytest.raises(BrokerError, match=r"^cannot read [tu]:\d"):
            list_offsets(cluster, wanted, -1, is_strict=True)
        return
    found = list_offsets(cluster, wanted, -1, is_strict=is_strict)
    assert found == {at: at[1] + 100 for at, (leader, code) in known.items() if leader >= 0 and not code}


class Login:
    """Credentials that count for a while."""

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self.at_s: list[float] = []

    def secure(self, sock: Any, host: str) -> Any:
        return sock

    def authenticate(self, client: Client) -> float:
        self.at_s.append(module.time.monotonic())
        return self.lifetime_s


@given(st.floats(1, 1_000), st.lists(st.floats(0.01, 300), min_size=1, max_size=30))
def test_a_client_authenticates_again_before_the_broker_would_close_its_connection(
    lifetime_s: float, pauses_s: list[float]
) -> None:
    """As Kafka's: within the last part of the time, or else at the next request; and not at each request."""
    now_s, login = 0.0, Login(lifetime_s)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module.time, "monotonic", lambda: now_s)
        patched.setattr(Client, "_newest", lambda client, api, up_to: 0)
        patched.setattr(Client, "_send", lambda client, api, version, message: None)
        patched.setattr(Client, "_receive", lambda client: b"\0" * 6)
        client = Client(cast("Any", None), security=login)
        for pause_s in pauses_s:
            before = len(login.at_s)
            client.ask(BEAT, 0)
            age_s = now_s - login.at_s[before - 1] if before else None
            is_due = age_s is None or age_s >= 0.85 * lifetime_s * (1 + 1e-9)
            assert (len(login.at_s) > before) == is_due or age_s == pytest.approx(0.85 * lifetime_s)
            now_s += pause_s
