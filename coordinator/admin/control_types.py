"""What the calls of the control API take and give. The OpenAPI document is made of these types.

An unknown field in a body or a query is a mistake of the client, and is refused.
"""

from typing import Any, Final, Literal

from msgspec import Struct, field

from coordinator.control.faults import Action, Match
from coordinator.control.group_view import GroupView
from coordinator.control.lint import Finding
from coordinator.control.verify import Expectation, Times

PAGE_MAX: Final = 1_000  # requests in an answer


class Advance(Struct, frozen=True, forbid_unknown_fields=True):
    """How far to move the clock, and whose sessions are renewed on the way."""

    ms: int
    keep_alive: Literal["all", "connected", "none"] | list[str] = "none"


class StepClock(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose sessions are renewed when the clock moves to the next deadline."""

    keep_alive: Literal["all", "connected", "none"] | list[str] = "none"


class SetClock(Struct, frozen=True, forbid_unknown_fields=True):
    """How the clock goes on."""

    mode: Literal["real", "frozen", "rate"]
    rate: float | None = None


class ClockQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many deadlines to list."""

    limit: int = 100  # of deadlines


class GroupsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which groups: those whose id begins with the prefix."""

    prefix: str = ""


class Groups(Struct, frozen=True):
    """Groups, sorted by id."""

    groups: list[GroupView]


class RemoveMemberBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How a member is removed."""

    reason: str = ""
    disconnect: bool = False  # close the connections of the member's client id


class ReasonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why, for the timeline."""

    reason: str = ""


class TargetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What each member shall own."""

    members: dict[str, dict[str, list[int]]]  # by client id, instance id or member id; by topic


class HoldBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Which requests wait."""

    at: Literal["join", "sync", "assignment", "commit", "heartbeat"]
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
    """How far a scenario is."""

    number: int
    name: str
    steps: int
    reached: int  # steps that are done
    done: bool
    error: str  # why the step at hand cannot be done yet


class TimelineQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """In which form, and after which event."""

    format: Literal["json", "text", "mermaid"] = "json"
    after: int = 0


class Timeline(Struct, frozen=True):
    """Events, oldest first."""

    latest: int
    events: list[dict[str, Any]]


class RequestsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which requests, and in which form."""

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
    """How many bytes the journal keeps; 0 turns it off."""

    bytes_max: int


class JournalState(Struct, frozen=True):
    """How much the journal keeps."""

    bytes_max: int
    bytes: int
    entries: int
    latest: int


class Wait(Struct, frozen=True, forbid_unknown_fields=True):
    """What is waited for: everything that is given must hold at the same time."""

    group: str = ""
    state: str = ""
    members: int | Times | None = None
    generation: int | Times | None = None
    assigned: dict[str, dict[str, list[int]]] | None = None  # by client id, instance id or member id; by topic
    offsets: dict[str, dict[str, int | Times]] | None = None  # committed, by topic and partition
    exists: bool = True
    fault: int | None = None  # the number of a fault
    hits: int = 1  # of that fault
    timeout_ms: int = 10_000


class Verify(Struct, frozen=True, forbid_unknown_fields=True):
    """What is expected, and after which request."""

    expect: list[Expectation]
    after: int = 0  # requests and events with higher numbers
    in_order: bool = False


class Verified(Struct, frozen=True):
    """That everything agrees."""

    ok: bool
    differences: list[str] = field(default_factory=list)


class Findings(Struct, frozen=True):
    """Findings about clients."""

    findings: list[Finding]


class Prefix(Struct, frozen=True, forbid_unknown_fields=True):
    """Which groups and topics: those whose names begin with the prefix. Empty for everything."""

    prefix: str = ""


class Snapshots(Struct, frozen=True):
    """The bytes of each snapshot, by name."""

    snapshots: dict[str, int]


class Deleted(Struct, frozen=True):
    """How many groups and topics were removed."""

    groups: int
    topics: int = 0
