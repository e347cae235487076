"""Requests to the broker that coordinates a group, while that is another one by now, or not known yet; and which brokers
are asked for a cluster, and for the offsets of partitions."""

from collections.abc import Collection
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client import cluster as module
from coordinator.client.cluster import GROUP, TRANSACTION, BrokerError, Cluster
from coordinator.client.connection import AuthenticationError, Client, ClientError
from coordinator.client.offsets import TopicPartition, list_offsets
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
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


class Coordinators:
    """Brokers that coordinate now this and now that key, on a clock of their own; what they are asked is noted."""

    def __init__(self, script: list[tuple[ErrorCode, int, int]]) -> None:
        self.script = script[::-1]  # a code, a broker that a lookup names, and how many seconds it takes
        self.now_s = 0.0
        self.asked: list[tuple[str, Any, int | None, ErrorCode, str, float]] = []  # where, what, the answer, when
        self.connected: list[str] = []

    def connect(self, address: str, **_: Any) -> "Connection":
        self.connected.append(address)
        return Connection(self, address)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def answer(self, address: str, message: Any, up_to: int | None) -> Any:
        code, number, seconds = self.script.pop() if self.script else (ErrorCode.NONE, 0, 0)
        self.now_s += seconds
        self.asked.append((address, message, up_to, code, ADDRESSES[number], self.now_s))
        if isinstance(message, HeartbeatRequest):
            return HeartbeatResponse(error_code=code)
        host, port = HOSTS[number]
        if number % 2:  # up to version 3
            return FindCoordinatorResponse(error_code=code, host=host, port=port)
        return FindCoordinatorResponse(coordinators=(FindCoordinatorResponseCoordinator("", 0, host, port, code),))


class Connection:
    """A connection to one of these brokers."""

    def __init__(self, brokers: Coordinators, address: str) -> None:
        self.brokers = brokers
        self.address = address

    def versions(self, message: Any) -> range:
        return range(1)

    def ask(self, message: Any, up_to: int | None = None) -> Any:
        return self.brokers.answer(self.address, message, up_to)


HOSTS = (("a", 1), ("::1", 2), ("a", 3))
ADDRESSES = ("a:1", "[::1]:2", "a:3")
FENCED = ErrorCode.CONCURRENT_TRANSACTIONS  # a code that some requests wait for
SCRIPTED = st.tuples(
    st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, MOVED, LOADING, FENCED, ErrorCode.UNKNOWN_MEMBER_ID]),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 1, 4]),
)
CALLS = st.tuples(
    st.sampled_from("gh"), st.sampled_from([GROUP, TRANSACTION]), st.sampled_from([None, 3]), st.booleans()
)


@given(st.lists(CALLS, min_size=1, max_size=6), st.lists(SCRIPTED, max_size=25))
def test_a_request_goes_to_the_coordinator_of_its_key_until_one_is_ready_or_the_time_is_over(
    calls: list[tuple[str, int, int | None, bool]], script: list[tuple[ErrorCode, int, int]]
) -> None:
    """A known coordinator is asked at once, by the type of its key. It is looked up again when it is not ready."""
    brokers, known = Coordinators(script), dict[tuple[str, int], str]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Client, "to", brokers.connect)
        patched.setattr(module.time, "monotonic", lambda: brokers.now_s)
        patched.setattr(module.time, "sleep", brokers.sleep)
        cluster = Cluster(["boot:9"], timeout=5.0)
        for name, key_type, up_to, is_patient in calls:
            key, end_s, begin = (name, key_type), brokers.now_s + 5.0, len(brokers.asked)
            waits = module.NOT_READY | ({FENCED} if is_patient else set())
            answer, error = None, None
            try:
                answer = cluster.ask_coordinator(
                    name, BEAT, lambda one: [one.error_code], up_to=up_to, key_type=key_type, not_ready=waits
                )
            except BrokerError as refused:
                error = refused
            asked = brokers.asked[begin:]
            for at, (address, message, version, code, found, at_s) in enumerate(asked):
                is_over = at_s > end_s
                if key in known:
                    assert (address, message, version) == (known[key], BEAT, up_to)
                    is_final = code not in waits or is_over
                    if is_final:
                        assert answer == HeartbeatResponse(error_code=code)
                    else:
                        del known[key]
                else:
                    assert address == "boot:9"
                    assert message == FindCoordinatorRequest(name, key_type, (name,))
                    is_final = code != ErrorCode.NONE and (code not in module.NOT_READY or is_over)
                    if is_final:
                        assert error is not None
                        assert (error.code, str(error).partition(":")[0]) == (
                            code,
                            f"cannot find the coordinator of {name}",
                        )
                    elif not code:
                        known[key] = found
                assert is_final == (at == len(asked) - 1)
    assert len(set(brokers.connected)) == len(brokers.connected), "a connection to each"


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
            cluster = Cluster([*map(str, range(len(failures)))])
            assert cluster.any is tried[-1]
            before, failures = list(tried), [None] * len(failures)
            for at, broker in enumerate(before):  # one that was closed is connected to anew, once it is needed
                assert (cluster._connect_to(str(at)) is broker) == (broker is cluster.any)
            del tried[len(before) :]
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
