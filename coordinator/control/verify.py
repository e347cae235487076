"""Compare what a test expects with what has happened: which requests and events of groups, how often, in which order.

    {"expect": [{"api": "OffsetCommit", "group": "g1", "request": {"topics": [{"name": "orders"}]}, "times": 1},
                {"event": "session_expired", "group": "g1", "times": 0}],
     "in_order": true}

`request` and `response` describe a part of the decoded body: every field that they name must agree, a list must have
an element that agrees with each of theirs, and a number may be a range, `{"gte": 5}`.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from coordinator.control.decoded import DecodedEntry, Decoder, Work
from coordinator.control.journal import Entry
from coordinator.control.names import SpecError, check_api, check_cause, check_error
from coordinator.control.resets import Mark, Resets
from coordinator.control.subject import TopicNames
from coordinator.core.events import Cause, Event

MISSES_SHOWN: Final = 3
OTHERS_SHOWN: Final = 6
_RANGE: Final = frozenset({"gte", "lte", "gt", "lt"})
_NOTHING: Final = Mark()
_OF_REQUESTS: Final = ("api", "topic", "error", "request", "response")  # fields that only requests have


class Times(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a number, such as how often a request is expected."""

    gte: int = 0
    lte: int | None = None

    def __post_init__(self) -> None:
        if self.lte is not None and self.lte < self.gte:
            raise ValueError(f"expected lte to be gte ({self.gte}) or more, got {self.lte}")

    def agrees(self, count: int) -> bool:
        return self.gte <= count and (self.lte is None or count <= self.lte)

    def __str__(self) -> str:
        if self.lte is None:
            return f"at least {self.gte}"
        return str(self.gte) if self.gte == self.lte else f"{self.gte} to {self.lte}"


class Expectation(Struct, frozen=True, forbid_unknown_fields=True):
    """Requests of one kind, or events of one kind. An empty field agrees with everything."""

    api: str = ""
    event: str = ""  # the cause of events, in place of requests
    group: str = ""
    topic: str = ""
    client: str = ""  # a client id, a member id or a group instance id
    task: str = ""  # of `tasks_assigned`: a task that the member was given, as `0_1` or `0_1 standby`
    source: str = field(default="", name="from")  # and the client that was given it last before
    error: str = ""  # Kafka's name of a code in the response
    request: dict[str, Any] = {}
    response: dict[str, Any] = {}
    times: int | Times = Times(gte=1)

    @property
    def counts(self) -> Times:
        return Times(self.times, self.times) if isinstance(self.times, int) else self.times

    def __str__(self) -> str:
        fields = [
            f"{'from' if name == 'source' else name}={value}"
            for name in self.__struct_fields__
            if name not in ("times", "api", "event") and (value := getattr(self, name))
        ]
        kind = f"event {self.event}" if self.event else self.api or "any request"
        return " ".join((kind, *fields))


def check(expected: Iterable[Expectation]) -> None:
    """Raise SpecError for an expectation that nothing could ever agree with, or with fields that do not count."""
    for number, one in enumerate(expected):
        where = f"expect[{number}]"
        check_api(f"{where}.api", one.api)
        check_cause(f"{where}.event", one.event)
        check_error(f"{where}.error", one.error)
        if isinstance(one.times, int) and one.times < 0:
            raise SpecError(f"invalid {where}.times {one.times}: expected 0 or more")
        _check_ranges(f"{where}.request", one.request)
        _check_ranges(f"{where}.response", one.response)
        if (one.task or one.source) and one.event != Cause.TASKS_ASSIGNED:
            raise SpecError(f"invalid {where}: expected task and from only of the event {Cause.TASKS_ASSIGNED}")
        if one.source and not one.task:
            raise SpecError(f"invalid {where}: expected a task beside from")
        surplus = [name for name in _OF_REQUESTS if one.event and getattr(one, name)]
        if surplus:
            raise SpecError(f"invalid {where}: expected no {' and no '.join(surplus)}, which events do not have")


def _check_ranges(field: str, value: Any) -> None:
    """Raise SpecError for a range, at any depth, with a bound that is no number."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if _RANGE.issuperset(value) and not isinstance(inner, int | float):
                raise SpecError(f"invalid {field}.{name} {inner!r}: expected a number")
            _check_ranges(f"{field}.{name}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_ranges(f"{field}[{index}]", inner)


class Place(NamedTuple):
    """When a request or an event came. Their numbers say more: many have one time, as while the clock is frozen."""

    at_ms: int
    number: int


class Order:
    """The place of what is expected in order, up to now: each came after the one before it.

    Whether a request or an event of the same time came first is not known, and then it may be either.
    """

    def __init__(self) -> None:
        self._at_ms = -1
        self._numbers = {True: 0, False: 0}  # of the latest event, and of the latest request
        self._latest: Expectation | None = None

    def find_difference(self, one: Expectation, places: Iterable[Place]) -> str | None:
        """Take the first of these places behind the one before it. Returns a sentence if there is none."""
        is_event = bool(one.event)
        for place in places:
            if place.at_ms >= self._at_ms and place.number > self._numbers[is_event]:
                self._at_ms, self._numbers[is_event], self._latest = place.at_ms, place.number, one
                return None
        return f"{one}: expected after {self._latest}, found only before it"


class Verdict(Struct, frozen=True):
    """The result: whether everything agrees, and a sentence for each expectation that does not."""

    ok: bool
    differences: list[str] = []


def verify(
    expected: Sequence[Expectation],
    entries: Iterable[Entry],
    events: Iterable[tuple[int, Event]],
    *,
    in_order: bool = False,
    resets: Resets | None = None,
    after: Mark = _NOTHING,
    dropped: Mark = _NOTHING,
    decoder: Decoder | None = None,
    name_of: TopicNames = lambda _: None,
) -> Verdict:
    """Compare what has happened with what is expected, since the last of the `resets` that concerns it, and `after`.

    `dropped` has the numbers of the last request and the last event that are no longer kept. `decoder` may have decoded
    some of the entries. Raises SpecError for what would take too long.
    """
    work = Work()
    of_all = (decoder or Decoder()).take(entries, work, name_of)
    by_api = _index(of_all)
    all_events = list(events)
    holders = Holders(event for _, event in all_events)
    differences: list[str] = []
    order = Order()
    for one in expected:
        reset = Mark() if resets is None else resets.find(one.group or one.topic)
        since = Mark(max(reset.request, after.request), max(reset.event, after.event))
        happened, places = list[tuple[int, Event]](), list[Place]()
        if one.event:
            work.charge(len(all_events))
            happened = [(number, event) for number, event in all_events if number > since.event]
            places = _find_events(one, happened, holders)
        else:
            places = _find_requests(one, _after(by_api.get(one.api, []), since.request), work)
        agrees = one.counts.agrees(len(places))
        gone = _describe_gap(one, since, dropped)
        if gone and not (agrees and one.counts.lte is None):  # more of them could only agree as well
            differences.append(f"{one}: expected {one.counts}, found {len(places)}, but {gone}")
        elif not agrees:
            if one.event:
                misses = _describe_event_misses(one, [event for _, event in happened], holders)
            else:
                misses = _describe_misses(one, _after(of_all, since.request), work)
            differences.append(f"{one}: expected {one.counts}, found {len(places)}" + misses)
        elif in_order and places and (difference := order.find_difference(one, places)) is not None:
            differences.append(difference)
    return Verdict(not differences, differences)


def _describe_gap(one: Expectation, since: Mark, dropped: Mark) -> str:
    """Return why some of what may count is not known; empty if all of it is."""
    if one.event:
        return "events are gone: the latest 10,000 are kept, within events.max.bytes" * (dropped.event > since.event)
    return "requests are gone: a larger journal.max.bytes keeps more" * (dropped.request > since.request)


class Holders:
    """The member that each task was assigned to before each event."""

    def __init__(self, events: Iterable[Event]) -> None:
        latest: dict[tuple[str, str], Event] = {}
        self._before: dict[tuple[int, str], Event] = {}
        for event in events:
            for task in event.tasks:
                if (before := latest.get((event.group, task))) is not None:
                    self._before[id(event), task] = before
                latest[event.group, task] = event

    def find(self, event: Event, task: str) -> Event | None:
        """Return the event by which the task had come to its last holder, None if nobody had it."""
        return self._before.get((id(event), task))


def _find_events(one: Expectation, events: Iterable[tuple[int, Event]], holders: Holders) -> list[Place]:
    return [
        Place(event.at_ms, number)
        for number, event in events
        if event.cause.value == one.event and _agrees(one, event, holders)
    ]


def _index(requests: Iterable[DecodedEntry]) -> dict[str, list[DecodedEntry]]:
    """Return requests by the name of their API; those of any are under an empty name."""
    by_api: dict[str, list[DecodedEntry]] = {"": []}
    for one in requests:
        by_api[""].append(one)
        by_api.setdefault(one.api, []).append(one)
    return by_api


def _after(requests: Sequence[DecodedEntry], number: int) -> Sequence[DecodedEntry]:
    """Return those with a higher number."""
    return requests[bisect_right(requests, number, key=lambda one: one.number) :]


def _find_requests(one: Expectation, requests: Sequence[DecodedEntry], work: Work) -> list[Place]:
    work.charge(len(requests))
    return [
        Place(request.at_ms, request.number)
        for request in requests
        if next(_find_reasons(one, request, work), None) is None
    ]


def _find_reasons(one: Expectation, request: DecodedEntry, work: Work) -> Iterator[str]:
    """Yield why a request is not one that is expected, a phrase for each field."""
    if one.api not in ("", request.api):
        yield f"api is {request.api}"
    if one.group and one.group not in (groups := request.subject.groups):
        yield f"group is {', '.join(groups) or 'none'}"
    if one.topic and one.topic not in (topics := request.subject.topics):
        yield f"topic is {', '.join(topics) or 'none'}"
    if one.client:
        subject = request.subject
        if one.client not in (subject.client_id, *subject.members, *subject.instances):
            yield f"client is {subject.client_id}"
    if one.error and one.error not in request.errors:
        yield f"error is {', '.join(request.errors) or 'none'}"
    for name in ("request", "response"):
        if expected := getattr(one, name):
            if (path := find_difference(expected, request.body(name), work=work)) is not None:
                yield f"{name}{path}"


def _describe_misses(one: Expectation, requests: Sequence[DecodedEntry], work: Work) -> str:
    """Return the requests that are nearest to what is expected, with what is different about each.

    If no request of this API has come, return what has come instead: the number of requests of each other API.
    """
    work.charge(len(requests))
    judged = [(reasons, request) for request in requests if (reasons := list(_find_reasons(one, request, work)))]
    near = [(reasons, request) for reasons, request in judged if request.api == one.api or not one.api]
    nearest = sorted(near, key=lambda miss: (len(miss[0]), -miss[1].number))[:MISSES_SHOWN]
    if nearest or not one.api:
        return "".join(f"; near miss #{request.number}: {', '.join(reasons)}" for reasons, request in nearest)
    others = Counter(request.api for reasons, request in judged if len(reasons) == 1)
    return _describe_others(others, "of the same kind but for the API")


def _describe_event_misses(one: Expectation, events: Sequence[Event], holders: Holders) -> str:
    """Return the events that differ from what is expected in their group, client or task, or else in their cause."""
    near = [
        f"group is {event.group}, client is {_name(event)}" + _describe_tasks(one, event, holders)
        for event in events
        if event.cause.value == one.event and not _agrees(one, event, holders)
    ]
    if near:
        return "".join(f"; near miss: {reasons}" for reasons in near[-MISSES_SHOWN:])
    others = Counter(
        event.cause.value for event in events if event.cause.value != one.event and _agrees(one, event, holders)
    )
    return _describe_others(others, "of the same group and client")


def _agrees(one: Expectation, event: Event, holders: Holders) -> bool:
    """Return whether an event is of the expected group, client and task."""
    is_meant = one.group in ("", event.group) and one.client in ("", event.client_id, event.member, event.instance)
    if not is_meant or (one.task and one.task not in event.tasks):
        return False
    before = holders.find(event, one.task) if one.source else None
    return not one.source or (before is not None and one.source in (before.client_id, before.member))


def _name(event: Event) -> str:
    return event.client_id or event.member or "none"


def _describe_tasks(one: Expectation, event: Event, holders: Holders) -> str:
    if not one.task:
        return ""
    if one.task not in event.tasks:
        return f", tasks are {', '.join(event.tasks[:OTHERS_SHOWN])}"
    before = holders.find(event, one.task)
    return f", from {'nobody' if before is None else _name(before)}"


def _describe_others(others: Counter[str], what: str) -> str:
    if not others:
        return ""
    shown = ", ".join(f"{name} {count}" for name, count in others.most_common(OTHERS_SHOWN))
    return f"; there were {shown} {what}"


def find_difference(expected: Any, found: Any, path: str = "", *, work: Work | None = None) -> str | None:
    """Return where and how a decoded body differs from a part of one that is expected, None if it agrees."""
    if work is not None:
        work.charge()
    if isinstance(expected, Mapping):
        if expected and _RANGE.issuperset(expected) and isinstance(found, int | float):
            return None if _is_within(found, expected) else f"{path} is {found}"
        if not isinstance(found, Mapping):
            return f"{path} is {_show(found)}"
        for name, value in expected.items():
            if name not in found:
                return f"{path}.{name} is missing"
            if (difference := find_difference(value, found[name], f"{path}.{name}", work=work)) is not None:
                return difference
        return None
    if isinstance(expected, list):
        if not isinstance(found, list):
            return f"{path} is {_show(found)}"
        for index, value in enumerate(expected):
            if all(find_difference(value, item, work=work) is not None for item in found):
                return f"{path} has no element like the expected {path}[{index}]"
        return None
    return None if expected == found else f"{path} is {_show(found)}"


def _is_within(value: float, bounds: Mapping[str, float]) -> bool:
    return (
        bounds.get("gte", value) <= value <= bounds.get("lte", value)
        and not ("gt" in bounds and value <= bounds["gt"])
        and not ("lt" in bounds and value >= bounds["lt"])
    )


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
