"""Transactions: producers of both forms that begin, write, commit offsets, end, are late and are fenced, and readers."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tests.conformance.actors import FAR, Member, Modern
from tests.conformance.batches import GZIP, TRANSACTIONAL, batch
from tests.conformance.drawn.play import Learn, Play, versions_of
from tests.conformance.drawn.records import Session
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.stage import Answer, Line, Stage

Place = tuple[str, int]  # a topic and a partition of it
Batch = tuple[Place, dict[str, Any], int]  # its partition, its numbers, and how many records it has

TIMEOUT_MS, FAR_MS = 6_000, 600_000  # one that a long pause outlasts, one that nothing does
PAUSE_MS = 7_500
TOPICS: Mapping[str, int] = {"t": 2, "u": 1}  # with their partitions, at first
CONFIGS = ({"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}, {"max.message.bytes": "90"})
MORE = 4  # than which no topic grows
BEGIN, END = versions_of("init_producer_id", 0, 5), versions_of("end_txn", 0, 5)
ADD, ADD_OFFSETS = versions_of("add_partitions_to_txn", 0, 5), versions_of("add_offsets_to_txn", 0, 4)
WRITE, COMMIT_IN = versions_of("produce", 3, 13), versions_of("txn_offset_commit", 0, 5)
MARK = versions_of("write_txn_markers", 1, 2)
COMMIT, OFFSETS = versions_of("offset_commit", 2, 10), versions_of("offset_fetch", 1, 10)
FETCH, LIST_OFFSETS = versions_of("fetch", 4, 18), versions_of("list_offsets", 1, 11)
LIST, DELETE = versions_of("list_transactions", 0, 2), versions_of("delete_records", 0, 2)
UNKNOWN = {"INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}


class Client:
    """A producer that knows what it would do next."""

    def __init__(self, k: Stage, name: str, transactional_id: str | None, timeout_ms: int, adds: bool) -> None:
        self.k, self.name, self.transactional_id, self.timeout_ms = k, name, transactional_id, timeout_ms
        self.line = k.line(name)
        self.adds = adds  # whether it says which partitions it will write to: the first form of transactions
        self.id, self.epoch = -1, -1
        self.must_begin = True
        self.is_open = False
        self.must_abort = False
        self.added: set[Place | str] = set()  # partitions, and groups
        self.next: dict[Place, int] = {}  # the sequence of each partition
        self.written: list[Batch] = []

    def me(self) -> dict[str, Any]:
        return {"transactional_id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch}

    def learn(self, answer: Answer) -> None:
        """Learn the producer id and epoch."""
        if answer.error_code == "NONE" and answer.get("producer_id", -1) >= 0:
            if (self.id, self.epoch) != (answer.producer_id, answer.producer_epoch):
                self.next = {}
            self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def begun(self, answer: Answer) -> None:
        self.learn(answer)
        if answer.error_code == "NONE":
            self.must_begin = self.is_open = self.must_abort = False
            self.added = set()

    def learn_end(self, answer: Answer) -> None:
        self.learn(answer)
        self.heard(answer.error_code)
        if answer.error_code == "NONE":
            self.is_open = self.must_abort = False
            self.added = set()

    def heard(self, *errors: str) -> None:
        """Learn from the errors of a request."""
        if UNKNOWN.intersection(errors):
            self.must_begin = True
        elif {"INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", "OUT_OF_ORDER_SEQUENCE_NUMBER"}.intersection(errors):
            self.must_abort = True


class Transactions(Play):
    """Producers of two transactional ids and one of none, a group, and readers of the partitions."""

    def begin(self) -> None:
        self.counts = {self._create(name, count): count for name, count in TOPICS.items()}
        self.topic = self.k.name("t")
        self.group, self.other = self.k.name("g"), self.k.name("h")
        self.end_offset = 0  # of the longest partition, as far as producers have heard
        self.are_deleted = False
        self.ends: Collection[int] = END
        self.session, self.read = Session(), dict[Place, int]()
        self.now_ms = int(time.time() * 1000) - 120_000  # of the next record: always before a marker
        self.clients = [self._client(name) for name in "abc"[: self.dice.randint(1, 3)]]
        if self.is_so(0.3):
            self.clients.append(self._client("i", has_id=False))
        self.member_of: Member | Modern | None = None
        self.members: list[tuple[str, int]] = []  # of the group, as far as they have been heard of
        self.joined = 0
        if self.is_so(0.4):
            self.change_members()

    def _create(self, short: str, count: int) -> str:
        return self.k.topic(short, count, self.one_of({}, {}, {}, *CONFIGS))

    def _client(self, name: str, has_id: bool = True) -> Client:
        transactional_id = self.one_of("x", name, name) if has_id else None  # two of one fence each other
        return Client(
            self.k,
            name,
            transactional_id and self.k.name(transactional_id),
            self.one_of(TIMEOUT_MS, FAR_MS, FAR_MS),
            self.is_so(0.5),
        )

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.live: 140,
            self.start: 6,
            self.add: 6,
            self.add_offsets: 5,
            self.write: 12,
            self.repeat: 7,
            self.write_plainly: 4,
            self.commit_in: 8,
            self.end: 6,
            self.mark: 2,
            self.commit: 4,
            self.offsets: 8,
            self.delete_offsets: 2,
            self.describe: 5,
            self.list: 4,
            self.producers: 6,
            self.fetch: 12,
            self.fetch_in_session: 8,
            self.fetch_late: 6,
            self.change_members: 3,
            self.renew: 2,
            self.grow: 2,
            self.alter: 4,
            self.list_offsets: 8,
            self.delete_records: 0
            if self.waiting
            else 2,  # of which a Fetch that waits hears later (docs/differences.md)
            self.long_pause: 4,
        }

    # What a client does next

    def live(self) -> None:
        one: Client = self.one_of(*self.clients)
        if one.must_begin:
            self._begin(one, self._known(one))
        elif one.transactional_id is None:
            self._write(one, [self._next(one, self.place())], [11, 12])
        elif one.must_abort or (one.is_open and self.is_so(0.35)):
            self._end(one, one.me(), not one.must_abort and self.is_so(0.6), self._ends(one))
        elif self.is_so(0.65):
            place = self.place()
            if one.adds and place not in one.added:
                self._add(one, one.me(), [place], range(4))
            else:
                self._write(one, [self._next(one, place)], [9, 11] if one.adds else [12, 13])
        else:
            group = self.one_of(self.group, self.group, self.other)
            if one.adds and group not in one.added:
                self._add_offsets(one, one.me(), group)
            else:
                known = {"group_id": group, **(self.member() if group == self.group else {})}
                self._commit_in(one, one.me(), known, [3, 4] if one.adds else [5])

    def _known(self, one: Client) -> dict[str, Any]:
        """Return the id and epoch that a producer names which begins again."""
        knows = one.id >= 0 and self.is_so(0.6)
        return {"producer_id": one.id if knows else -1, "producer_epoch": one.epoch if knows else -1}

    def _ends(self, one: Client) -> list[int]:
        return [version for version in self.ends if (version < 5) == one.adds] or [5]

    def member(self) -> dict[str, Any]:
        """Return a member of the group for whom offsets are committed, or none."""
        if not self.members or self.is_so(0.3):
            return {}
        member_id, generation = self.one_of(*self.members)
        return {"member_id": member_id, "generation_id": generation}

    # What any producer may do, now and then as somebody else

    def places(self) -> list[Place]:
        return [(topic, index) for topic, count in self.counts.items() for index in range(count)]

    def place(self) -> Place:
        found: Place = self.one_of(*self.places())
        return found

    def some_places(self, *beyond: int) -> dict[str, list[int]]:
        """Return some partitions by topic, now and then one that does not exist."""
        found: dict[str, list[int]] = {}
        for topic, index in self.some_of([*self.places(), *[(self.topic, one) for one in beyond]], 1):
            found.setdefault(topic, []).append(index)
        return found

    def client(self) -> Client:
        one: Client = self.one_of(*self.clients)
        return one

    def me(self, one: Client) -> dict[str, Any]:
        """Return the identity of a producer, now and then with a field of another one."""
        known = one.me()
        if known["transactional_id"] is None:
            known["transactional_id"] = self.k.name("x")
        other = self.client()
        if self.is_so(0.15):
            known["producer_epoch"] = self.one_of(-1, 0, one.epoch + 1, max(one.epoch - 1, -1), other.epoch, 32_767)
        if self.is_so(0.1):
            known["producer_id"] = self.one_of(-1, other.id, FAR)
        if self.is_so(0.07):
            known["transactional_id"] = self.one_of(
                "", self.k.name("nobody"), other.transactional_id or self.k.name("b")
            )
        return known

    def start(self) -> None:
        one, other = self.client(), self.client()
        known = self._known(one)
        if self.is_so(0.3):
            ids, epochs = (-1, one.id, other.id, FAR), (-1, 0, one.epoch - 1, one.epoch, one.epoch + 1, other.epoch)
            known = {"producer_id": self.one_of(*ids), "producer_epoch": max(self.one_of(*epochs), -1)}
        if self.is_so(0.1):
            known["transaction_timeout_ms"] = self.one_of(0, -1, 900_001, TIMEOUT_MS, FAR_MS)
        if self.is_so(0.05):
            known["transactional_id"] = ""
        self._begin(one, known)

    def _begin(self, one: Client, known: dict[str, Any]) -> None:
        values = {"transactional_id": one.transactional_id, "transaction_timeout_ms": one.timeout_ms, **known}
        self.ask(one.line, "init_producer_id", self.one_of(BEGIN, [4], [5]), one.begun, **values)
        self.settle()

    def add(self) -> None:
        one = self.client()
        self._add(one, self.me(one), self.some_of([*self.places(), *[(self.topic, 9)] * self.is_so(0.3)]), ADD)

    def _add(self, one: Client, me: dict[str, Any], places: list[Place], versions: Collection[int]) -> None:
        topics = [
            {"name": topic, "partitions": [index for name, index in places if name == topic]}
            for topic in dict.fromkeys(topic for topic, _ in places)
        ]
        if self.is_so(0.05):
            topics.append({"name": self.one_of(self.k.name("none"), "__consumer_offsets"), "partitions": [0]})
        old = {f"v3_and_below_{name}": value for name, value in {**me, "topics": topics}.items()}
        transactions = [{**me, "topics": topics, "verify_only": self.is_so(0.3)}]
        other = self.client()
        if other.transactional_id not in (None, me["transactional_id"]) and self.is_so(0.2):
            transactions.append({**other.me(), "topics": topics[:1], "verify_only": True})
        both = {**old, "transactions": transactions}

        def learn(answer: Answer) -> None:
            told = answer.get("results_by_topic_v3_and_below")
            if told is None:
                told = [topic for one in answer.results_by_transaction for topic in one.topic_results]
            errors = [part.partition_error_code for topic in told for part in topic.results_by_partition]
            one.heard(*errors)
            if errors and set(errors) == {"NONE"} and me == one.me():
                one.is_open = True
                one.added |= set(places)

        self.ask(one.line, "add_partitions_to_txn", versions, learn, **both)

    def add_offsets(self) -> None:
        one = self.client()
        self._add_offsets(one, self.me(one), self.one_of(*[self.group] * 6, *[self.other] * 3, ""))

    def _add_offsets(self, one: Client, me: dict[str, Any], group: str) -> None:
        def learn(answer: Answer) -> None:
            one.heard(answer.error_code)
            if answer.error_code == "NONE" and me == one.me():
                one.is_open = True
                one.added.add(group)

        self.ask(one.line, "add_offsets_to_txn", ADD_OFFSETS, learn, **me, group_id=group)

    def _next(self, one: Client, place: Place) -> Batch:
        """Return the next batch for a partition."""
        numbers = {
            "producer_id": one.id,
            "epoch": one.epoch,
            "sequence": one.next.get(place, 0),
            "attributes": TRANSACTIONAL if one.transactional_id else 0,
        }
        return place, numbers, self.one_of(1, 1, 2, 3)

    def write(self) -> None:
        """In any version, of a producer or a sequence that is wrong now and then."""
        one = self.client()
        batches = [self._vary(one, self._next(one, place)) for place in self.some_of(self.places(), 1)]
        self._write(one, batches[: self.one_of(1, 1, 2, 3)], self.one_of(WRITE, [12, 13]))

    def _vary(self, one: Client, known: Batch) -> Batch:
        place, numbers, count = known
        other = self.client()
        if self.is_so(0.35):
            next_one = numbers["sequence"]
            numbers["sequence"] = max(self.one_of(0, next_one + 1, next_one - 1, next_one + 3, 2**31 - 1), 0)
        if self.is_so(0.15):
            numbers["attributes"] ^= TRANSACTIONAL
        if self.is_so(0.2):
            numbers["epoch"] = max(self.one_of(0, one.epoch + 1, one.epoch - 1, other.epoch), 0)
        if not numbers["attributes"]:  # with a later epoch, Kafka refuses the coordinator's own marker, for ever
            numbers["epoch"] = min(numbers["epoch"], one.epoch)
        if self.is_so(0.1) and not numbers["attributes"]:
            numbers |= {"producer_id": other.id, "epoch": other.epoch}
        elif self.is_so(0.1):  # which sequence such a producer began with is not noted here (docs/differences.md)
            numbers |= {"producer_id": FAR, "sequence": 0}
        return place, numbers, count

    def repeat(self) -> None:
        """Write a batch again that was written before, now and then after some others."""
        one = self.client()
        if one.written:
            for _ in range(self.one_of(0, 0, 4, 5)):
                self._write(one, [self._next(one, one.written[-1][0])], [11, 12])
            self._write(one, [self.one_of(*one.written[-7:])], WRITE)

    def _write(self, one: Client, batches: Sequence[Batch], versions: Collection[int]) -> None:
        def learn(answer: Answer) -> None:
            names = {self.k.topic_id(topic): topic for topic in self.counts}
            told = {
                (topic.get("name") or names[topic.topic_id], part.index): part
                for topic in answer.responses
                for part in topic.partition_responses
            }
            one.heard(*(part.error_code for part in told.values()))
            for batch_of in batches:
                place, numbers, count = batch_of
                if told[place].error_code == "NONE":
                    self.end_offset = max(self.end_offset, told[place].base_offset + count)
                    one.written.append(batch_of)
                    if (numbers["producer_id"], numbers["epoch"]) == (one.id, one.epoch):
                        one.next[place] = (numbers["sequence"] + count) % 2**31
                        one.is_open = one.is_open or bool(numbers["attributes"])
                        one.added.add(place)

        parts = [(place, self._records(numbers, count)) for place, numbers, count in batches]
        transactional_id = one.transactional_id
        if self.is_so(0.03):
            transactional_id = self.one_of(None, "", self.k.name("nobody"))
        self._produce(one.line, versions, learn, parts, transactional_id=transactional_id)

    def write_plainly(self) -> None:
        """As a producer that does not count."""
        self._produce(self.k.line("plain"), WRITE, id, [(self.place(), self._records({}, self.one_of(1, 2)))])

    def _records(self, numbers: dict[str, Any], count: int) -> bytes:
        self.now_ms += 1_000
        values = [b"%d" % self.dice.randrange(1_000) for _ in range(count)]
        times = [self.now_ms + n for n in range(count)]
        key = self.one_of(b"k", b"l", None)
        wrong = self.one_of({"crc": 1}, {"count": 9}, {"last_delta": 7}) if self.is_so(0.04) else {}
        return batch(*values, timestamps=times, key=key, codec=self.one_of(0, 0, 0, GZIP), **numbers, **wrong)

    def _produce(
        self, line: Line, versions: Collection[int], learn: Learn, parts: list[tuple[Place, bytes]], **values: Any
    ) -> None:
        data: dict[str, dict[str, Any]] = {}
        for (topic, index), records in parts:
            known = data.setdefault(topic, {**self.names(topic), "partition_data": []})
            known["partition_data"].append({"index": index, "records": records})
        values |= {
            "acks": self.one_of(*[-1] * 20, *[1] * 6, 2),
            "timeout_ms": 10_000,
            "topic_data": list(data.values()),
        }
        self.ask(line, "produce", versions, learn, **values)

    def names(self, topic: str) -> dict[str, Any]:
        """Return what each version calls a topic: by its name, or by its id."""
        return {"name": topic, "topic": topic, "topic_id": self.k.topic_id(topic)}

    def commit_in(self) -> None:
        one, known = self.client(), self.member()
        if self.is_so(0.3):
            known["generation_id"] = self.one_of(-1, 0, 1, 2, 7)
        if self.is_so(0.2):
            known["member_id"] = self.one_of("", "nobody")
        if self.is_so(0.1):
            known["group_instance_id"] = self.one_of("nobody", "i", "")
        if self.is_so(0.05):
            known["group_id"] = self.one_of("", self.k.name("i"))
        elif self.is_so(0.3):
            known["group_id"] = self.other
        self._commit_in(one, self.me(one), known, COMMIT_IN)

    def _commit_in(self, one: Client, me: dict[str, Any], known: dict[str, Any], versions: Collection[int]) -> None:
        values = {**me, "group_id": self.group, **known, "topics": self._commits()}

        def learn(answer: Answer) -> None:
            errors = [part.error_code for topic in answer.topics for part in topic.partitions]
            one.heard(*errors)
            if "NONE" in errors and me == one.me():
                one.is_open = True
                one.added.add(values["group_id"])

        self.ask(one.line, "txn_offset_commit", versions, learn, **values)

    def _commits(self) -> list[dict[str, Any]]:
        def part(index: int) -> dict[str, Any]:
            return {
                "partition_index": index,
                "committed_offset": self.one_of(0, 1, 5, 1 << 40),
                "committed_leader_epoch": self.one_of(-1, 0, 7),
                "committed_metadata": self.one_of("", "text", None, *["x" * 5000] * self.is_so(0.1)),
            }

        topics = [
            {**self.names(topic), "partitions": [part(index) for index in indexes]}
            for topic, indexes in self.some_places(*[9] * self.is_so(0.1)).items()
        ]
        if self.is_so(0.05):
            topics.append({"name": self.k.name("none"), "topic_id": UNKNOWN_ID, "partitions": [part(0)]})
        return topics

    def end(self) -> None:
        """In any version, and now and then as if the answer had not come."""
        one = self.client()
        if one.epoch > 0 and self.is_so(0.3):
            self._end(one, {**one.me(), "producer_epoch": one.epoch - 1}, self.is_so(0.5), [5])
        else:
            self._end(one, self.me(one), self.is_so(0.5), self.ends)

    def _end(self, one: Client, me: dict[str, Any], commits: bool, versions: Collection[int]) -> None:
        learn = one.learn_end if me == one.me() else id
        self.ask(one.line, "end_txn", versions, learn, **me, committed=commits)
        self.settle()

    def settle(self) -> None:
        """Wait until no transaction's markers are still to be written."""
        ids = sorted({one.transactional_id for one in self.clients if one.transactional_id})
        if ids:
            self.k.line("stage").until("transactions", "describe_transactions", 0, is_settled, transactional_ids=ids)

    # What others do

    def mark(self) -> None:
        """End a transaction as an operator who finds it hanging."""
        one = self.client()
        if one.id < 0:
            return
        marker = {
            "producer_id": self.one_of(one.id, one.id, FAR),
            "producer_epoch": self.one_of(one.epoch, one.epoch, max(one.epoch - 1, 0), one.epoch + 1),
            "transaction_result": self.is_so(0.3),
            "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in self.some_places(9).items()],
            "coordinator_epoch": self.one_of(0, -1),  # of a later one the coordinator's own markers would be fenced
            "transaction_version": self.one_of(0, 1, 2),
        }
        if marker["producer_epoch"] > one.epoch:  # its own marker would have an older epoch otherwise, as above
            self.ends = [5]
        self.ask(self.k.line("admin"), "write_txn_markers", MARK, markers=[marker])

    def commit(self) -> None:
        known: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""}
        if self.members and self.is_so(0.7):
            member_id, generation = self.one_of(*self.members)
            known = {"generation_id_or_member_epoch": generation, "member_id": member_id}
        values = {"group_id": self.group, **known, "topics": self._commits(), "retention_time_ms": -1}
        self.ask(self.k.line("m"), "offset_commit", COMMIT, **values)

    def offsets(self) -> None:
        names = [{**self.names(topic), "partition_indexes": indexes} for topic, indexes in self.some_places(9).items()]
        topics = self.one_of(names, names, None)
        one = {"group_id": self.one_of(self.group, self.group, self.other), "topics": topics}
        versions = OFFSETS if topics is not None else range(2, 11)
        groups = [one]
        if self.is_so(0.3):
            groups.append(
                {"group_id": self.k.name("i") if one["group_id"] == self.other else self.other, "topics": None}
            )
        values = {**one, "groups": groups, "require_stable": self.is_so(0.6)}
        self.ask(self.k.line("watch"), "offset_fetch", self.one_of(versions, range(7, 11)), **values)

    def delete_offsets(self) -> None:
        if self.is_so(0.3):
            names = self.one_of([self.group], [self.other], [self.group, self.other])
            self.ask(self.k.line("admin"), "delete_groups", [2], groups_names=names)
        else:
            topics = [
                {"name": topic, "partitions": [{"partition_index": index} for index in indexes]}
                for topic, indexes in self.some_places().items()
            ]
            group = self.one_of(self.group, self.group, self.other)
            self.ask(self.k.line("admin"), "offset_delete", [0], group_id=group, topics=topics)

    def change_members(self) -> None:
        """Let a member join the group, or leave it: a classic one, or one of a consumer group."""
        if self.member_of is not None:
            self.member_of.leave()
            self.member_of = None
            return
        self.joined += 1
        name = f"m{self.joined}"
        instance = self.one_of(None, None, "i")
        if self.is_so(0.5):
            one = Member(self.k, name, instance=instance, session_timeout_ms=FAR_MS)
            if one.join_and_sync(b"all").error_code == "NONE":
                self.member_of = one
                self.members.append((one.member_id, one.generation))
        else:
            other = Modern(self.k, name, instance=instance)
            if other.join(self.topic).error_code == "NONE":
                self.member_of = other
                self.members.append((other.member_id, other.epoch))

    def describe(self) -> None:
        names = [self.k.name(name) for name in ("x", "a", "b")]
        ids = self.one_of(names[:2], names, [*names, self.k.name("nobody")], ["", *names])
        self.ask(self.k.line("watch"), "describe_transactions", [0], transactional_ids=ids)

    def list(self) -> None:
        states = self.one_of([], ["Ongoing"], ["Empty", "CompleteCommit"], ["CompleteAbort", "Nonsense"], ["ongoing"])
        ids = [one.id for one in self.clients if one.id >= 0]
        pattern = self.one_of(None, None, ".*x", ".*b", "x", "", "[")
        self.ask(
            self.k.line("watch"),
            "list_transactions",
            LIST,
            state_filters=states,
            producer_id_filters=self.one_of([], [], self.some_of(ids)),
            duration_filter=self.one_of(-1, -1, TIMEOUT_MS, FAR_MS),
            transactional_id_pattern=pattern,
        )

    def producers(self) -> None:
        found = self.some_places(*[9] * self.is_so(0.1))
        topics = [{"name": topic, "partition_indexes": indexes} for topic, indexes in found.items()]
        if self.is_so(0.1):
            topics.append({"name": self.one_of(self.k.name("none"), "a/b"), "partition_indexes": [0]})
        self.ask(self.k.line("watch"), "describe_producers", [0], topics=topics)

    def fetch(self) -> None:
        level = self.one_of(0, 1, 1)

        def part(index: int) -> dict[str, Any]:
            return {
                "partition": index,
                "fetch_offset": self.one_of(0, self.dice.randint(0, self.end_offset + 1)),
                # Kafka names aborted transactions beyond the records that a limit leaves (docs/differences.md).
                "partition_max_bytes": 1 << 20 if level else self.one_of(1 << 20, 200, 1),
            }

        topics = [
            {**self.names(topic), "partitions": [part(index) for index in indexes]}
            for topic, indexes in self.some_places().items()
        ]
        values = {"max_wait_ms": 0, "max_bytes": 1 << 20, "isolation_level": level}
        self.ask(self.k.line("reader"), "fetch", FETCH, topics=topics, **values)

    def fetch_in_session(self) -> None:
        """Read committed records as a consumer does: all partitions, and then what is new of them."""
        known = self.session
        topics: list[dict[str, Any]] = []
        if not known.id:
            known.version, known.epoch = self.dice.choice(FETCH[3:]), 0
            self.read = dict.fromkeys(self.places(), 0)
        asked = {} if known.id and self.is_so(0.5) else self.read
        for (topic, index), offset in asked.items():
            part = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            topics.append({**self.names(topic), "partitions": [part]})

        def learn(answer: Answer) -> None:
            known.heard(answer)
            names = {self.k.topic_id(topic): topic for topic in self.counts}
            for topic in answer.responses:
                name = topic.get("topic") or names.get(topic.topic_id)
                for part in topic.partitions:
                    if (name, part.partition_index) in self.read and part.error_code == "NONE":
                        self.read[name, part.partition_index] = part.last_stable_offset

        values = {"max_wait_ms": 0, "max_bytes": 1 << 20, "isolation_level": 1, "topics": topics}
        session = {"session_id": known.id, "session_epoch": known.epoch, "forgotten_topics_data": []}
        self.ask(self.k.line("session"), "fetch", [known.version], learn, **values, **session)

    def fetch_late(self) -> None:
        """Of one partition, from where transactions are open, until one of them ends."""
        topic, index = self.place()
        asked = {"partition_index": index, "timestamp": -1}
        values = {"replica_id": -1, "isolation_level": 1, "topics": [{"name": topic, "partitions": [asked]}]}
        found = self.k.line("stage").quietly("list_offsets", 5, **values).topics[0].partitions[0].offset
        parts = [{"partition": index, "fetch_offset": found, "partition_max_bytes": 1 << 20}]
        values = {"max_wait_ms": 60_000, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 1}
        topics = [{**self.names(topic), "partitions": parts}]
        self.ask_what_may_wait(self.free_line("late"), "fetch", FETCH, topics=topics, **values)

    def list_offsets(self) -> None:
        times = [-1, -1, -2, self.now_ms - self.one_of(-500, 500, 2_500, 9_500, 90_500)]
        if not self.are_deleted:  # where all are, Kafka still finds the greatest time (docs/differences.md)
            times.append(-3)
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": index, "timestamp": self.one_of(*times)} for index in indexes],
            }
            for topic, indexes in self.some_places().items()
        ]
        values = {"replica_id": -1, "isolation_level": self.one_of(0, 1, 1)}
        self.ask(self.k.line("reader"), "list_offsets", LIST_OFFSETS, topics=topics, **values)

    def delete_records(self) -> None:
        self.are_deleted = True
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": index, "offset": self.one_of(-1, self.dice.randint(0, self.end_offset + 1))}
                    for index in indexes
                ],
            }
            for topic, indexes in self.some_places().items()
        ]
        self.ask(self.k.line("admin"), "delete_records", DELETE, topics=topics, timeout_ms=10_000)

    def renew(self) -> None:
        """Delete a topic, and make it anew; but none for which a Fetch waits, which hears another sort of nothing."""
        if self.waiting:
            return
        topic = self.one_of(*sorted(self.counts))
        self.session = Session()  # in an old one the id is UNKNOWN_TOPIC_ID, in Kafka INCONSISTENT_TOPIC_ID
        self.k.delete_topic(topic)
        self.k.events.append({"made anew": topic.removeprefix(self.k.prefix)})
        self.counts[topic] = self.dice.randint(1, 2)
        self._create(topic.removeprefix(self.k.prefix), self.counts[topic])

    def alter(self) -> None:
        """Change a setting of a topic, also while a transaction is open in it."""
        topic = self.one_of(*sorted(self.counts))
        key, value = self.one_of(
            ("message.timestamp.type", "LogAppendTime"),
            ("message.timestamp.type", "CreateTime"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "delete"),
            ("max.message.bytes", "90"),
            ("max.message.bytes", "1048588"),
        )
        self.set_config(topic, key, value)

    def grow(self) -> None:
        topic = self.one_of(*sorted(self.counts))
        if self.counts[topic] < MORE:
            self.counts[topic] += 1
            self.k.grow_topic(topic, self.counts[topic])
            self.k.pump.run(self.k.settle_ms)

    def long_pause(self) -> None:
        self.pause(PAUSE_MS)
        self.settle()


def is_settled(answer: Answer) -> bool:
    return not any(one.transaction_state.startswith("Prepare") for one in answer.transaction_states)
