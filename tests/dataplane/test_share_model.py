"""Share groups as a model has them: several groups, topics, partitions, members and connections, whatever happens."""

from collections.abc import Mapping
from itertools import chain, count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core.share_partitions.operate import FREES, ChangeRecords, RecordAction
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.share.acknowledging import MESSAGES
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestForgottenTopic
from tests import requests
from tests.dataplane.broker import NODES, NOW, Broker, ReaderRights, batch, call, read_values, response_of
from tests.dataplane.share_model import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    DELIVERIES_MAX,
    LOCK_MS,
    RENEW,
    Item,
    Member,
    ShareModel,
    Verdicts,
    Waits,
)
from tests.dataplane.sharing import begin_sharing

COUNTS = {"t": 3, "u": 1}
PLACES = (("t", 0), ("t", 2), ("u", 0), ("t", 1), ("t", 7), ("gone", 0))
STRANGE = PLACES[3]  # its state was never begun; the two behind it are not there
GROUPS = ("g", "ĝ")
MEMBERS: tuple[tuple[Member, int], ...] = (
    (("g", "a", 0), 1), (("g", "b", 0), 2), (("ĝ", "a", 0), 1), (("ĝ", "c", 0), 1), (("g", "a", 1), 3),
)  # fmt: skip
"""With their connections. One of them has a session with each of two brokers."""
SETTINGS = {"group_share_delivery_count_limit": DELIVERIES_MAX, "share_coordinator_state_topic_num_partitions": 2}
WAIT_MS = 500
UNCERTAIN = {"expired", "released"}  # what was to be given back twice while it could not be written is either

VERDICTS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 2, 3, 4, 5]),
        st.integers(0, 5),
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
    ),
    max_size=3,
)
RENEWALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 5), st.lists(st.integers(1, 4), min_size=1, max_size=3)), max_size=2
)
MEMBER = st.integers(0, len(MEMBERS) - 1)
FETCH = st.tuples(
    st.just("fetch"), MEMBER, st.sampled_from([0, 0, 0, *range(64)]), st.sampled_from([0] * 9 + [1, 2, 4, 7, 8]), st.sampled_from([0, 1, 1, 2, 3, 20, 20, 20]),
    st.booleans(), st.sampled_from(["next", "next", "next", "next", "open", "close"]),
    st.sampled_from(["", "", "", "t", "u"]), VERDICTS,
)  # fmt: skip
ACTS = st.one_of(
    FETCH,
    FETCH,
    FETCH,
    st.tuples(
        st.just("acknowledge"), MEMBER, st.sampled_from([0, 0, 1, 6]), VERDICTS, st.sampled_from([False, False, True])
    ),
    st.tuples(st.just("renew"), MEMBER, RENEWALS, st.booleans()),
    st.tuples(st.just("produce"), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("leave"), st.sampled_from([(1,), (2,), (2, 1), (3,)])),
    st.tuples(st.just("pass_time"), st.sampled_from([1, LOCK_MS // 2, LOCK_MS - 1, LOCK_MS])),
    st.tuples(st.just("end_waits")),
    st.tuples(
        st.just("operate"),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, 5),
        st.integers(0, 3),
        st.sampled_from([None, *RecordAction]),
        st.sampled_from([None, 0, 1]),
    ),
    st.tuples(st.just("make_anew"), st.sampled_from(["t", "u"])),
    st.tuples(st.just("come_back"), MEMBER, st.integers(0, 2)),
    st.tuples(st.just("end_waits")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("unload"), st.integers(0, 1)),
    st.tuples(st.just("serve"), st.integers(0, 1)),
)


class Play:
    """A server and the model, to which the same things happen."""

    def __init__(self) -> None:
        self.model = ShareModel()
        self.model.now_ms = NOW
        self.broker = Broker(**SETTINGS)
        self.waiting: dict[int, Waits] = {}
        self.tickets = count(100)
        self.away: set[int] = set()  # partitions of the share coordinator that are not served
        self.later: list[Any] = []  # what is released when they are served again
        self.unused: set[StateKey] = set()  # share partitions that are forgotten then, if their group has no session
        self.ids: dict[str, bytes] = {"gone": b"no such topic id"}
        self.values: dict[tuple[bytes, int], list[str]] = {}
        for topic in COUNTS:
            self.create(topic)

    # -- what happens --------------------------------------------------------------------------------------------------

    def create(self, topic: str) -> None:
        (made,) = self.ask(requests.create_topics({topic: COUNTS[topic]})).topics
        assert made.error_code == 0
        self.ids[topic] = made.topic_id
        for partition in range(COUNTS[topic]):
            if (topic, partition) == STRANGE:
                continue
            self.values[made.topic_id, partition] = []
            for group in GROUPS:
                key = begin_sharing(self.broker, topic, group, partition)
                self.model.items[key] = []

    def ask(self, request: Any) -> Any:
        return self.broker.ask(request, now_ms=self.model.now_ms)

    def make_anew(self, topic: str) -> None:
        """Its records are gone, and the groups begin with it."""
        if self.away:
            self.serve_all()
        self.ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState(topic),)))
        for key in [key for key in self.model.items if key.topic_id == self.ids[topic]]:
            del self.model.items[key]
        self.create(topic)

    def produce(self, place: int, number: int) -> None:
        topic, partition = PLACES[place]
        known = self.values[self.ids[topic], partition]
        for _ in range(number):
            value = f"{topic}-{partition}-{len(known)}"
            assert self.broker.produce(topic, partition, batch(value), now_ms=self.model.now_ms).error_code == 0
            known.append(value)
            for group in GROUPS:
                self.model.items[StateKey(group, self.ids[topic], partition)].append(Item())
            self.see_replies()

    def leave(self, connections: tuple[int, ...]) -> None:
        for connection in connections:
            before = set(self.served)
            self.broker.node.engine.disconnect(connection, self.model.now_ms)
            self.broker.node.engine.flush()
            self.finish_steps()
            assert not self.broker.plane.share.is_watched(connection)
            for member, session in list(self.model.sessions.items()):
                if session.connection == connection:
                    del self.model.sessions[member]
                    self.release(member, session)
            groups = self.model.groups.pop(connection, set()) - {group for group, *_ in self.model.sessions}
            unused = {key for key in before if key.group_id in groups}
            later = {key for key in unused if self.is_away(key) and self.model.is_locked(key)}
            self.model.release_all(unused - later)
            self.unused |= later
            assert before - self.served.keys() == unused - later, "so that a state which is altered meanwhile counts"

    def pass_time(self, by_ms: int) -> None:
        self.model.now_ms += by_ms
        self.broker.node.engine.fire(self.model.now_ms)
        self.broker.node.engine.flush()
        self.finish_steps()
        self.model.expire([key for key in self.model.items if not self.is_away(key)])

    def end_waits(self) -> None:
        self.broker.real_ms += WAIT_MS + 100
        self.see_replies()
        assert not self.waiting, "they have waited long enough"

    def restart(self) -> None:
        self.broker.node.close()
        self.broker = Broker(self.broker.files, **SETTINGS)
        self.waiting.clear()
        self.away.clear()
        self.later.clear()
        self.unused.clear()
        self.model.restart()

    def unload(self, index: int) -> None:
        if index not in self.away:
            self.broker.node.engine.share_states.unload(index)
            self.away.add(index)

    def serve(self, index: int) -> None:
        if index not in self.away:
            return
        states = self.broker.node.engine.share_states
        for _ in states.replay(index):
            pass
        states.serve(index, self.model.now_ms)
        self.away.remove(index)
        self.broker.node.engine.fire(self.model.now_ms)
        self.broker.node.engine.flush()
        self.finish_steps()
        assert all(map(self.is_away, self.broker.plane.share.awaited)), "what is served is waited for no more"
        later, self.later = self.later, []
        for member, session, keys in later:
            self.release_keys(member, session, keys)
        groups = {group for group, *_ in self.model.sessions}
        unused = {key for key in self.unused if not self.is_away(key)}
        self.unused -= unused
        self.model.release_all(key for key in unused if key.group_id not in groups)
        assert not any(key in self.served for key in unused if key.group_id not in groups)
        self.model.expire([key for key in self.model.items if not self.is_away(key)])
        self.model.tally.update({name: getattr(self.broker.plane.share.tally, name) - self.model.tally[name]
                                 for name in UNCERTAIN})  # fmt: skip

    def come_back(self, who: int, place: int) -> None:
        """A member leaves and is back, and renews what it had, before any of it can be released."""
        for index in (0, 1):
            self.unload(index)
        self.leave((MEMBERS[who][1],))
        self.fetch(who, 0b111, 0, 1, False, "open", "", [])
        self.renew(who, [(place, 0, [RENEW])], False)
        self.serve_all()

    def serve_all(self) -> None:
        for index in tuple(self.away):
            self.serve(index)
            self.see_replies()

    def fetch(
        self, who: int, named: int, forgotten: int, most: int, waits: bool, kind: str, denied: str, verdicts: Any
    ) -> None:
        """The next ShareFetch of a session, or one that opens or closes it."""
        (member, connection), model = MEMBERS[who], self.model
        session = model.sessions.get(member)
        if kind == "close" and session is None:
            answer = self.send(who, ShareFetchRequest(*member[:2], -1), denied)[1]
            assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
            return
        is_open = kind == "open" or session is None
        if is_open or self.waiting:  # beside others that wait, it would not be known who comes first
            verdicts = []
        told = self.resolve(member, verdicts)
        names: dict[StateKey, Verdicts | None] = dict.fromkeys(self.select(member, named)) | told
        topics = requests.share_fetch_topics(self.named(names))
        left = self.select(member, forgotten)
        order = [(topic.topic_id, one.partition_index) for topic in topics for one in topic.partitions]
        gone = (
            () if is_open else tuple([ShareFetchRequestForgottenTopic(one.topic_id, (one.partition,)) for one in left])
        )
        epoch = -1 if kind == "close" else 0 if is_open or session is None else session.epoch
        request = ShareFetchRequest(
            *member[:2], epoch, max_wait_ms=WAIT_MS if waits else 0, min_bytes=1, max_records=most, batch_size=most,
            share_acquire_mode=1, topics=topics, forgotten_topics_data=gone,
        )  # fmt: skip
        ticket, answer = self.send(who, request, denied)
        if is_open:
            session = model.open(member, connection, order)
        elif kind != "close":
            session = model.go_on(member, order, [(one.topic_id, one.partition) for one in left])
        assert session is not None
        errors = self.acknowledge_all(member, names if told else {}, session.number, denied, is_renewal=False)
        if kind == "close":
            del model.sessions[member]
            self.release(member, session)
        keys = () if kind == "close" else tuple([StateKey(member[0], *one) for one in session.partitions])
        refused = {key: error for key in keys if (error := self.refusal(key, denied))}
        keys = tuple([key for key in keys if key not in refused])
        refused |= {
            key: ErrorCode.UNKNOWN_SERVER_ERROR for key in keys if self.is_strange(key) and not self.is_away(key)
        }
        keys = tuple([key for key in keys if key not in refused])
        poll = Waits(member, list(keys), most, session, session.epoch, is_open, refused, errors)
        if not self.away:
            assert all(key in self.served for key in keys)
        if waits and most and keys and not model.can_take(self.able(poll)):
            assert answer is None
            self.waiting[ticket] = poll
            return
        self.compare(poll, answer, takes=most > 0)

    def acknowledge(self, who: int, named: int, verdicts: Any, is_last: bool, is_renewal: bool = False) -> None:
        """A ShareAcknowledge of a session, which may close it."""
        (member, _), model = MEMBERS[who], self.model
        session = model.sessions.get(member)
        told: dict[StateKey, Verdicts | None] = dict.fromkeys(self.select(member, named)) | self.resolve(
            member, verdicts
        )
        topics = requests.share_acknowledge_topics(self.named(told))
        epoch = -1 if is_last else 1 if session is None else session.epoch
        request = ShareAcknowledgeRequest(*member[:2], epoch, is_renew_ack=is_renewal, topics=topics)
        _, answer = self.send(who, request, "")
        if session is None:
            assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
            return
        if not is_last:
            session = model.go_on(member, (), ())
        errors = self.acknowledge_all(member, told, session.number, "", is_renewal=is_renewal)
        if is_last:
            del model.sessions[member]
            self.release(member, session)
        found = {
            StateKey(member[0], topic.topic_id, one.partition_index): one
            for topic in answer.responses
            for one in topic.partitions
        }
        assert answer.error_code == 0
        assert answer.acquisition_lock_timeout_ms == LOCK_MS
        assert found.keys() == errors.keys()
        for key, error in errors.items():
            self.compare_error(error, found[key].error_code, found[key].error_message)

    def renew(self, who: int, verdicts: Any, by_fetch: bool) -> None:
        member = MEMBERS[who][0]
        session = self.model.sessions.get(member)
        if session is None or not by_fetch:
            self.acknowledge(who, 0, verdicts, False, is_renewal=True)
            return
        told = self.resolve(member, verdicts)
        topics = requests.share_fetch_topics(self.named(told))
        _, answer = self.send(who, ShareFetchRequest(*member[:2], session.epoch, is_renew_ack=True, max_wait_ms=0,
                                                     min_bytes=0, max_bytes=0, topics=topics), "")  # fmt: skip
        session = self.model.go_on(member, [(one.topic_id, one.partition) for one in told], ())
        errors = self.acknowledge_all(member, told, session.number, "", is_renewal=True)
        self.compare(Waits(member, [], 0, session, session.epoch, False, {}, errors), answer, takes=False)

    def operate(
        self, group: int, place: int, first: int, more: int, action: RecordAction | None, deliveries: int | None
    ) -> None:
        """What an operator does to records in flight."""
        key = self.keys(GROUPS[group])[place]
        if action is None and deliveries is None:
            deliveries = 0
        verb = ChangeRecords(key.group_id, key.topic_id, key.partition, first, first + more, action, deliveries)
        made = call(ShareFetchRequest(), 1, 2, self.model.now_ms)
        window = self.broker.plane.share.find(key)
        answer = self.broker.plane.change_records(verb, made)
        self.broker.node.engine.flush()
        if window is None:
            assert answer.refusal.startswith(f"there is no {PLACES[place][0]}-{PLACES[place][1]}")
            return
        items = self.model.items[key][max(first, window.start_offset) : min(first + more + 1, window.end_offset)]
        meant = {ACQUIRED} if action in FREES else {ACQUIRED, AVAILABLE}
        items = [item for item in items if item.state in meant]
        writes = action is not None or any(item.state == AVAILABLE for item in items)
        assert bool(answer.refusal) == (not items or (writes and self.is_away(key)))
        for item in items if not answer.refusal else ():
            item.count = item.count if deliveries is None else deliveries
            if action in FREES:
                state = item.give_back()
                self.model.tally["expired"] += action == RecordAction.EXPIRE
                self.model.tally["archived"] += state == ARCHIVED
                self.model.tally["released"] += state == AVAILABLE and action == RecordAction.RELEASE
            elif action is not None:
                item.free(ACKNOWLEDGED if action == RecordAction.ACCEPT else ARCHIVED)
                self.model.tally["accepted" if action == RecordAction.ACCEPT else "archived"] += 1
            elif item.state == AVAILABLE:
                item.written = item.count
                self.model.tally["released"] += 1

    # -- what is asked -------------------------------------------------------------------------------------------------

    def keys(self, group: str) -> list[StateKey]:
        return [StateKey(group, self.ids[topic], partition) for topic, partition in PLACES]

    def select(self, member: Member, bits: int) -> list[StateKey]:
        return [key for at, key in enumerate(self.keys(member[0])) if bits >> at & 1]

    def resolve(self, member: Member, verdicts: Any) -> dict[StateKey, Verdicts]:
        """Say which offsets they are of: mostly of records that the member has acquired."""
        found = {}
        for place, pick, types in verdicts:
            key = self.keys(member[0])[place]
            items = self.model.items.get(key, [])
            own = [at for at, item in enumerate(items) if (item.state, item.member) == (ACQUIRED, member[1])]
            begin = next((at for at, item in enumerate(items) if item.state in (ACQUIRED, AVAILABLE)), len(items))
            found[key] = own[pick % len(own)] if own else max(begin, pick % (len(items) + 1)), tuple(types)
        return found

    def ranges(self, first: int, types: tuple[int, ...]) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """One verdict for all of them, where it is the same."""
        return ((first, first + len(types) - 1, types[:1] if len(set(types)) == 1 else types),)

    def named(self, told: Mapping[StateKey, Verdicts | None]) -> dict[tuple[bytes, int], Any]:
        return {
            (key.topic_id, key.partition): () if verdicts is None else self.ranges(*verdicts)
            for key, verdicts in told.items()
        }

    def send(self, who: int, request: Any, denied: str) -> tuple[int, Any]:
        ticket, node = next(self.tickets), self.broker.node
        rights: Any = ReaderRights(denied) if denied else None
        made = replace(call(request, ticket, 2, self.model.now_ms), connection=MEMBERS[who][1], rights=rights)
        key = 78 if isinstance(request, ShareFetchRequest) else 79
        where = replace(NODES, node_id=MEMBERS[who][0][2])
        answer = response_of(node.engine.handle(key, request, made, where))
        self.finish_steps()
        mine = [response for number, response in self.broker._replies if number == ticket]
        self.broker._replies = [one for one in self.broker._replies if one[0] != ticket]
        node.engine.flush()
        return ticket, mine[0] if mine else answer

    def finish_steps(self) -> None:
        while self.broker.node.engine.unfinished:
            self.broker.node.engine.long_requests.step()
            self.broker._replies += self.broker._take_replies()

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @property
    def served(self) -> Any:
        return self.broker.plane.share.served

    def is_away(self, key: StateKey) -> bool:
        return self.broker.node.engine.share_states.partition_of(key) in self.away

    def able(self, poll: Waits) -> list[StateKey]:
        return [key for key in poll.keys if key in self.served and key in self.model.items]

    def refusal(self, key: StateKey, denied: str) -> int:
        topic = next((name for name, topic_id in self.ids.items() if topic_id == key.topic_id), "")
        if topic not in COUNTS:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if topic == denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE if key.partition < COUNTS[topic] else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def is_strange(self, key: StateKey) -> bool:
        return (key.topic_id, key.partition) == (self.ids[STRANGE[0]], STRANGE[1])

    def release(self, member: Member, session: Any) -> None:
        self.release_keys(member, session, [StateKey(member[0], *one) for one in session.partitions])

    def release_keys(self, member: Member, session: Any, keys: list[StateKey]) -> None:
        """What cannot be written is released later."""
        away = [key for key in keys if self.is_away(key)]
        self.model.release(member, session, [key for key in keys if key not in away])
        if away:
            self.later.append((member, session, away))

    def acknowledge_all(
        self, member: Member, told: Mapping[StateKey, Verdicts | None], session: int, denied: str, *, is_renewal: bool
    ) -> dict[StateKey, int | None]:
        """The errors by partition, None for one of several. Those without a verdict are told of beside those with one."""
        errors: dict[StateKey, int | None] = {}
        is_any = False
        for key, verdicts in told.items():
            if refusal := self.refusal(key, denied):
                errors[key] = refusal
            elif verdicts is None:
                errors[key] = 0
            elif not is_renewal and RENEW in verdicts[1]:
                errors[key] = ErrorCode.INVALID_REQUEST
            else:
                is_any = True
                errors[key] = 0 if self.model.acknowledge(member, key, verdicts, session, self.is_away(key)) else None
        return {key: error for key, error in errors.items() if error or is_any}

    def compare_error(self, expected: int | None, error: int, message: str | None) -> None:
        if expected is None:
            assert error in MESSAGES
            assert message == MESSAGES[ErrorCode(error)]
        else:
            assert (error, message) == (expected, None)

    def compare(self, poll: Waits, answer: Any, *, takes: bool) -> None:
        """The response to a ShareFetch is what the model says, and that happens to the model."""
        assert answer.error_code == 0
        assert answer.acquisition_lock_timeout_ms == LOCK_MS
        taken = self.model.take(poll, self.able(poll)) if takes else {}
        told = self.model.tell(poll, taken)
        found = {
            StateKey(poll.member[0], topic.topic_id, one.partition_index): one
            for topic in answer.responses
            for one in topic.partitions
        }
        assert found.keys() == told | poll.errors.keys()
        for key, one in found.items():
            acquired = [
                (offset, run.delivery_count)
                for run in one.acquired_records
                for offset in range(run.first_offset, run.last_offset + 1)
            ]
            assert acquired == taken.get(key, [])
            assert one.error_code == poll.refused.get(key, 0)
            self.compare_error(poll.errors.get(key, 0), one.acknowledge_error_code, one.acknowledge_error_message)
            values = self.values[key.topic_id, key.partition] if key in self.model.items else []
            assert read_values(one.records) == (values[acquired[0][0] : acquired[-1][0] + 1] if acquired else [])

    def see_replies(self) -> None:
        """What has waited is answered, and nothing waits for what is there."""
        for ticket, answer in self.broker.replies():
            poll = self.waiting.pop(ticket)
            if self.model.is_current(poll):
                self.compare(poll, answer, takes=True)
            else:
                assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        for poll in self.waiting.values():
            assert not self.model.is_current(poll) or not self.model.can_take(self.able(poll))

    def check(self) -> None:
        """What an operator sees is what the model has."""
        plane, model = self.broker.plane, self.model
        tally = plane.share.tally
        names = set(tally.__struct_fields__) - (UNCERTAIN if self.away else set())
        assert {name: getattr(tally, name) for name in names} == {name: model.tally[name] for name in names}
        locks = {key: [item.until_ms for item in items if item.state == ACQUIRED] for key, items in model.items.items()}
        assert not self.broker.node.world.edge.failures
        assert self.served.keys() <= model.items.keys(), "nothing is known of a topic that is gone"
        for group in GROUPS:
            views = list(plane.view_records(group, "", 1_000, {}))
            places = [(view.topic, view.partition) for view in views]
            assert places == sorted(
                place for key, place in zip(self.keys(group), PLACES, strict=True) if key in self.served
            )
            for topic in COUNTS:
                assert list(plane.view_records(group, topic, 1_000, {})) == [
                    view for view in views if view.topic == topic
                ]
            for most in range(4):
                self.compare_few(most, views, list(plane.view_records(group, "", most, {})))
            for view in views:
                key = StateKey(group, self.ids[view.topic], view.partition)
                self.compare_view(view, model.items[key])
                assert plane.view_share_partition(key) == view
                if not self.away:
                    assert dict(plane.share.deadlines_of(group)).get(key) == min(locks[key], default=None)

    def compare_few(self, most: int, views: Any, few: Any) -> None:
        """So many runs of all partitions together; each that is shown counts, though it has none."""
        for shown, view in zip(few, views, strict=False):
            assert most > 0
            assert shown == replace(view, records=view.records[:most])
            most -= max(len(view.records), 1)
        assert len(few) == len(views) or most <= 0

    def compare_view(self, view: Any, items: list[Item]) -> None:
        assert all(item.state in (ACKNOWLEDGED, ARCHIVED) for item in items[: view.start])
        assert all((item.state, item.count) == (AVAILABLE, 0) for item in items[view.end :])
        assert view.start == view.end or items[view.start].state in (ACQUIRED, AVAILABLE)
        shown = [
            (run.state, run.deliveries, run.member, run.locked_until_ms or 0)
            for run in view.records
            for _ in range(run.first, run.last + 1)
        ]
        assert shown == [(one.state, one.count, one.member, one.until_ms) for one in items[view.start : view.end]]


@given(st.lists(st.tuples(ACTS, FETCH, FETCH), min_size=6, max_size=12))
@settings(max_examples=80)
def test_members_get_what_the_model_says(rounds: list[tuple[Any, ...]]) -> None:
    play = Play()
    for place in range(3):
        play.produce(place, 3 - place)
    for who in range(len(MEMBERS)):
        play.fetch(who, 0b111, 0, 1 + who % 2, False, "open", "", [])
    for name, *arguments in chain.from_iterable(rounds):
        getattr(play, name)(*arguments)
        play.see_replies()
        play.check()
