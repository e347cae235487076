"""Records: Produce and what it refuses, Fetch with sessions and limits, offsets by time, and topics that change meanwhile."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.batches import BY_BROKER, CODECS, CONTROL, T0, batch
from tests.conformance.drawn.play import Play, versions_of
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.stage import Answer

WRITE, FETCH = versions_of("produce", 3, 13), versions_of("fetch", 4, 18)
LIST_OFFSETS, DELETE = versions_of("list_offsets", 1, 11), versions_of("delete_records", 0, 2)
EPOCHS = versions_of("offset_for_leader_epoch", 2, 4)
SESSIONS_SINCE, BY_ID_SINCE = 7, 13
HOUR_MS = 3_600_000
FUTURE_MS = 4_000_000_000_000
CONFIGS: list[dict[str, str]] = [
    {},
    {},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact,delete"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.before.max.ms": str(HOUR_MS)},
    {"message.timestamp.after.max.ms": "1000"},
    {"max.message.bytes": "150"},
    {"min.insync.replicas": "2"},
    {"cleanup.policy": ""},
    {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"},
    {"message.timestamp.before.max.ms": "0", "message.timestamp.after.max.ms": "0"},
]
MORE = 4  # than which no topic grows


class Session:
    """A fetch session as its client knows it."""

    def __init__(self) -> None:
        self.id, self.epoch = 0, 0
        self.version = 0
        self.is_asked = False  # whether it waits for an answer

    def heard(self, answer: Answer) -> None:
        self.is_asked = False
        if answer.error_code in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH") or not answer.session_id:
            self.id = self.epoch = 0
        else:
            self.id, self.epoch = answer.session_id, self.epoch + 1


class Records(Play):
    """Topics of some settings, two partitions each, who writes to them and who reads them."""

    def begin(self) -> None:
        self.now_ms = int(time.time() * 1000) - 120_000
        self.configs: dict[str, dict[str, str]] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.counts: dict[str, int] = {}
        self.are_deleted = False
        self._forget_sessions()
        self.count = 0
        for short in "tu":
            self._create(short, self.one_of(*CONFIGS))

    def _create(self, short: str, configs: dict[str, str]) -> None:
        topic = self.k.topic(short, 2, configs)
        self.configs[topic], self.counts[topic] = dict(configs), 2

    def _forget_sessions(self) -> None:
        self.sessions = [Session(), Session()]

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.write: 60,
            self.write_broken: 14,
            self.write_quietly: 4,
            self.fetch: 40,
            self.fetch_in_session: 30,
            self.fetch_late: 6,
            self.fetch_late_in_session: 6,
            self.fetch_much: 2,
            self.list_offsets: 20,
            self.delete_records: 5,
            self.epochs: 5,
            self.alter: 5,
            self.grow: 2,
            self.renew: 2,
        }

    def topic(self) -> str:
        return str(self.one_of(*sorted(self.configs)))

    def end(self, topic: str, index: int) -> int:
        return self.ends.get((topic, index), 0)

    def names(self, topic: str) -> dict[str, Any]:
        """Return what each version calls a topic: by its name, or by its id."""
        return {"name": topic, "topic": topic, "topic_id": self.k.topic_ids.get(topic, UNKNOWN_ID)}

    # Records in

    def write(self) -> None:
        """Sound batches, though not each of them fits its topic."""
        self._write([self._data(self.topic()) for _ in range(self.one_of(1, 1, 1, 2))])

    def _data(self, topic: str, **wrong: Any) -> dict[str, Any]:
        index = self.index(topic)
        return {**self.names(topic), "partition_data": [{"index": index, "records": self._batch(topic, **wrong)}]}

    def index(self, topic: str) -> int:
        return self.dice.randrange(self.counts[topic])

    def _times(self, topic: str, count: int) -> list[int]:
        """Times of one kind for each topic: of others years later Kafka would begin another segment."""
        self.count += 1
        is_now = {"message.timestamp.type", "message.timestamp.before.max.ms"}.intersection(self.configs[topic])
        base = (self.now_ms if is_now else T0) + 1_000 * self.one_of(self.count, self.count, 1)
        times = [base + 10 * n for n in range(count)]
        if self.is_so(0.1):
            times.reverse()
        if (is_now and self.is_so(0.15)) or self.is_so(0.04):
            times[-1] = self.one_of(T0, FUTURE_MS) if is_now else FUTURE_MS
        return times

    def _batch(self, topic: str, **wrong: Any) -> bytes:
        count = self.one_of(1, 1, 2, 3)
        values: list[bytes | None] = [
            b"%d" % self.dice.randrange(1_000) * self.one_of(1, 1, 1, 40) for _ in range(count)
        ]
        if self.is_so(0.1):
            values[-1] = self.one_of(None, b"")
        is_compacted = "compact" in self.configs[topic].get("cleanup.policy", "")
        key = self.one_of(b"k", b"l") if self.is_so(0.9 if is_compacted else 0.3) else None
        codec = self.one_of(0, 0, 0, 0, *CODECS)
        fields: dict[str, Any] = {"timestamps": self._times(topic, count), "key": key, "codec": codec}
        return batch(*values, **{**fields, **wrong, **({"codec": 0} if wrong else {})})

    def write_broken(self) -> None:
        """Batches that are none, or none that a client may write."""
        topic = self.topic()
        wrong = self.one_of(
            {"crc": 1},
            {"count": 9},
            {"count": 0},
            {"count": -1},
            {"last_delta": 5},
            {"last_delta": -1},
            {"base_offset": 5},
            {"attributes": CONTROL},
            {"attributes": BY_BROKER},
            {"attributes": 2},
            {"attributes": 4},
            {"producer_id": 5, "epoch": 0},
            {"producer_id": -2, "sequence": 3},
        )
        data = self._data(topic, **wrong)
        part = data["partition_data"][0]
        if self.is_so(0.3):
            whole = batch(b"whole", b"more")
            part["records"] = self.one_of(
                *(batch(b"x", magic=magic) for magic in (0, 1, 3)),
                b"",
                whole[:-3],
                whole[:30],
                whole[:70],
                b"\0" * 80,
                whole + whole,
                whole + b"\1",
            )
        self._write([data], is_alone=True)  # if one batch cannot be told from noise, Kafka refuses all of its request

    def _write(self, data: list[dict[str, Any]], *, is_alone: bool = False) -> None:
        """To partitions of which each is there once: of two, Kafka takes the later."""
        if self.is_so(0.05) and not is_alone:
            data.append({**self.names(self.k.name("none")), "partition_data": [{"index": 0, "records": batch(b"x")}]})
        if self.is_so(0.05) and not is_alone:
            data[0]["partition_data"].append({"index": 9, "records": batch(b"x")})
        merged: dict[str, dict[str, Any]] = {}
        for one in data:
            known = merged.setdefault(one["name"], {**one, "partition_data": []})["partition_data"]
            known += [part for part in one["partition_data"] if part["index"] not in [each["index"] for each in known]]
        version = self.dice.choice(WRITE)

        def learn(answer: Answer) -> None:
            for topic in answer.responses:
                name = topic.get("name") or next(
                    name for name, known in self.k.topic_ids.items() if known == topic.topic_id
                )
                for part in topic.partition_responses:
                    if part.error_code == "NONE":
                        self.ends[name, part.index] = part.base_offset + 1

        values = {"acks": self.one_of(-1, -1, -1, 1, 1, *[2] * self.is_so(0.1)), "timeout_ms": 10_000}
        if version >= BY_ID_SINCE and UNKNOWN_ID in [one["topic_id"] for one in merged.values()]:
            learn = id  # type: ignore[assignment]  # no topic has that id
        self.ask(self.k.line("p"), "produce", [version], learn, **values, topic_data=list(merged.values()))

    def write_quietly(self) -> None:
        """Without an acknowledgement: the next request is answered."""
        line = self.k.line("quiet")
        topic = self.topic()
        wrong = {"crc": 1} if self.is_so(0.3) else {}
        data = [{"name": topic, "partition_data": self._data(topic, **wrong)["partition_data"]}]
        line.wire.send("produce", 9, {"acks": 0, "timeout_ms": 1_000, "topic_data": data})
        line.wire.flights.pop()
        line.send("heartbeat", 0, group_id=self.k.name("none"), member_id="m").closed()

    # Records out

    def _make_part(self, topic: str, index: int) -> dict[str, Any]:
        end = self.end(topic, index)
        return {
            "partition": index,
            "fetch_offset": self.one_of(0, end, self.dice.randint(0, end + 2), *[-1] * self.is_so(0.05)),
            "partition_max_bytes": self.one_of(1 << 20, 1 << 20, 250, 120, 1),
            "current_leader_epoch": self.one_of(-1, -1, -1, 0, *[5] * self.is_so(0.2)),
            "last_fetched_epoch": self.one_of(-1, -1, -1, 0, *[3] * self.is_so(0.2)),
        }

    def _topics(self, least: int = 1) -> list[dict[str, Any]]:
        topics = []
        for topic in self.some_of(sorted(self.configs), least):
            indexes = self.some_of((*range(self.counts[topic]), *[9] * self.is_so(0.05)), 1)
            if self.is_so(0.05):
                indexes.append(indexes[0])
            topics.append({**self.names(topic), "partitions": [self._make_part(topic, index) for index in indexes]})
        if self.is_so(0.05):
            topics.append({**self.names(self.k.name("none")), "partitions": [self._make_part("none", 0)]})
        return topics

    def fetch(self) -> None:
        topics, bounds = self._topics(), [1 << 20, 1 << 20, 1, *[0] * self.is_so(0.2)]  # below 0 Kafka fails
        level = self.one_of(0, 0, 1)
        if level:  # Kafka names no aborted transactions where a limit leaves no batch (docs/differences.md)
            bounds = [1 << 20]
        for part in [part for topic in topics for part in topic["partitions"]]:
            part["partition_max_bytes"] = (
                self.one_of(*bounds) if level or self.is_so(0.1) else part["partition_max_bytes"]
            )
        values = {
            "max_wait_ms": self.one_of(0, 0, 0, -1),
            "min_bytes": self.one_of(0, 1, *[-1] * self.is_so(0.1)),
            "max_bytes": self.one_of(*bounds),
            "isolation_level": level,
            "rack_id": self.one_of("", "", "r"),
        }
        self.ask(self.k.line("reader"), "fetch", FETCH, topics=topics, **values)

    def fetch_much(self) -> None:
        """Wait for more than there is: what there is comes when the wait is over."""
        values = {"max_wait_ms": 100, "min_bytes": self.one_of(2_000, 1 << 19), "max_bytes": 1 << 20}
        self.ask(self.k.line("reader"), "fetch", FETCH, topics=self._topics(), **values)

    def fetch_in_session(self) -> None:
        """Open a session, go on in it with or without changes, or close it."""
        known: Session = self.one_of(*[one for one in self.sessions if not one.is_asked] or [Session()])
        values = self._go_on(known)
        # of a batch that is cut Kafka counts what it sends
        values |= {"max_wait_ms": 0, "max_bytes": self.one_of(1 << 20, 1 << 20, 1)}
        line = self.k.line(self.one_of("session", "session", "other"))
        self.ask(line, "fetch", [values.pop("version")], known.heard, **values)

    def fetch_late_in_session(self) -> None:
        """Go on in a session, and wait for what comes."""
        if known := [one for one in self.sessions if one.id and not one.is_asked]:
            session: Session = self.one_of(*known)
            values = {**self._go_on(session), "max_wait_ms": 60_000, "min_bytes": 1, "max_bytes": 1 << 20}
            session.is_asked = True
            self.ask_what_may_wait(self.free_line("late"), "fetch", [values.pop("version")], session.heard, **values)

    def _go_on(self, known: Session) -> dict[str, Any]:
        """Return what a fetch in a session asks for, and in which version."""
        if not known.id or self.is_so(0.1):
            known.version, known.epoch = self.dice.choice(range(SESSIONS_SINCE, 19)), 0
            topics = self._topics()
            if self.is_so(0.8):
                known.id = 0
        else:
            topics = self._topics(0) if self.is_so(0.5) else []
        epoch = known.epoch
        if known.id and self.is_so(0.06):
            epoch = self.one_of(-1, epoch + 1, max(epoch - 1, 1))
        version = known.version
        if self.is_so(0.03):  # by names and by ids
            version = 12 if version >= BY_ID_SINCE else BY_ID_SINCE
        forgotten = [
            {**self.names(topic), "partitions": self.some_of((0, 1), 1)}
            for topic in (self.some_of(sorted(self.configs), 1) if known.id and epoch > 0 and self.is_so(0.2) else ())
        ]
        return {
            "version": version,
            "session_id": known.id,
            "session_epoch": epoch,
            "topics": topics,
            "forgotten_topics_data": forgotten,
        }

    def fetch_late(self) -> None:
        """At the end of a partition, where the next records come."""
        topic = self.topic()
        index = self.index(topic)
        part = {**self._make_part(topic, index), "fetch_offset": self.end(topic, index), "last_fetched_epoch": -1}
        topics = [{**self.names(topic), "partitions": [part]}]
        values = {"max_wait_ms": 60_000, "min_bytes": 1, "max_bytes": 1 << 20}
        self.ask_what_may_wait(self.free_line("late"), "fetch", FETCH, topics=topics, **values)

    def list_offsets(self) -> None:
        topics = []
        for topic in self.some_of(sorted(self.configs), 1):
            base = self.one_of(T0, self.now_ms)
            times = [-1, -2, -4, -5, -6, -7, *[base + 1_000 * self.dice.randint(0, self.count + 1) + 5] * 4, 0, 2**62]
            if not self.are_deleted:  # where all are, Kafka still finds the greatest time (docs/differences.md)
                times += [-3, -3]
            parts = [
                {
                    "partition_index": index,
                    "timestamp": self.one_of(*times),
                    "current_leader_epoch": self.one_of(-1, -1, 0, *[5] * self.is_so(0.2)),
                }
                for index in self.some_of((*range(self.counts[topic]), *[9] * self.is_so(0.05)), 1)
            ]
            if self.is_so(0.05):
                parts.append({**parts[0], "timestamp": self.one_of(*times)})
            topics.append({"name": topic, "partitions": parts})
        if self.is_so(0.05):
            name = self.one_of(self.k.name("none"), topics[0]["name"])
            topics.append({"name": name, "partitions": [{"partition_index": 0, "timestamp": self.one_of(-1, -8)}]})
        values = {"replica_id": self.one_of(-1, -1, -1, -2), "isolation_level": self.one_of(0, 1)}
        self.ask(self.k.line("reader"), "list_offsets", LIST_OFFSETS, topics=topics, **values)

    # What changes meanwhile

    def delete_records(self) -> None:
        self.are_deleted = True
        topics = []
        for topic in self.some_of(sorted(self.configs), 1):
            parts = [
                {
                    "partition_index": index,
                    "offset": self.one_of(-1, -2, self.dice.randint(0, self.end(topic, index) + 1)),
                }
                for index in self.some_of((*range(self.counts[topic]), *[9] * self.is_so(0.05)), 1)
            ]
            topics.append({"name": topic, "partitions": parts})
        if self.is_so(0.1):
            topics.append({"name": self.k.name("none"), "partitions": [{"partition_index": 0, "offset": 0}]})
        self.ask(self.k.line("admin"), "delete_records", DELETE, topics=topics, timeout_ms=10_000)

    def epochs(self) -> None:
        parts = [
            {
                "partition": index,
                "leader_epoch": self.one_of(0, 0, -1, 3),
                "current_leader_epoch": self.one_of(-1, 0, 5),
            }
            for index in self.some_of((0, 1, 9), 1)
        ]
        topics = [{"topic": self.topic(), "partitions": parts}]
        if self.is_so(0.2):
            topics.append({"topic": self.k.name("none"), "partitions": parts[:1]})
        replica_id = self.one_of(-1, -1, -2)
        self.ask(self.k.line("reader"), "offset_for_leader_epoch", EPOCHS, replica_id=replica_id, topics=topics)

    def alter(self) -> None:
        """Change a setting, but none by which times of another kind would be taken."""
        topic = self.topic()
        key, value = self.one_of(
            ("max.message.bytes", "150"),
            ("max.message.bytes", "1048588"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "delete"),
            ("cleanup.policy", ""),
            ("min.insync.replicas", "2"),
            ("message.timestamp.after.max.ms", "1000"),
            ("message.timestamp.type", "LogAppendTime"),
        )
        self.configs[topic][key] = value
        self.set_config(topic, key, value)

    def grow(self) -> None:
        topic = self.topic()
        if self.counts[topic] < MORE:
            self.counts[topic] += 1
            self.k.grow_topic(topic, self.counts[topic])
            self.k.pump.run(self.k.settle_ms)

    def renew(self) -> None:
        """Delete a topic, and make it anew; but none for which a Fetch waits, which hears another sort of nothing."""
        if self.waiting:
            return
        self._forget_sessions()  # in an old one the id is UNKNOWN_TOPIC_ID, in Kafka INCONSISTENT_TOPIC_ID
        short = self.one_of("t", "u")
        topic = self.k.name(short)
        self.k.delete_topic(topic)
        self.ends = {key: end for key, end in self.ends.items() if key[0] != topic}
        self._create(short, self.one_of(*CONFIGS))
