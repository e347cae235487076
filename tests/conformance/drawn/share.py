"""Share groups: members that fetch and acknowledge, records that come and go, offsets that are altered and deleted."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tests.conformance.actors import Producer, Sharer
from tests.conformance.batches import GZIP
from tests.conformance.drawn.play import PROMPT_MS, STEPS, Learn, Play, versions_of
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.sharing import (
    ACCEPT,
    EXACTLY,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Taker,
    append,
    begin_states,
    find_share_coordinators,
    of_topic,
    offset_of,
    open_transaction,
)
from tests.conformance.stage import Answer, Stage

LOCK_MS, FAR_MS = 20_000, 60_000  # a lock that a long pause outlasts, one that nothing does
PAUSE_MS = 21_500
MORE = 4  # partitions of a topic at most
LATE_MS = 500  # for what Kafka does when a connection has gone
PATIENT: Mapping[str, int] = {"min_bytes": 1 << 20, "max_bytes": 1 << 20, "max_wait_ms": 800}
"""Of a fetch that waits until Kafka has opened share partitions and has written what was released, and then brings all
that there is: with fewer bytes it would bring what happens to be there."""
NOTHING: Mapping[str, int] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
FETCH, SETTLE = versions_of("share_fetch", 1, 2), versions_of("share_acknowledge", 1, 2)
DESCRIBE = versions_of("describe_share_group_offsets", 0, 1)
DELETE_RECORDS = versions_of("delete_records", 0, 2)
Place = tuple[str, int]  # a topic and a partition of it
Batch = dict[str, Any]
Batches = Mapping[Place, Sequence[Batch]]
NONE: Batches = {}


class Actor(Taker):
    """A member of a share group that knows what it has acquired, and which partitions its session has."""

    def __init__(self, k: Stage, name: str, topic: str, group: str = "g") -> None:
        super().__init__(k, name, topic, group)
        self.name = name
        self.held: dict[Place, list[tuple[int, int]]] = {}
        self.done: dict[Place, list[tuple[int, int]]] = {}
        self.session: list[Place] = []
        self.is_unread = False  # whether partitions of the session were never read

    def acquire(self, answer: Answer) -> None:
        """Learn what has been acquired."""
        names = {topic_id: name for name, topic_id in self.k.topic_ids.items()}
        for topic in answer.responses:
            for part in topic.partitions:
                place = names[topic.topic_id], part.partition_index
                found = [(one.first_offset, one.last_offset) for one in part.acquired_records]
                self.held[place] = sorted({*self.held.get(place, ()), *found})

    def go_on(self, answer: Answer, epoch: int, places: Iterable[Place] = ()) -> None:
        """Learn what has become of the session."""
        if answer.error_code in ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"):
            self.epoch, self.session = 0, []
        elif answer.error_code == "NONE" and epoch == -1:
            self.end_session()
        elif answer.error_code == "NONE":
            self.epoch = epoch + 1
            self.session = list(dict.fromkeys((*(self.session if epoch else ()), *places)))

    def end_session(self) -> None:
        self.epoch, self.session = 0, []
        for place in list(self.held):
            self.forget(place)

    def forget(self, place: Place) -> None:
        """Take what it holds of a partition for done."""
        self.done.setdefault(place, []).extend(self.held.pop(place, ()))

    def settled(self, place: Place, batches: Sequence[Batch]) -> None:
        """Learn that these are acknowledged."""
        for batch in batches:
            first, last, types = batch["first_offset"], batch["last_offset"], batch["acknowledge_types"]
            renewed = range(first, last + 1) if list(types) == [RENEW] else ()
            if len(types) > 1:
                renewed = [first + at for at, one in enumerate(types) if one == RENEW]
            left = [(offset, offset) for offset in renewed]
            for begin, end in self.held.get(place, ()):
                if begin > last or end < first:
                    left.append((begin, end))
                else:
                    left += [(begin, first - 1)] * (begin < first) + [(last + 1, end)] * (end > last)
            self.held[place] = sorted(left)
            self.done.setdefault(place, []).append((first, last))


class Share(Play):
    """One group of up to three members, up to three partitions, and whoever looks on.

    Left out is what docs/differences.md lists: topics and acquire modes that do not exist, a liked batch size below 1,
    a range from below the start to beyond the end where nothing is in flight, a duration within which nothing was
    appended, fewer records than there are of several partitions, fetches that wait while records are released or while
    their connection is closed, the end of sessions when records are held whose partition was forgotten, fetches that
    wait beyond an open transaction.
    """

    server = "share"

    def play(self, without: Collection[int] = (), steps: int = STEPS) -> None:
        super().play(without, steps)
        for event in self.k.events:
            event |= {"after": 0.0} if "after" in event else {}

    def begin(self) -> None:
        self.group = self.k.name("g")
        self.theme = self.one_of("", "", "releases", "transactions", "many")
        counts = {"t": self.one_of(1, 1, 2), "u": self.one_of(0, 0, 1)}
        if self.theme:
            counts = {"t": 1, "u": 0}
        self.limits: dict[str, Any] = {}
        self.is_late = self.is_so(0.4)  # whether locks may end
        self.configure(first=True)
        topics = {self.k.topic(name, count): count for name, count in counts.items() if count}
        self.places = [(topic, index) for topic, count in topics.items() for index in range(count)]
        self.topic = self.places[0][0]
        self.is_cut = False  # whether records have been deleted
        self.is_stale = False  # whether records that are held have been deleted: Kafka's start offset stays before them
        self.is_moved = False  # whether share partitions may have to be opened again
        self.is_forgetful = False  # whether a session has forgotten a partition of which its member holds records
        self.member: Sharer | None = None  # who has joined, and stays
        self.bounds: dict[Place, list[int]] = {}  # where batches begin
        self.producer: Producer | None = None  # of an open transaction
        self.sequence = 0
        self.is_joined = self.is_so(0.6)
        for topic, index in self.places:
            if self.is_by_time or not self.is_joined or self.is_so(0.7):
                self._append((topic, index), self.dice.randint(1, 4))
        for topic, count in topics.items():
            find_share_coordinators(self.k, topic, "g", count)
        if self.is_joined:
            self.join()
        else:
            for topic, count in topics.items():
                begin_states(self.k, topic, start=self.one_of(0, 0, 0, -1, 1), partitions=count)
        self.actors = [Actor(self.k, name, self.topic) for name in "abc"[: self.dice.randint(1, 3)]]
        if self.is_so(0.15):  # of another group of the same topics
            self.k.group_config(self.k.name("h"), **self.settings)
            for topic, count in topics.items():
                begin_states(self.k, topic, group="h", partitions=count)
            self.actors.append(Actor(self.k, "d", self.topic, "h"))

    def configure(self, *, first: bool = False) -> None:
        """Set some of the group's configs."""
        values: dict[str, Any] = {}
        if first:
            values["share_record_lock_duration_ms"] = LOCK_MS if self.is_late else FAR_MS
            values["share_auto_offset_reset"] = self.one_of("earliest", "earliest", "latest", "by_duration:P30000D")
            self.is_by_time = values["share_auto_offset_reset"].startswith("by_duration")
            self.is_latest = values["share_auto_offset_reset"] == "latest"
            levels = ["read_committed"] * (3 if self.theme == "transactions" else 1)
            values["share_isolation_level"] = self.one_of("read_uncommitted", *levels)
        if self.theme == "releases" or self.is_so(0.5):
            values["share_delivery_count_limit"] = self.one_of(2, 3, 4, 5, 10)
        if self.theme == "many" or self.is_so(0.1):
            values["share_partition_max_record_locks"] = 100
        if self.is_so(0.1):
            values["share_renew_acknowledge_enable"] = "false"
        elif not first:
            if self.is_so(0.3):
                values["share_isolation_level"] = self.one_of("read_committed", "read_uncommitted")
            if self.is_so(0.2):
                values["share_renew_acknowledge_enable"] = "true"
            if self.is_so(0.2) and not self.is_late:
                values["share_record_lock_duration_ms"] = self.one_of(FAR_MS, FAR_MS - 10_000)
            if self.is_so(0.1):
                values["share_session_timeout_ms"] = FAR_MS
        if first:
            self.settings = {name: values[name] for name in ("share_record_lock_duration_ms", "share_isolation_level")}
        if values:
            self.k.group_config(self.group, **values)

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.live: 100,
            self.append: 20,
            self.fetch: 12,
            self.settle: 12,
            self.settle_wrongly: 12,
            self.wait: 5,
            self.close: 0 if self.is_forgetful else 4,
            self.hang_up: 0 if self.is_forgetful else 3,
            self.misname: 0 if self.is_forgetful else 6,
            self.name_others: 3,
            self.look: 0 if self.is_stale else 8,
            self.transact: 30 if self.theme == "transactions" else 8 if len(self.places) == 1 or self.producer else 2,
            self.delete_records: 4,
            self.alter: 3,
            self.delete_offsets: 1,
            self.join: 2 if self.is_joined else 0,  # it leaves a state as it is that is there already
            self.stay: 2 if self.is_joined else 0,
            self.change_configs: 4,
            self.grow: 1 if not self.theme else 0,
            self.renew: 1 if not self.theme else 0,
            self.delete_group: 1,
            self.pause_long: 10 if self.is_late and not self.is_moved else 0,
        }

    # -- what a client does --------------------------------------------------------------------------------------------

    def live(self) -> None:
        """What a client does next."""
        one: Actor = self.one_of(*self.actors)
        if one.epoch == 0:
            # Where records have been deleted a first fetch ends before Kafka has opened the other partitions.
            add = [self.one_of(*self.places)] if self.is_cut else self.places
            self._fetch(one, add=add if self.is_so(0.7) else self.some_of(add, 1))
        elif any(one.held.values()) and self.is_so(0.8):
            batches = self._acknowledgements(one)
            # Kafka may answer before it has written what is released.
            if self.is_so(0.6) or self.producer or self.is_moved or has_releases(batches):
                self._settle(one, batches)
            else:
                self._fetch(one, batches)
        else:
            self._fetch(one)

    def append(self) -> None:
        """Some batches, mostly to the first partition."""
        topic, index = self.one_of(self.places[0], *self.places)
        for _ in range(self.dice.randint(1, 3)):
            size = self.one_of(30, 45, 60) if self.theme == "many" else self.one_of(1, 1, 2, 2, 3, 4, 5, 8, 10)
            self._append((topic, index), size)

    def _append(self, place: Place, size: int) -> None:
        self.bounds.setdefault(place, []).append(self._end(place))
        append(self.k, place[0], size, place[1], codec=self.one_of(0, 0, 0, GZIP))

    def fetch(self) -> None:
        """Fetch by other numbers than most."""
        one: Actor = self.one_of(*self.actors)
        values = {
            "max_records": self.one_of(0, 1, 2, 3, 7),
            "max_bytes": self.one_of(0, 1, 90, 150, 300, 1 << 20),
            "min_bytes": self.one_of(-1, 0, 1, 100, 1000),
        }
        some = self.some_of(values, 1)
        places = [self.one_of(*self.places)] if self.is_cut else self.places
        add = self.some_of(places, 1) if one.epoch == 0 else self.one_of([], self.some_of(places))
        gone = self.some_of(self.places) if one.epoch and self.is_so(0.3) else []
        self._fetch(one, add=add, gone=gone, **{name: values[name] for name in values if name in some})

    def settle(self) -> None:
        """Acknowledge, also nothing, and also renew."""
        one: Actor = self.one_of(*self.actors)
        batches = self._acknowledgements(one, renews=True)
        is_renew = any(RENEW in each["acknowledge_types"] for some in batches.values() for each in some)
        if is_renew and self.is_so(0.3):
            self._fetch(one, batches, is_renew_ack=True, **{**NOTHING, **self.one_of({}, {}, {}, {"max_wait_ms": 1})})
        else:
            self._settle(one, batches, is_renew_ack=is_renew if self.is_so(0.9) else not is_renew)

    def close(self) -> None:
        one: Actor = self.one_of(*self.actors)
        batches = self._acknowledgements(one) if self.is_so(0.6) else {}
        if self.is_so(0.5):
            self._settle(one, batches, epoch=-1)
        else:
            self._fetch(one, batches, epoch=-1)

    def hang_up(self) -> None:
        one: Actor = self.one_of(*self.actors)
        self.k.line(one.name).close()
        self.pause(LATE_MS)
        one.end_session()

    def wait(self) -> None:
        """Fetch what is there, and then wait for what is appended."""
        one: Actor = self.one_of(*self.actors)
        if one.epoch == 0 or not one.session or self.is_moved or (self.producer and self.is_latest):
            return
        place = self.one_of(*one.session)
        self._fetch(one, **PATIENT)
        known = self._make_fetch(one, one.epoch, {}, (), ())
        pending = self._send(self.k.line(one.name), "share_fetch", FETCH, {**known, "max_wait_ms": 10_000})
        pending.silent(PROMPT_MS)
        if pending.flight.arrived_at is None:
            self._append(place, 2)
            self._learn_fetch(one, one.epoch, {}, ())(pending.answer(is_timed=False))

    def _fetch(
        self,
        one: Actor,
        batches: Batches = NONE,
        add: Sequence[Place] = (),
        gone: Sequence[Place] = (),
        **values: Any,
    ) -> None:
        epoch = values.pop("epoch", one.epoch)
        one.is_unread |= epoch == 0 or any(place not in one.session for place in (*add, *batches))
        drawn = {
            "max_records": self.one_of(500, 500, 500, 1, 2, 5),
            "batch_size": self.one_of(500, 500, 1, 2, 5),
            "share_acquire_mode": self.one_of(0, 0, EXACTLY),
            "max_wait_ms": self.one_of(0, 200, 300),
        }
        if len({*one.session, *add, *batches}) > 1:  # which of them is the first is Kafka's own matter
            drawn["max_records"] = 500
            values = {name: value for name, value in values.items() if name == "is_renew_ack" or value <= 0}
        if one.is_unread or batches or self.is_moved:
            drawn |= PATIENT
            values = {name: value for name, value in values.items() if name not in PATIENT or "is_renew_ack" in values}
        one.is_unread &= values.get("max_records") == 0 or values.get("max_bytes") == 0
        known = self._make_fetch(one, epoch, batches, add, gone)
        self.k.pump.run(10)  # for Kafka, which holds the partitions of a fetch for a moment after its answer
        self.ask(
            self._line(one),
            "share_fetch",
            FETCH,
            self._learn_fetch(one, epoch, batches, add),
            **{**known, **drawn, **values},
        )
        one.session = [place for place in one.session if place not in gone]
        self.is_forgetful |= any(one.held.get(place) for place in gone)

    def _line(self, one: Actor) -> Any:
        return self.k.line(one.name if one.epoch == 0 or self.is_so(0.9) else f"{one.name}'")

    def _make_fetch(
        self, one: Actor, epoch: int, batches: Batches, add: Sequence[Place], gone: Sequence[Place]
    ) -> dict[str, Any]:
        named = {**dict.fromkeys(add, ()), **batches}
        return {
            **one.known,
            "share_session_epoch": epoch,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "topics": self._topics(named),
            "forgotten_topics_data": [
                {"topic_id": self.k.topic_id(topic), "partitions": [index for name, index in gone if name == topic]}
                for topic in dict.fromkeys(topic for topic, _ in gone)
            ],
        }

    def _topics(self, named: Batches) -> list[dict[str, Any]]:
        topics = dict.fromkeys(topic for topic, _ in named)
        return [
            {
                "topic_id": self.k.topic_id(topic),
                "partitions": [
                    {"partition_index": index, "acknowledgement_batches": list(some)}
                    for (name, index), some in named.items()
                    if name == topic
                ],
            }
            for topic in topics
        ]

    def _learn_fetch(self, one: Actor, epoch: int, batches: Batches, add: Sequence[Place]) -> Learn:
        def learn(answer: Answer) -> None:
            if answer.error_code == "NONE":
                self._learn_fates(one, batches, answer, "acknowledge_error_code")
                one.acquire(answer)
            one.go_on(answer, epoch, (*add, *batches))

        return learn

    def _settle(self, one: Actor, batches: Batches, **values: Any) -> None:
        epoch = values.pop("epoch", one.epoch)
        asked = {**one.known, "share_session_epoch": epoch, "topics": self._topics(batches), **values}

        def learn(answer: Answer) -> None:
            if answer.error_code == "NONE":
                self._learn_fates(one, batches, answer, "error_code")
            one.go_on(answer, epoch)

        self.ask(self._line(one), "share_acknowledge", SETTLE, learn, **asked)

    def _learn_fates(self, one: Actor, batches: Batches, answer: Answer, error: str) -> None:
        names = {topic_id: name for name, topic_id in self.k.topic_ids.items()}
        for topic in answer.responses:
            for part in topic.partitions:
                place = names[topic.topic_id], part.partition_index
                if place in batches and getattr(part, error) in (0, "NONE"):
                    one.settled(place, batches[place])
                elif place in batches and self.is_moved:
                    for each in self.actors:
                        each.held.pop(place, None)
                elif place in batches and getattr(part, error) in (121, "INVALID_RECORD_STATE"):
                    one.forget(place)

    def _acknowledgements(self, one: Actor, *, renews: bool = False) -> dict[Place, list[Batch]]:
        """Return what a client may say of some of the records that it holds."""
        found: dict[Place, list[Batch]] = {}
        for place in self.some_of([place for place in self.places if one.held.get(place)]):
            batches = [batch for each in sorted(self.some_of(one.held[place], 1)) for batch in self._say(*each, renews)]
            found[place] = batches
        return found

    def _say(self, first: int, last: int, renews: bool) -> list[Batch]:
        releases = [RELEASE] * (12 if self.theme == "releases" else 3)
        kinds = [ACCEPT, ACCEPT, ACCEPT, *releases, REJECT, GAP, *([RENEW] * 4 if renews else [])]
        begin, end = sorted((self.dice.randint(first, last), self.dice.randint(first, last)))
        way = self.one_of("whole", "whole", "whole", "part", "each", "halves")
        if way == "each":
            return [said(first, last, *(self.one_of(*kinds) for _ in range(first, last + 1)))]
        if way == "halves" and begin < end:
            return [said(begin, end - 1, self.one_of(*kinds)), said(end, end, self.one_of(*kinds))]
        return [said(*((begin, end) if way == "part" else (first, last)), self.one_of(*kinds))]

    # -- what a client does wrong --------------------------------------------------------------------------------------

    def settle_wrongly(self) -> None:
        """Ranges that no partition takes, or not from this member."""
        one: Actor = self.one_of(*self.actors)
        place = self.one_of(*self.places)
        other: Actor = self.one_of(*self.actors)
        known = [
            *one.held.get(place, ()),
            *([] if self.is_stale else one.done.get(place, ())),
            *other.held.get(place, ()),
        ]
        first, last = self.one_of(*known) if known else (0, 0)
        kind = self.one_of(ACCEPT, RELEASE, REJECT, GAP)
        is_held = bool(one.held.get(place))
        wrong = [
            [said(first, last, kind)],
            [said(first, last, kind)],
            [said(last, first, kind)],
            [said(first, last)],
            [said(first, last, *[kind] * (last - first + 2))],
            [said(first, last, self.one_of(5, -1, RENEW))],
            [said(last, last, kind), said(first, first, kind)],
            [said(first, last, kind), said(last, last, RELEASE)],
            [said(-3, last, kind)],
            [said(last + 1, last + self.one_of(1, 100), kind)] if is_held else [said(first, last, kind)],
            [said(first, last + 1, kind)] if is_held else [],
            [],
        ]
        batches = {place: self.one_of(*wrong)}
        if self.is_so(0.7) or self.producer or self.is_moved:
            self._settle(one, batches)
        elif one.epoch:
            self._fetch(one, batches)

    def misname(self) -> None:
        """Another epoch, member or group, or a partition that does not exist."""
        one: Actor = self.one_of(*self.actors)
        epoch = self.one_of(one.epoch + 1, one.epoch - 1, -2, 5, 1, 0)
        batches = self._acknowledgements(one) if self.is_so(0.4) else {}
        wrong = self.one_of(
            {"epoch": epoch},
            {"epoch": epoch},
            {"epoch": epoch},
            {"group_id": self.one_of(None, "", self.k.name("h"))},
            {"member_id": self.one_of(None, "", "x" * 37, "nobody")},
        )
        if self.is_so(0.5):
            known = self._make_fetch(one, wrong.get("epoch", max(one.epoch, 1)), batches, (), ())
            known |= {name: value for name, value in wrong.items() if name != "epoch"}
            known |= PATIENT
            learn = self._learn_fetch(one, known["share_session_epoch"], batches, ()) if "epoch" in wrong else id
            self.ask(self.k.line(one.name), "share_fetch", FETCH, learn, **known)
        elif "epoch" in wrong:
            self._settle(one, batches, **wrong)
        else:
            asked = {**one.known, "share_session_epoch": max(one.epoch, 1), "topics": self._topics(batches), **wrong}
            self.ask(self.k.line(one.name), "share_acknowledge", SETTLE, **asked)

    def name_others(self) -> None:
        """Acknowledge records of partitions that do not exist, or that are not in the session."""
        one: Actor = self.one_of(*self.actors)
        kind = self.one_of(ACCEPT, RELEASE)
        place = self.one_of((self.topic, 7), *self.places)
        topics = self._topics({place: [said(0, 0, kind)]})
        if self.is_so(0.3):
            topics[0]["topic_id"] = UNKNOWN_ID
        asked = {**one.known, "share_session_epoch": one.epoch, "topics": topics}
        epoch = one.epoch

        def learn(answer: Answer) -> None:
            if place[1] != 7 and topics[0]["topic_id"] != UNKNOWN_ID and answer.error_code == "NONE":
                self._learn_fates(one, {place: [said(0, 0, kind)]}, answer, "error_code")
            one.go_on(answer, epoch)

        self.ask(self.k.line(one.name), "share_acknowledge", SETTLE, learn, **asked)

    # -- what happens around them --------------------------------------------------------------------------------------

    def look(self) -> None:
        """Describe where the group is, and how far behind."""
        topics = [
            {"topic_name": topic, "partitions": sorted({index for name, index in self.places if name == topic})}
            for topic in dict.fromkeys(topic for topic, _ in self.places)
        ]
        group = self.one_of(self.group, self.group, self.group, self.group, self.k.name("h"))
        asked = self.one_of(topics, topics, topics, [], None)
        groups = [{"group_id": group, "topics": asked}]
        self.ask(self.k.line("watch"), "describe_share_group_offsets", DESCRIBE, groups=groups)

    def transact(self) -> None:
        """Begin a transaction in the first partition, go on with it, or end it."""
        topic, _ = self.places[0]
        if self.producer is None:
            self.producer = Producer(self.k, "p")
            self.producer.begin_eventually()
            self.sequence = self.dice.randint(1, 4)
            open_transaction(self.k, self.producer, topic, self.sequence)
        elif self.is_so(0.3):
            append(self.k, topic, 2, producer=self.producer, sequence=self.sequence)
            self.sequence += 2
        else:
            self.producer.end(self.is_so(0.5))
            self.producer = None
            end = self._end(self.places[0])
            line = self.k.line("stage")
            line.until("marker", "list_offsets", 5, lambda answer: offset_of(answer) > end - 1, **of_topic(topic, 1))

    def _end(self, place: Place) -> int:
        """Return the end of the log."""
        asked = of_topic(place[0], 0)
        asked["topics"][0]["partitions"][0]["partition_index"] = place[1]
        return offset_of(self.k.line("stage").quietly("list_offsets", 5, **asked))

    def delete_records(self) -> None:
        """Move the start of a log."""
        topic, index = place = self.one_of(*self.places)
        if any(one.held.get(place) for one in self.actors):
            if self.is_so(0.6):
                return
            self.is_stale = True
        self.is_cut = True
        end = self._end(place)
        # Not within a batch: Kafka gives what is before in it.
        bounds = [bound for bound in self.bounds.get(place, ()) if bound < end] or [0]
        offset = self.one_of(-1, *(self.one_of(*bounds) for _ in range(3)), end + 1)
        if self.is_by_time:
            offset = self.one_of(*bounds)
        parts = [{"partition_index": index, "offset": offset}]
        topics = [{"name": topic, "partitions": parts}]
        self.ask(self.k.line("admin"), "delete_records", DELETE_RECORDS, topics=topics, timeout_ms=5_000)

    def alter(self) -> None:
        """Let the group begin anew, at other offsets."""
        self.is_moved = True
        parts: dict[str, list[dict[str, int]]] = {}
        for topic, index in self.some_of([*self.places, (self.topic, 7), (self.k.name("none"), 0)], 1):
            start = self.one_of(0, 0, 1, -1, 3)
            parts.setdefault(topic, []).append({"partition_index": index, "start_offset": start})
        topics = [{"topic_name": topic, "partitions": some} for topic, some in parts.items()]
        group = self.one_of(*[self.group] * 9, "")
        self.ask(self.k.line("admin"), "alter_share_group_offsets", [0], group_id=group, topics=topics)
        self._forget_what_is_done()

    def delete_offsets(self) -> None:
        """Let the group forget where it is."""
        self.is_moved = True
        names = self.some_of([*dict.fromkeys(topic for topic, _ in self.places), self.k.name("none")], 1)
        topics = [{"topic_name": name} for name in names]
        group = self.one_of(*[self.group] * 9, "", self.k.name("h"))
        self.ask(self.k.line("admin"), "delete_share_group_offsets", [0], group_id=group, topics=topics)
        self._forget_what_is_done()

    def _forget_what_is_done(self) -> None:
        for one in self.actors:
            one.done = {}

    def join(self) -> None:
        """Let a member join, which begins the states that there are not yet, and leave again."""
        topics = list(dict.fromkeys(topic for topic, _ in self.places))
        member = Sharer(self.k, "m", self.group)
        joined = member.join(*topics)
        if len(joined.assignment.topic_partitions) < len(topics):
            member.beat_until_assigned(len(topics))
        member.leave()

    def stay(self) -> None:
        """Let a member join, and be there until it leaves."""
        if self.member is not None:
            self.member.leave()
            self.member = None
            return
        self.member = Sharer(self.k, "n", self.group)
        self.member.settle(*dict.fromkeys(topic for topic, _ in self.places))

    def grow(self) -> None:
        """Add a partition, whose state begins."""
        topic, _ = self.one_of(*self.places)
        count = len([name for name, _ in self.places if name == topic]) + 1
        if count < MORE and self.is_joined and self.member is None and self.actors[-1].name != "d":
            self.k.grow_topic(topic, count)
            self.k.pump.run(LATE_MS)
            find_share_coordinators(self.k, topic, "g", count)
            self.places.append((topic, count - 1))
            self.join()

    def renew(self) -> None:
        """Delete a topic and make it anew, while nobody has a session."""
        if self.member is not None or self.producer is not None or self.is_forgetful or self.actors[-1].name == "d":
            return
        for one in self.actors:
            if one.epoch:
                self._settle(one, {}, epoch=-1)
        topic, _ = self.one_of(*self.places)
        self.k.delete_topic(topic)
        self.pause(LATE_MS)
        self.places = [place for place in self.places if place[0] != topic]
        for one in self.actors:
            one.held = {place: some for place, some in one.held.items() if place[0] != topic}
            one.done = {place: some for place, some in one.done.items() if place[0] != topic}
        self.bounds = {place: some for place, some in self.bounds.items() if place[0] != topic}
        self.k.topic(topic.removeprefix(self.k.prefix), 1)
        find_share_coordinators(self.k, topic, "g", 1)
        self.places.append((topic, 0))
        if self.is_joined:
            self.join()
        else:
            begin_states(self.k, topic, start=self.one_of(0, 1))

    def delete_group(self) -> None:
        """As far as nobody fetches for it: members would keep it from being deleted."""
        if any(one.epoch for one in self.actors):
            return
        self.is_moved = True
        names = self.one_of([self.group], [self.group, self.k.name("none")], [self.k.name("h")])
        self.ask(self.k.line("admin"), "delete_groups", [1, 2], groups_names=names)
        self.pause(LATE_MS)
        self._forget_what_is_done()

    def change_configs(self) -> None:
        self.configure()

    def pause_long(self) -> None:
        self.pause(PAUSE_MS)


def has_releases(batches: Batches) -> bool:
    return any(RELEASE in one["acknowledge_types"] for some in batches.values() for one in some)


def said(first: int, last: int, *types: int) -> Batch:
    """A range of offsets with what is said of its records."""
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
