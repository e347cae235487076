"""What a story stands on: named connections, waits with bounds, and the transcript that is written while it plays.

A line of a transcript is one event, in the order of the story, so it is the same in each run:

    {"on": "a", "ask": "heartbeat", "v": 4, "n": 3, "with": {...}}            request n leaves on connection a
    {"on": "a", "answer": "heartbeat", "n": 3, "after": 0.0, "is": {...}}     its answer, and the seconds it took
    {"on": "a", "silent": "join_group", "n": 2, "for": 0.3}                   it was not answered in that time
    {"on": "a", "closed": "heartbeat", "n": 3}                                the connection was closed instead
    {"on": "a", "ends": true}                                                 the connection was closed
    {"pause": 0.5}                                                            the story let time pass
    {"restart": "g"}                                                          the broker was stopped and started, and has loaded g
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.conformance import wire
from tests.conformance.client import Flight, Lost, Pump, Wire
from tests.conformance.normal import Normal

PATIENCE_MS = 15_000  # longer than any answer may take that a story waits for
GROUP = 32  # the config resource type of a group
Event = dict[str, Any]


class Answer(dict[str, Any]):
    """The values of an answer, to be read as attributes: `answer.members[0].member_id`."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__({name: to_answers(value) for name, value in values.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def to_answers(value: Any) -> Any:
    """The same with every struct an Answer."""
    if isinstance(value, dict):
        return Answer(value)
    return [to_answers(one) for one in value] if isinstance(value, list) else value


class Pending:
    """A request that was sent and whose answer is still to be read."""

    def __init__(self, line: "Line", flight: Flight, number: int, mine: str | None) -> None:
        self.line, self.flight, self.number, self.mine = line, flight, number, mine

    def answer(self, within_ms: float = PATIENCE_MS, *, is_timed: bool = True) -> Answer:
        """Wait for the answer and write it down, with the time it took unless that is Kafka's own matter."""
        values = self.line.arrive(self.flight, within_ms)
        self.line.stage.write(
            on=self.line.name,
            answer=self.flight.api,
            n=self.number,
            after=round(self.flight.waited_s, 1) if is_timed else 0.0,
            values=values,
            mine=self.mine,
        )
        return Answer(values)

    def silent(self, for_ms: float = 300) -> None:
        """Write down whether nothing came for that long. The request stays on its way."""
        if self.line.stage.pump.run(for_ms, self.flight):
            self.answer()
        else:
            self.line.stage.events.append(
                {"on": self.line.name, "silent": self.flight.api, "n": self.number, "for": for_ms / 1000}
            )

    def closed(self, within_ms: float = 3_000) -> None:
        """Write down that the connection was closed in place of an answer, or the answer that came."""
        stage = self.line.stage
        stage.pump.run(within_ms, self.line.wire)
        if self.flight.arrived_at is not None:
            self.answer()
        else:
            kind = "closed" if self.line.wire.is_closed else "silent"
            stage.events.append({"on": self.line.name, kind: self.flight.api, "n": self.number})


class Line:
    """One named connection of a story. What is asked and answered on it goes to the transcript."""

    def __init__(self, stage: "Stage", name: str, client_id: str | None, user: str | None = None) -> None:
        self.stage, self.name = stage, name
        self.wire = Wire(stage.pump, client_id, user)

    def send(self, api: str, version: int, *, mine: str | None = None, **values: wire.Plain) -> Pending:
        """Ask, and do not wait. `mine` ("groups.group_id") keeps only the entries of this story in the answer."""
        number = self.stage.ask(self.name, api, version, values)
        return Pending(self, self.wire.send(api, version, values), number, mine)

    def call(self, api: str, version: int, *, mine: str | None = None, **values: wire.Plain) -> Answer:
        """Ask and wait for the answer."""
        return self.send(api, version, mine=mine, **values).answer()

    def send_bytes(self, api: str, version: int, frame: bytes, what: str) -> Pending:
        """Send bytes that are no proper request; `what` says in the transcript what is wrong with them."""
        number = self.stage.ask(self.name, api, version, {"bytes": what})
        return Pending(self, self.wire.send_bytes(api, version, frame), number, None)

    def eventually(
        self,
        api: str,
        version: int,
        is_so: Callable[[Answer], bool],
        *,
        within_ms: float = 10_000,
        is_timed: bool = True,
        **values: wire.Plain,
    ) -> Answer:
        """Ask again and again until the answer is so; only the last one is written down, with the time it took unless
        that is Kafka's own matter."""
        started = self.stage.pump.now_s()
        mine = values.pop("mine", None)
        while True:
            flight = self.wire.send(api, version, values)
            found = self.arrive(flight, PATIENCE_MS)
            waited = self.stage.pump.now_s() - started
            if is_so(Answer(found)) or waited * 1000 > within_ms:
                break
            self.stage.pump.run(25)
        number = self.stage.ask(self.name, api, version, values)
        after = round(waited, 1) if is_timed else 0.0
        self.stage.write(on=self.name, answer=api, n=number, after=after, values=found, mine=mine)
        return Answer(found)

    def await_group(self, group: str, state: str, version: int = 5) -> None:
        """Describe the group until it has this state or error; only that answer is written down."""
        self.eventually(
            "describe_groups",
            version,
            lambda answer: state in (answer.groups[0].group_state, answer.groups[0].error_code),
            groups=[group],
        )

    def quietly(self, api: str, version: int, **values: wire.Plain) -> Answer:
        """Ask and wait, and write nothing down: stage setting."""
        return Answer(self.arrive(self.wire.send(api, version, values), PATIENCE_MS))

    def until(self, what: str, api: str, version: int, is_so: Callable[[Answer], Any], **values: wire.Plain) -> Answer:
        """Ask until the answer is so, and write nothing down: stage setting. Raises Lost if that does not come."""
        for _ in range(600):
            if is_so(found := self.quietly(api, version, **values)):
                return found
            self.stage.pump.run(25)
        raise Lost(f"{what} never was as it should be")

    def arrive(self, flight: Flight, within_ms: float) -> dict[str, wire.Plain]:
        """The values that come back. Raises Lost if none do."""
        self.stage.pump.run(within_ms, flight)
        if flight.frame is None:
            raise Lost(
                f"{self.name}: {flight.api} v{flight.version}: " + ("closed" if self.wire.is_closed else "no answer")
            )
        return wire.response_values(flight.api, flight.version, flight.frame)

    def ends(self, within_ms: float = 3_000) -> None:
        """Write down whether the connection is closed by then."""
        self.stage.events.append({"on": self.name, "ends": self.stage.pump.run(within_ms, self.wire)})

    def close(self) -> None:
        """Hang up, as a client that dies does."""
        self.wire.close()
        self.stage.events.append({"on": self.name, "hangs": "up"})

    def reconnect(self) -> None:
        """Connect again, after the broker has gone."""
        self.wire.close()
        self.wire = Wire(self.stage.pump, self.wire.client_id)


class Stage:
    """One run of one story against one broker."""

    def __init__(self, name: str, pump: Pump, settle_ms: int) -> None:
        self.settle_ms = settle_ms
        self.prefix = prefix_of(name)
        self.pump = pump
        self.events: list[Event] = []
        self.normal = Normal(self.prefix, pump.port, pump.users_port)
        self.asked = 0
        self.lines: dict[str, Line] = {}
        self.topic_ids: dict[str, str] = {}

    def line(self, name: str, client_id: str | None = "", user: str | None = None) -> Line:
        """The connection of that name, made when first asked for. Its client id is the name unless told."""
        if name not in self.lines or self.lines[name].wire.is_closed:
            self.lines[name] = Line(self, name, name if client_id == "" else client_id, user)
        return self.lines[name]

    def user(self, short: str = "alice") -> Line:
        """The connection of a user of this story, who has no rights but those that the story gives."""
        return self.line(short, user=self.name(short))

    def stranger(self, short: str = "a") -> Line:
        """A connection to the listener of users that is not authenticated."""
        return self.line(short, user="")

    def name(self, short: str) -> str:
        """A name for a group, topic or transactional id that no other story uses; the transcript shows `short`."""
        return self.prefix + short

    def topic(self, short: str = "t", partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic, wait until the broker shows it, and return its name. Stage setting: not in the transcript."""
        name = self.name(short)
        given = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": given,
        }
        self.line("stage").quietly("create_topics", 7, timeout_ms=10_000, topics=[topic])
        self.await_topic(name, lambda topic: len(topic.partitions) == partitions and ready(topic))
        self.pump.run(self.settle_ms)
        return name

    def await_topic(self, name: str, is_so: Callable[[Answer], bool]) -> Answer:
        """Ask for the topic's metadata until it is so; learns its id."""
        wanted = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        answer = self.line("stage").until(name, "metadata", 12, lambda answer: is_so(answer.topics[0]), **wanted)
        found: Answer = answer.topics[0]
        if found.topic_id:
            self.topic_ids[name] = found.topic_id
            self.normal.knows(found.topic_id, f"<id of {name.removeprefix(self.prefix)}>")
        return found

    def grow_topic(self, name: str, partitions: int) -> None:
        """Add partitions and wait until the broker shows them. Stage setting."""
        grown = {"name": name, "count": partitions, "assignments": None}
        self.line("stage").quietly("create_partitions", 3, topics=[grown], timeout_ms=10_000)
        self.await_topic(name, lambda topic: len(topic.partitions) == partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker has forgotten it. Stage setting."""
        self.line("stage").quietly("delete_topics", 6, topics=[{"name": name}], timeout_ms=10_000)
        self.await_topic(name, lambda topic: topic.error_code == "UNKNOWN_TOPIC_OR_PARTITION")

    def group_config(self, group: str, **values: str | int) -> None:
        """Set configs of a group (`consumer_session_timeout_ms=1000`) and wait until they are shown. Stage setting."""
        wanted = {name.replace("_", "."): str(value) for name, value in values.items()}
        changes = [{"name": name, "config_operation": 0, "value": value} for name, value in wanted.items()]
        resource = {"resource_type": GROUP, "resource_name": group}
        line = self.line("stage")
        line.quietly("incremental_alter_configs", 1, resources=[{**resource, "configs": changes}])

        def is_set(answer: Answer) -> bool:
            return {one.name: one.value for one in answer.results[0].configs} == wanted

        line.until(group, "describe_configs", 4, is_set, resources=[{**resource, "configuration_keys": list(wanted)}])

    def topic_id(self, name: str) -> str:
        return self.topic_ids[name]

    def pause(self, ms: float) -> None:
        """Let time pass. Answers that come meanwhile are stamped when they do."""
        self.pump.run(ms)
        self.events.append({"pause": ms / 1000})

    def restart(self, group: str) -> None:
        """Stop the broker and start it on the same files; wait until it coordinates the group. All reconnect."""
        for line in self.lines.values():
            line.wire.close()
        self.pump.restart()
        for line in self.lines.values():
            line.reconnect()
        watch = self.line("stage")
        watch.until(group, "find_coordinator", 2, is_success, key=group, key_type=0)
        watch.until(group, "offset_fetch", 5, is_success, group_id=group, topics=[])
        self.events.append({"restart": group.removeprefix(self.prefix)})

    def ask(self, on: str, api: str, version: int, values: dict[str, wire.Plain]) -> int:
        self.asked += 1
        self.events.append({"on": on, "ask": api, "v": version, "n": self.asked, "with": self.normal.values(values)})
        return self.asked

    def write(
        self, *, on: str, answer: str, n: int, after: float, values: dict[str, wire.Plain], mine: str | None
    ) -> None:
        shown = {key: value for key, value in values.items() if key != "throttle_time_ms" or value}
        if mine:
            listed, key = mine.split(".")
            shown[listed] = [one for one in shown[listed] if (one[key] or "").startswith(self.prefix)]
        self.events.append(
            {"on": on, "answer": answer, "n": n, "after": after, "is": self.normal.values(shown, answer)}
        )


def prefix_of(story: str) -> str:
    """What all names of a story begin with, so that no other story uses them."""
    return f"{story.replace('_', '-')}--"


def is_success(answer: Answer) -> bool:
    return bool(answer.error_code == "NONE")


def ready(topic: Answer) -> bool:
    return topic.error_code == "NONE" and all(
        one.error_code == "NONE" and one.leader_id >= 0 for one in topic.partitions
    )


@contextlib.contextmanager
def stage(name: str, pump: Pump, settle_ms: int = 0) -> Iterator[Stage]:
    """A stage whose connections are closed when the story is over.

    `settle_ms` is waited after a topic was made: Kafka's group coordinator hears of it later than Metadata shows it.
    """
    one = Stage(name, pump, settle_ms)
    try:
        yield one
    finally:
        one.pump.close()
