"""Two transcripts of one story, compared field by field."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.conformance.stage import Event

EARLY_S = 0.35  # an answer may come that much sooner than Kafka's did
LATE_S = 2.0  # and that much later: the machine may be busy


class Difference(NamedTuple):
    """Where two transcripts part: the event's number in the transcript, the path in it, and both values."""

    event: int
    path: str
    kafka: Any
    here: Any

    def __str__(self) -> str:
        return f"event {self.event}: {self.path}: Kafka {self.kafka!r}, here {self.here!r}"


def differences(kafka: list[Event], here: list[Event]) -> list[Difference]:
    """All of them, in the order of the story; what only one of both has is a difference with None."""
    found = []
    for number in range(max(len(kafka), len(here))):
        theirs = kafka[number] if number < len(kafka) else None
        ours = here[number] if number < len(here) else None
        found += [Difference(number, path, a, b) for path, a, b in parted(theirs, ours, name_of(theirs or ours or {}))]
    return found


def name_of(event: Event) -> str:
    """What to call an event in a path."""
    kind = next((kind for kind in ("ask", "answer", "silent", "closed") if kind in event), "")
    return f"{event.get('on', '')}.{kind}.{event[kind]}" if kind else "story"


def parted(kafka: Any, here: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two values differ. Waits may differ within the tolerance."""
    if path.endswith(".after") and isinstance(kafka, float) and isinstance(here, float):
        if not -EARLY_S <= here - kafka <= LATE_S:
            yield path, kafka, here
    elif isinstance(kafka, dict) and isinstance(here, dict):
        for key in (*kafka, *(key for key in here if key not in kafka)):
            yield from parted(kafka.get(key), here.get(key), f"{path}.{key}")
    elif isinstance(kafka, list) and isinstance(here, list) and len(kafka) == len(here):
        for number, (theirs, ours) in enumerate(zip(kafka, here, strict=True)):
            yield from parted(theirs, ours, f"{path}[{number}]")
    elif kafka != here:
        yield path, kafka, here
