"""A shard with a clock that is moved by hand, a log in memory, and commands to speak to it in words.

`COMMANDS` holds what a script may say: `name word... key=value...`. Other files add theirs with `@command("name")`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from coordinator.core import records
from coordinator.core.limits import Limits
from coordinator.core.record_types import Record, single_records
from coordinator.core.result import Call, Reply, Result
from coordinator.core.topics import Topic, Topics
from tests.core import rendering
from tests.core.driver import START_MS, ShardDriver

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

    def member(self) -> str:
        """The plain word, by which it is also told who is answered; or `member=`."""
        if not self.plain:
            return self.text("member")
        self._keyed.setdefault("as", self.plain[0])
        return self.plain[0]

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


class World(ShardDriver):
    """A shard, who waits for what, and what happens, in lines."""

    def __init__(self) -> None:
        super().__init__(Limits(), Topics(Topic(name, topic_id(name), 3) for name in ("t", "u")))
        self.waiting: dict[int, str] = {}  # ticket -> who
        self._lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """Run one command; what happened, in lines."""
        name, *rest = line.split()
        words = Words(rest)
        lines = COMMANDS[name](self, words) or []
        words.check()
        return lines

    def call_of(self, words: Words, version: int) -> Call:
        """The call of a command: `client=`, `v=` and `host=` are its words."""
        client = words.text("client", "c")
        return self.call(
            words.number("v", version), None if client == "null" else client, words.text("host", "/127.0.0.1")
        )

    def ask(self, words: Words, version: int, request: Any) -> list[str]:
        """Hand a request to the shard; what it answers and what else it does."""
        call = self.call_of(words, version)
        who = words.text("as", words.text("client", "c"))
        return self.observe(lambda: self._ask(request, call, who))

    def _ask(self, request: Any, call: Call, who: str) -> None:
        result = self.handle(request, call)
        if result.response is not None:
            self.say(f"{who} <- {rendering.response(result.response)}")
        elif not any(type(effect) is Reply and effect.ticket == call.ticket for effect in result.effects):
            self.waiting[call.ticket] = who
            self._lines.insert(len(result.events), f"{who} waits")
        else:
            self._lines = [line.replace(f"#{call.ticket} <-", f"{who} <-") for line in self._lines]

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        producer_id = -1 if result.producer is None else result.producer.id
        self._lines += [rendering.event(event) for event in result.events]
        self._lines += [rendering.record(record, producer_id, START_MS) for record in single_records(result.records)]
        for reply in result.replies:
            who = self.waiting.pop(reply.ticket, f"#{reply.ticket}")
            self.say(f"{who} <- {rendering.response(reply.response)}")

    def say(self, line: str) -> None:
        """Add a line to what happens."""
        self._lines.append(line)

    def observe(self, act: Callable[[], object]) -> list[str]:
        """What happens in `act`, and which timers it sets, moves and cancels."""
        outer, self._lines = self._lines, []
        before = dict(self.shard.timers.items())
        act()
        lines, self._lines = self._lines, outer
        after = dict(self.shard.timers.items())
        changed = sorted((at_ms, key) for key, at_ms in after.items() if before.get(key) != at_ms)
        lines += [f"timer {rendering.timer(key)} at {rendering.clock(at_ms - START_MS)}" for at_ms, key in changed]
        return lines + [f"timer {rendering.timer(key)} off" for key in sorted(before) if key not in after]

    def pass_time(self, to_ms: int) -> list[str]:
        """Move the clock; what happens meanwhile."""
        self._lines = []
        self.advance(to_ms)
        return [*self._lines, f"now {rendering.clock(to_ms - START_MS)}"]

    def fire(self) -> None:
        due = [key for key, at_ms in self.shard.timers.items() if at_ms <= self.now_ms]
        names = ", ".join(rendering.timer(key) for key in due)
        gone = {f"timer {rendering.timer(key)} off" for key in due}
        lines = self.observe(super().fire)
        self.say(f"{rendering.clock(self.now_ms - START_MS)} {names} fires")
        self._lines += [line for line in lines if line not in gone]

    def configure(self, changes: dict[str, str]) -> None:
        """Set limits by their names."""
        values = {name: msgspec.convert(value, _type_of(name), strict=False) for name, value in changes.items()}
        self.limits = msgspec.structs.replace(self.limits, **values)
        self.shard.limits = self.limits

    def restart(self) -> list[str]:
        """Rebuild the shard from its log, and serve again."""
        self.rebuild()
        self.waiting.clear()
        return self.observe(self.load)

    def put(self, record: Record) -> None:
        """Put a record into the log that this server has not decided on."""
        self.shard.replay(record)
        self.log.append((*records.encode(record), -1))
        self.note_states()


def _type_of(name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(Limits) if field.name == name)


def noted(record: Record) -> Record:
    """The record as it comes back from the log."""
    return records.decode(*records.encode(record))
