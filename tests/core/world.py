"""A shard with a clock that is moved by hand, a log in memory, and commands to speak to it in words.

`COMMANDS` holds what a script may say: `name word... key=value...`. Other files add theirs with `@command("name")`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from coordinator.core import records
from coordinator.core.limits import Limits
from coordinator.core.records import Record
from coordinator.core.result import Call, Reply, Result
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from tests.core import durable, rendering

START_MS = 1_700_000_000_000

Command = Callable[["World", "Words"], list[str] | None]
COMMANDS: dict[str, Command] = {}


def command(*names: str) -> Callable[[Command], Command]:
    """Give a function to scripts under these names."""

    def register(function: Command) -> Command:
        COMMANDS.update(dict.fromkeys(names, function))
        return function

    return register


class Words:
    """What follows a command's name: plain words, and keys with values. What is never asked for is a mistake."""

    def __init__(self, words: list[str]) -> None:
        self.plain = [word for word in words if "=" not in word]
        self._keyed = dict(word.split("=", 1) for word in words if "=" in word)
        self._unused = set(self._keyed)

    def text(self, key: str, default: str = "") -> str:
        self._unused.discard(key)
        return self._keyed.get(key, default)

    def maybe(self, key: str) -> str | None:
        """None when the script does not say, or says null."""
        self._unused.discard(key)
        value = self._keyed.get(key)
        return None if value == "null" else value

    def number(self, key: str, default: int) -> int:
        return int(self.text(key, str(default)))

    def ms(self, key: str, default: str) -> int:
        return milliseconds(self.text(key, default))

    def list(self, key: str, default: str = "") -> list[str]:
        return [word for word in self.text(key, default).split(",") if word]

    def rest(self) -> dict[str, str]:
        """The keys that nobody has asked for yet."""
        rest = {key: self._keyed[key] for key in self._unused}
        self._unused.clear()
        return rest

    def check(self) -> None:
        assert not self._unused, f"nobody knows {sorted(self._unused)}"


def milliseconds(text: str) -> int:
    """`10s`, `5m`, `3h`, `7d`, `250ms`."""
    for unit, factor in (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)):
        if text.endswith(unit) and text[: -len(unit)].lstrip("-").isdigit():
            return int(text[: -len(unit)]) * factor
    return int(text)


def topic_id(name: str) -> bytes:
    """A topic's id in scripts: its name, filled up."""
    return name.encode().ljust(16, b".")[:16]


class World:
    """The shard, its clock, its log, and who waits for what."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.topics = Topics(Topic(name, topic_id(name), 3) for name in ("t", "u"))
        self.shard = Shard(0, self.limits, self.topics)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None, int] | tuple[int, bool]] = []  # records, and markers
        self.waiting: dict[int, str] = {}  # ticket -> who
        self._tickets = 0
        self._ids = 0

    def run(self, line: str) -> list[str]:
        """Run one command; what happened, in lines."""
        name, *rest = line.split()
        words = Words(rest)
        lines = COMMANDS[name](self, words) or []
        words.check()
        return lines

    def fresh_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def call(self, words: Words, version: int) -> Call:
        """The call of a command: `client=`, `v=` and `host=` are its words."""
        self._tickets += 1
        client = words.text("client", "c")
        return Call(
            ticket=self._tickets,
            now_ms=self.now_ms,
            version=words.number("v", version),
            client_id=None if client == "null" else client,
            client_host=words.text("host", "/127.0.0.1"),
            fresh_id=self.fresh_id,
        )

    def ask(self, words: Words, version: int, request: Any) -> list[str]:
        """Hand a request to the shard; what it answers and what else it does."""
        call = self.call(words, version)
        who = words.text("as", words.text("client", "c"))
        return self.observed(lambda: self._asked(request, call, who))

    def _asked(self, request: Any, call: Call, who: str) -> list[str]:
        result = self.shard.handle(request, call)
        lines = self.taken(result)
        if result.response is not None:
            lines.append(f"{who} <- {rendering.response(result.response)}")
        elif not any(type(effect) is Reply and effect.ticket == call.ticket for effect in result.effects):
            self.waiting[call.ticket] = who
            lines.insert(len(result.events), f"{who} waits")
        else:
            lines = [line.replace(f"#{call.ticket} <-", f"{who} <-") for line in lines]
        return lines

    def taken(self, result: Result[Any]) -> list[str]:
        """Put a result's records into the log; its events, records and replies, in lines."""
        producer_id = -1 if result.producer is None else result.producer.id
        lines = [rendering.event(event) for event in result.events]
        for record in result.records:
            self.log.append((*records.encode(record), producer_id))
            lines.append(rendering.record(record, producer_id, START_MS))
        for reply in result.replies:
            who = self.waiting.pop(reply.ticket, f"#{reply.ticket}")
            lines.append(f"{who} <- {rendering.response(reply.response)}")
        return lines

    def observed(self, act: Callable[[], list[str]]) -> list[str]:
        """What `act` says, and which timers it has set, moved and cancelled."""
        before = dict(self.shard.timers.items())
        lines = act()
        after = dict(self.shard.timers.items())
        changed = sorted((at_ms, key) for key, at_ms in after.items() if before.get(key) != at_ms)
        lines += [f"timer {rendering.timer(key)} at {rendering.clock(at_ms - START_MS)}" for at_ms, key in changed]
        return lines + [f"timer {rendering.timer(key)} off" for key in sorted(before) if key not in after]

    def advance(self, to_ms: int) -> list[str]:
        """Move the clock, from deadline to deadline."""
        lines: list[str] = []
        while (at_ms := self.shard.next_deadline_ms()) is not None and at_ms <= to_ms:
            self.now_ms = max(at_ms, self.now_ms)
            lines += self._fired()
        self.now_ms = to_ms
        return [*lines, f"now {rendering.clock(to_ms - START_MS)}"]

    def _fired(self) -> list[str]:
        due = [key for key, at_ms in self.shard.timers.items() if at_ms <= self.now_ms]
        names = ", ".join(rendering.timer(key) for key in due)
        fired = f"{rendering.clock(self.now_ms - START_MS)} {names} fires"

        def act() -> list[str]:
            return [line for result in self.shard.fire(self.now_ms) for line in self.taken(result)]

        lines = self.observed(act)
        gone = {f"timer {rendering.timer(key)} off" for key in due}
        return [fired, *(line for line in lines if line not in gone)]

    def configure(self, changes: dict[str, str]) -> None:
        """Set limits by their names."""
        values = {name: msgspec.convert(value, _type_of(name), strict=False) for name, value in changes.items()}
        self.limits = msgspec.structs.replace(self.limits, **values)
        self.shard.limits = self.limits

    def restart(self) -> list[str]:
        """Forget the shard and build it again from its log, which must make the same of all that is durable."""
        old = durable.facts(self.shard)
        self.shard = Shard(0, self.limits, self.topics)
        for entry in self.log:
            if len(entry) == 3:
                key, value, producer_id = entry
                self.shard.replay(records.decode(key, value), producer_id)
            else:
                self.shard.end_transaction(*entry)
        durable.assert_equal(durable.facts(self.shard), old)
        self.waiting.clear()
        return self.observed(lambda: [line for r in self.shard.finish_loading(self.now_ms) for line in self.taken(r)])


def _type_of(name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(Limits) if field.name == name)


def noted(record: Record) -> Record:
    """The record as it comes back from the log."""
    return records.decode(*records.encode(record))
