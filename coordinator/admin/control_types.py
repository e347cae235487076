"""The types that calls of the control API take and give. The OpenAPI document is made of these types.

An unknown field in a body or a query is a mistake of the client, and is refused.
"""

from typing import Any, Final, Literal

from msgspec import Struct, field

from coordinator.control.faults import Action, Match
from coordinator.control.finding import Finding
from coordinator.control.names import Name
from coordinator.control.verify import Expectation, Times
from coordinator.core.group_view import GroupView

PAGE_MAX: Final = 1_000  # requests in an answer


class Advance(Struct, frozen=True, forbid_unknown_fields=True):
    """A distance to move the clock by, and the members whose sessions are renewed on the way."""

    ms: int
    keep_alive: Literal["all", "connected", "none"] | list[str] = "none"


class StepClock(Struct, frozen=True, forbid_unknown_fields=True):
    """The members whose sessions are renewed when the clock moves to the next deadline."""

    keep_alive: Literal["all", "connected", "none"] | list[str] = "none"


class SetClock(Struct, frozen=True, forbid_unknown_fields=True):
    """The mode of the clock from now on, and its rate in mode `rate`."""

    mode: Literal["real", "frozen", "rate"]
    rate: float | None = None


class ClockQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of deadlines to list."""

    limit: int = 100  # of deadlines


class GroupsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A prefix of group ids: the call is about the groups whose ids begin with it."""

    prefix: str = ""


class WatchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which groups are listed, and which one is watched more closely."""

    prefix: str = ""
    group: str = ""


class Groups(Struct, frozen=True):
    """Groups, sorted by id."""

    groups: list[GroupView]


class RemoveMemberBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A reason for the timeline, and whether connections are closed as well."""

    reason: str = ""
    disconnect: bool = False  # close the connections of the member's client id


class ReasonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A reason for the timeline."""

    reason: str = ""


class TargetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The partitions that each member is to own: of a streams group, its active and its standby tasks."""

    members: dict[str, dict[str, list[int]]]  # by client id, instance id or member id; by topic, or by subtopology
    standbys: dict[str, dict[str, list[int]]] = {}  # the same, of standby tasks


class HoldBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A step of the protocol: the requests that are held."""

    at: Literal["join", "sync", "assignment", "commit", "heartbeat", "acquire", "acknowledge"]
    client: str = ""


class FaultView(Struct, frozen=True):
    """A fault, with what it has seen."""

    number: int
    on: Match
    do: Action
    count: int | None
    probability: float
    seed: int
    seen: int  # requests that agreed
    hits: int  # requests that it met
    held: int  # requests that wait


class Faults(Struct, frozen=True):
    """Faults, oldest first."""

    faults: list[FaultView]


class ScenarioView(Struct, frozen=True):
    """A scenario, with the number of its steps that are done."""

    number: int
    name: str
    steps: int
    reached: int  # steps that are done
    done: bool
    error: str  # why the step at hand cannot be done yet


class TimelineQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The form of the timeline, and the number of an event: only later ones are given.

    Events of before the last start of the server have numbers up to 0.
    """

    format: Literal["json", "text", "mermaid"] = "json"
    after: int | None = None


class Timeline(Struct, frozen=True):
    """Events, oldest first."""

    latest: int
    events: list[dict[str, Any]]


class RequestsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A filter of requests, and the form in which they are given."""

    api: str = ""
    group: str = ""
    topic: str = ""
    client: str = ""
    after: int = 0
    limit: int = PAGE_MAX
    format: Literal["json", "jsonl", "pcapng"] = "json"


class Requests(Struct, frozen=True):
    """Requests, oldest first."""

    latest: int
    requests: list[dict[str, Any]]


class JournalBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of bytes that the journal may keep; 0 turns it off."""

    bytes_max: int


class JournalState(Struct, frozen=True):
    """The size of the journal: its bound, and what it keeps now."""

    bytes_max: int
    bytes: int
    entries: int
    latest: int
    obstacle: str = ""  # why it cannot be replayed; empty if it can


class Wait(Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions to wait for: all that are given must hold at the same time."""

    group: Name = ""
    state: str = ""
    members: int | Times | None = None
    generation: int | Times | None = None
    assigned: dict[str, dict[str, list[int]]] | None = None  # by client id, instance id or member id; by topic
    tasks: dict[str, dict[str, list[str]]] | None = None  # of a streams group: by member and role, such as `0_1`
    offsets: dict[str, dict[str, int | Times]] | None = None  # committed, by topic and partition
    records: dict[str, dict[str, dict[str, str]]] | None = None  # states, by topic, partition and offset
    exists: bool = True
    coordinator: int | None = None  # the broker that serves the group
    fault: int | None = None  # the number of a fault
    hits: int = 1  # of that fault
    timeout_ms: int = 10_000


class Verify(Struct, frozen=True, forbid_unknown_fields=True):
    """Expectations, of what came after the last reset, after the request `after` and the event `after_event`."""

    expect: list[Expectation]
    after: int = 0  # requests with higher numbers
    after_event: int = 0  # events with higher numbers
    in_order: bool = False


class VerifyResult(Struct, frozen=True):
    """The result of a verification that found no difference."""

    ok: bool
    differences: list[str] = field(default_factory=list)


class LintQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which requests are read: those with higher numbers."""

    after: int = 0


class Findings(Struct, frozen=True):
    """Findings about clients."""

    findings: list[Finding]


class ResetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What a reset removes: what begins with the prefix, and with none of those to keep."""

    prefix: str = ""
    keep: list[str] = field(default_factory=list)


class Snapshots(Struct, frozen=True):
    """The bytes of each snapshot, by name."""

    snapshots: dict[str, int]


class Removal(Struct, frozen=True):
    """The numbers of groups and topics that were removed."""

    groups: int
    topics: int = 0
