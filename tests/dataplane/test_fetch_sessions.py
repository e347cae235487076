"""Fetch sessions as a model has them: what a client has not been told is news, and nothing else is."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core.decision import Done
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
)
from tests.dataplane.broker import NODES, Broker, ReaderRights, batch, call
from tests.requests import delete_records

COUNTS = {"t": 2, "u": 1}
PLACES = (("t", 0), ("u", 0), ("t", 1), ("t", 9), ("gone", 0))
VERSIONS = (12, 17)  # by the names of topics, by their ids
FETCH_API, FULL = 1, -1
BITS = st.sampled_from([0] * 60 + [*range(8)] * 3 + [*range(32)])
FETCH = st.tuples(
    st.just("fetch"), st.integers(0, 1), BITS, st.sampled_from([0, 0, 0, 1, 2, 4, 5]),
    st.sampled_from([0, 0, 0, 1, 90]), st.sampled_from([100, 10_000, 10_000]), st.booleans(), st.booleans(),
    st.sampled_from(["", "", "", "", "t", "u"]), st.sampled_from([None, None, 0, 1, 2]),
    st.sampled_from([(-1, -1), (-1, -1), (-1, -1), (0, 0), (0, -1), (9, -1), (-1, 9)]),
    st.sampled_from([10_000, 10_000, 10_000, 1, 160, 240]),
)  # fmt: skip
ACTS = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, 2), st.integers(1, 2)),
    st.tuples(st.just("delete_records"), st.integers(0, 2)),
    st.tuples(st.just("make_anew"), st.sampled_from(["t", "u"])),
    st.tuples(st.just("open"), st.integers(0, 1), st.sampled_from([0b111] * 20 + [*range(1, 32)])),
)
Asked = tuple[
    int, int, int, int
]  # an offset, the epoch of the leader, the one that was fetched last, and bytes at most
FROM_0: Asked = (0, -1, -1, 10_000)
Key = tuple[str, bytes, int]  # the name, the id and the partition, as the client has named them


class Consumer:
    """A client's session, and what it has been told in it."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.session = 0
        self.epoch = 0
        self.asked: dict[Key, Asked] = {}  # in the order in which the server reads them
        self.known: dict[Key, tuple[int, int]] = {}

    def find(self, key: Key) -> Key | None:
        """The partition of the session that these names mean: by the topic's id, or by its name."""
        by = self.version > 12
        return next((one for one in self.asked if (one[by], one[2]) == (key[by], key[2])), None)

    def read(self, answer: Any) -> dict[Key | None, Any]:
        """The results of a response by partition."""
        return {
            self.find((topic.topic, topic.topic_id, one.partition_index)): one
            for topic in answer.responses
            for one in topic.partitions
        }


def topics_of(asked: dict[Key, Asked]) -> tuple[FetchRequestTopic, ...]:
    """A topic for each partition: the order is that of the partitions."""
    return tuple(
        FetchRequestTopic(
            name, topic_id, (FetchRequestPartition(index, leader, offset, fetched, partition_max_bytes=most),)
        )
        for (name, topic_id, index), (offset, leader, fetched, most) in asked.items()
    )


class Play:
    """A broker and its clients."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.ids = {"gone": b"no such topic id"}
        self.consumers = [Consumer(version) for version in VERSIONS]
        for topic in COUNTS:
            self.create(topic)

    def create(self, topic: str) -> None:
        self.broker.create(topic, COUNTS[topic])
        self.ids[topic] = self.broker.ledger.catalog.topics_by_name[topic].id

    def make_anew(self, topic: str) -> None:
        self.broker.delete(topic)
        self.create(topic)

    def produce(self, place: int, number: int) -> None:
        for _ in range(number):
            assert self.broker.produce(*PLACES[place], batch("x" * 10)).error_code == 0

    def delete_records(self, place: int) -> None:
        topic, index = PLACES[place]
        self.broker.ask(delete_records(topic, {index: -1}))

    def ask(self, who: Consumer, request: FetchRequest, denied: str = "", meanwhile: int | None = None) -> Any:
        """The response, at once or when the wait is over, in which somebody may produce."""
        rights: Any = ReaderRights(denied) if denied else None
        made = replace(call(request, 7, who.version), rights=rights)
        decision = self.broker.node.engine.handle(FETCH_API, request, made, NODES)
        self.broker.node.engine.flush()
        if isinstance(decision, Done):
            return decision.response
        if meanwhile is not None:
            self.produce(meanwhile, 1)
        if not (replies := self.broker.replies()):
            self.broker.real_ms += 650
            replies = self.broker.replies()
        ((_, answer),) = replies
        return answer

    def key(self, place: int) -> Key:
        topic, index = PLACES[place]
        return topic, self.ids[topic], index

    def open(self, number: int, bits: int) -> None:
        """A full request, which begins a session, in the place of the one of before."""
        who = self.consumers[number]
        before, who.session, who.epoch, who.known = who.session, 0, 0, {}
        who.asked = {self.key(place): FROM_0 for place in range(len(PLACES)) if bits >> place & 1}
        request = FetchRequest(session_id=before, session_epoch=0, max_bytes=10_000, topics=topics_of(who.asked))
        self.compare(who, self.ask(who, request), 10_000, "", is_full=True)

    def fetch(self, number: int, named: int, forgotten: int, offset: int, max_bytes: int, waits: bool, goes_on: bool,
              denied: str, meanwhile: int | None, epochs: tuple[int, int], most: int) -> None:  # fmt: skip
        """The next request of a session. A client that goes on has read what it was given."""
        who = self.consumers[number]
        if not who.session:
            self.open(number, 0b111)
        changes = {self.key(place): (offset, *epochs, most) for place in range(len(PLACES)) if named >> place & 1}
        if goes_on:
            ends = {
                key: (end, -1, -1, most)
                for key, (end, _) in who.known.items()
                if key in who.asked and end > who.asked[key][0]
            }
            changes = {key: end for key, end in ends.items() if key not in changes} | changes
        left = [self.key(place) for place in range(len(PLACES)) if forgotten >> place & 1]
        for key, changed in changes.items():
            who.asked[who.find(key) or key] = changed
        for key in left:
            if (known := who.find(key)) is not None:
                del who.asked[known]
                who.known.pop(known, None)
        gone = tuple([FetchRequestForgottenTopic(name, topic_id, (index,)) for name, topic_id, index in left])
        request = FetchRequest(
            session_id=who.session, session_epoch=who.epoch, max_wait_ms=500 if waits else 0, min_bytes=1,
            max_bytes=max_bytes, topics=topics_of(changes), forgotten_topics_data=gone,
        )  # fmt: skip
        answer = self.ask(who, request, denied, meanwhile)
        if not who.asked:
            assert (answer.error_code, answer.session_id) == (0, 0)
            told = [
                (one.topic, one.topic_id, part.partition_index) for one in answer.responses for part in one.partitions
            ]
            assert len(told) == len(changes)  # the request stands for itself
            who.session = who.epoch = 0
            return
        self.compare(who, answer, max_bytes, denied, is_full=False)

    def compare(self, who: Consumer, answer: Any, max_bytes: int, denied: str, *, is_full: bool) -> None:
        """The session tells of what is in a full response and new, and of nothing else."""
        request = FetchRequest(session_epoch=FULL, max_bytes=max_bytes, topics=topics_of(who.asked))
        whole, found = who.read(self.ask(who, request, denied)), who.read(answer)
        assert (answer.error_code, bool(answer.session_id)) == (0, True)
        assert whole.keys() == who.asked.keys()
        news = {
            key: one
            for key, one in whole.items()
            if is_full
            or one.records
            or one.error_code
            or one.diverging_epoch.epoch >= 0
            or who.known.get(key) != (one.high_watermark, one.log_start_offset)
        }
        assert found == news
        who.session, who.epoch = answer.session_id, who.epoch + 1
        for key, one in news.items():
            who.known[key] = (-1 if one.error_code else one.high_watermark, one.log_start_offset)
            if one.records and not is_full:  # it is read last next time
                who.asked[key] = who.asked.pop(key)


@given(st.lists(st.tuples(ACTS, FETCH, FETCH), min_size=5, max_size=12))
@settings(max_examples=80)
def test_a_session_tells_of_what_is_new_and_of_nothing_else(rounds: list[tuple[Any, ...]]) -> None:
    play = Play()
    for one in rounds:
        for name, *arguments in one:
            getattr(play, name)(*arguments)
        assert not play.broker.node.world.edge.failures


def test_a_session_that_is_over_is_not_found(broker: Broker) -> None:
    """It is closed by a full request, by one that forgets all, and by the next one of its client."""
    topics = topics_of({("t", bytes(16), index): FROM_0 for index in range(2)})
    ends: tuple[dict[str, Any], ...] = (
        {"session_epoch": -1, "topics": topics},
        {"session_epoch": 0, "topics": topics},
        {"session_epoch": 1, "forgotten_topics_data": (FetchRequestForgottenTopic("t", partitions=(0, 1)),)},
    )
    for end in ends:
        session = broker.ask(FetchRequest(session_epoch=0, topics=topics)).session_id
        other = broker.ask(FetchRequest(session_epoch=0, topics=topics)).session_id
        assert session != other
        assert broker.ask(FetchRequest(session_id=session, **end)).error_code == ErrorCode.NONE
        again = broker.ask(FetchRequest(session_id=session, session_epoch=2))
        assert (again.error_code, again.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
        assert broker.ask(FetchRequest(session_id=other, session_epoch=1)).session_id == other
