"""Two transcripts of one story, compared field by field."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.conformance.stage import Event

EARLY_S = 0.35  # an answer may come that much sooner than Kafka's did
LATE_S = 0.5  # and that much later: Kafka's own waits differ by so much from run to run


class Absent:
    """What stands for a field, an entry or an event that one of both does not have: not the same as null."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()
SILENCE: Final = "silence"
CLOSED: Final = "closed"
BLANK: tuple[Any, ...] = (
    None,
    "",
    -1,
    [],
    {},
)  # what an answer's field shows when it says nothing; False and 0 say something


class Difference(NamedTuple):
    """Where two transcripts part: the event's number in the transcript, the path in it, and both values."""

    event: int
    path: str
    kafka: Any
    here: Any

    def __str__(self) -> str:
        return f"event {self.event}: {self.path}: Kafka {self.kafka!r}, here {self.here!r}"


def differences(kafka: list[Event], here: list[Event]) -> list[Difference]:
    """All of them, in the order of the story; what only one of both has is a difference with `ABSENT`."""
    found = []
    for number in range(max(len(kafka), len(here))):
        theirs = kafka[number] if number < len(kafka) else ABSENT
        ours = here[number] if number < len(here) else ABSENT
        found += [Difference(number, path, a, b) for path, a, b in compare_events(theirs, ours)]
    return found


def compare_events(kafka: Event | Absent, here: Event | Absent) -> Iterator[tuple[str, Any, Any]]:
    """Where two events part. Where one request had two fates (an answer, silence), that is one difference."""
    if isinstance(kafka, Absent) or isinstance(here, Absent):
        yield name_of(here if isinstance(kafka, Absent) else kafka), kafka, here
    elif (one := request_of(kafka)) and one == request_of(here) and kind_of(kafka) != kind_of(here):
        yield f"{one[0]}.{one[1]}", fate(kafka), fate(here)
    else:
        yield from parted(kafka, here, name_of(kafka))


def kind_of(event: Event) -> str:
    return next((kind for kind in ("ask", "answer", "silent", "closed") if kind in event), "")


def name_of(event: Event | Absent) -> str:
    """What to call an event in a path."""
    kind = "" if isinstance(event, Absent) else kind_of(event)
    return f"{event.get('on', '')}.{kind}.{event[kind]}" if kind and not isinstance(event, Absent) else "story"


def request_of(event: Event) -> tuple[str, str, int] | None:
    """The request whose fate an event tells: its connection, API and number. None for what a story tells by itself."""
    kind = kind_of(event)
    return (event["on"], event[kind], event["n"]) if kind in ("answer", "silent", "closed") and "n" in event else None


def fate(event: Event) -> Any:
    """What became of a request: its answer without what is blank, with the wait if it was a long one."""
    if kind_of(event) != "answer":
        return SILENCE if kind_of(event) == "silent" else CLOSED
    waited = {"after": event["after"]} if event["after"] > LATE_S else {}
    return {**waited, **telling(event["is"])}


def telling(value: Any) -> Any:
    """The same without the fields that are blank."""
    if isinstance(value, dict):
        shown = {key: telling(item) for key, item in value.items()}
        return {key: item for key, item in shown.items() if not any(item == blank for blank in BLANK)}
    return [telling(one) for one in value] if isinstance(value, list) else value


def parted(kafka: Any, here: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two values differ. Waits may differ within the tolerance."""
    if path.endswith(".after") and isinstance(kafka, float) and isinstance(here, float):
        if not -EARLY_S <= here - kafka <= LATE_S:
            yield path, kafka, here
    elif isinstance(kafka, dict) and isinstance(here, dict):
        for key in (*kafka, *(key for key in here if key not in kafka)):
            yield from parted(kafka.get(key, ABSENT), here.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(kafka, list) and isinstance(here, list) and len(kafka) == len(here):
        for number, (theirs, ours) in enumerate(zip(kafka, here, strict=True)):
            yield from parted(theirs, ours, f"{path}[{number}]")
    elif type(kafka) is not type(here) or kafka != here:
        yield path, kafka, here
