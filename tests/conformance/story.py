"""Stories: small scripts that each tell one thing about a broker, and what to do with them.

    @story("C-410 C-413 C-420")
    def a_static_member_restarts_and_keeps_its_partitions(k: Stage) -> None:
        \"\"\"One sentence that says what shall be seen.\"\"\"

A story names the rules of the rule book that it touches and the server it needs. Playing it gives its transcript.
"""

import argparse
import importlib
import json
import pkgutil
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.conformance import stories
from tests.conformance.client import Lost, Pump
from tests.conformance.servers import SERVERS
from tests.conformance.stage import Event, Stage, is_success, stage

TRANSCRIPTS = Path(__file__).parent / "transcripts"
Script = Callable[[Stage], None]


class Story(NamedTuple):
    """One story: its chapter (the file it is in), name, rules, server and script."""

    chapter: str
    name: str
    rules: tuple[str, ...]
    server: str
    script: Script

    @property
    def path(self) -> Path:
        """Where its transcript is kept."""
        return TRANSCRIPTS / self.chapter / f"{self.name}.jsonl"

    def transcript(self) -> list[Event]:
        """The recorded events; none if it was never recorded."""
        lines = self.path.read_text().splitlines()[1:] if self.path.exists() else []
        return [json.loads(line) for line in lines]

    def save(self, events: Iterable[Event]) -> None:
        """Write the transcript, headed by what the story says. What was answered without a wait shows 0."""
        events = [one | {"after": 0.0} if one.get("after", 1.0) < NO_WAIT_S else one for one in events]
        head = {"story": self.name, "says": self.says, "rules": self.rules, "server": self.server}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in (head, *events)))

    @property
    def says(self) -> str:
        return " ".join((self.script.__doc__ or "").split())


NO_WAIT_S = 0.45
ALL: dict[str, Story] = {}


def story(rules: str, server: str = "plain") -> Callable[[Script], Script]:
    """Tell `script` as a story."""

    def tell(script: Script) -> Script:
        name = script.__name__
        assert name not in ALL, f"two stories are called {name}"
        assert script.__doc__, f"{name} says nothing"
        ALL[name] = Story(script.__module__.rpartition(".")[2], name, tuple(rules.split()), server, script)
        return script

    return tell


def tell_all() -> dict[str, Story]:
    """Import every chapter; all stories by name."""
    for module in pkgutil.iter_modules(stories.__path__):
        importlib.import_module(f"{stories.__name__}.{module.name}")
    return ALL


def options_of(command: str | None) -> argparse.ArgumentParser:
    """What the commands that play stories have in common: which of them are played."""
    parser = argparse.ArgumentParser(description=command, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="stories whose name holds this text")
    parser.add_argument("--chapter", default="", help="stories of this chapter")
    parser.add_argument("--server", default="", help="stories of this server", choices=("", *SERVERS))
    return parser


def choose(which: argparse.Namespace) -> list[Story]:
    return [
        one
        for one in tell_all().values()
        if which.only in one.name and which.chapter in ("", one.chapter) and which.server in ("", one.server)
    ]


def play(one: Story, pump: Pump, settle_ms: int = 0, messages: set[str] | None = None) -> list[Event]:
    """Play the story against a broker. A story that breaks ends its transcript with the reason.

    Error messages for people, which transcripts do not hold, are added to `messages`.
    """
    with stage(one.name, pump, settle_ms) as k:
        try:
            one.script(k)
        except Lost as lost:
            k.events.append({"broke": str(lost)})
        except Exception as error:  # whatever a server's answer makes of a script is told like its answers
            where = traceback.extract_tb(error.__traceback__)[-1]
            k.events.append({"broke": f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"})
        if messages is not None:
            messages |= k.normal.messages
        return k.events


def warm(pump: Pump) -> None:
    """Wait until a fresh broker has its internal topics and the coordinators of all their partitions."""
    with stage("warm", pump) as k:
        for key_type in (0, 1):
            k.line("warm").until("the broker", "find_coordinator", 2, is_success, key="warm", key_type=key_type)
        for number in range(64):  # enough names to meet every partition
            k.line("warm").until("the broker", "offset_fetch", 5, is_success, group_id=k.name(f"g{number}"), topics=[])
            p = {"transactional_id": k.name(f"t{number}"), "transaction_timeout_ms": 1000}
            k.line("warm").until("the broker", "init_producer_id", 4, is_success, **p)
