"""How requests are checked against the ACLs. `needs.py` is the table of what each API needs.

A guard stands before the handler of an API, where there is an authorizer; without one nothing of this runs.

    whole    the request is refused, with one error
    each     entries of the request that are denied are refused, and the handler sees the others
    seen     of the response, what the client may not see is left out or blanked
    asks     the handler itself asks `call.may`, because what is denied depends on its state

All checks run in steps: while a request with twenty thousand topics is checked, other requests are served.

The response about what is denied is `error_response`, the same that tells any other failure.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.authorizer import Authorizer, Rights
from coordinator.core.acls.names import CLUSTER_NAME, Operation, Resource, code_of
from coordinator.core.decision import SILENT, Decision, Done, InSteps, Outcome, Silent, Steps, begin
from coordinator.core.pace import Pace
from coordinator.core.principal import OPERATOR_PRINCIPAL
from coordinator.core.result import Call
from coordinator.core.topics import NO_ID
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from coordinator.runtime.long_commits import decide_in_parts, is_long
from coordinator.runtime.partial_refusal import IN_ORDER, DividedRequest, Judge, divide, join
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest

ERRORS: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
DENIED: Final = Silent(closes="acks=0: access is denied")


class Asking(Struct, frozen=True, gc=False):
    """A request, with what it is asked of and what its client may do."""

    engine: Engine
    request: Any
    version: int
    rights: Rights

    def topic(self, entry: Any) -> str | None:
        """Return the topic that an entry names, by its name or by `topic_id`; None for an id that no topic has."""
        topic_id = getattr(entry, "topic_id", NO_ID)
        if topic_id != NO_ID:
            topic = self.engine.world.ledger.catalog.topics.by_id(topic_id)
            return None if topic is None else topic.name
        field = next(field for field in ("name", "topic", "topic_name") if hasattr(entry, field))
        name: str | None = getattr(entry, field)
        return name


Refuse = Callable[[Any, int, ErrorCode], Any]
"""Makes the response of a request and a version that says one error."""
Seen = Callable[[Asking, Any], Steps[Any]]
"""Returns a response without what the client may not see, in steps."""


class Need(Struct, frozen=True):
    """An operation on a resource, and how it is answered when it is denied."""

    operations: tuple[Operation, ...]  # any of them will do
    kind: Resource
    error: ErrorCode

    def is_met(self, asking: Asking, name: str) -> bool:
        """Return whether the client may do one of the operations with the resource of that name."""
        return any(asking.rights.may(operation, self.kind, name) for operation in self.operations)


def need(kind: Resource, *operations: Operation, error: ErrorCode | None = None) -> Need:
    """Make a need; the error is that of the resource's type unless another is given."""
    return Need(operations, kind, ERRORS[kind] if error is None else error)


class Whole(Struct, frozen=True):
    """A check of the whole request: each of the names must be allowed."""

    need: Need
    names: Callable[[Asking], Iterable[str]]
    what: str = ""  # text for docs/authorization.md: the resources
    field: str | None = None  # of the request, which has the only name, where `names` looks nowhere else
    refuse: Refuse = error_response

    def refusal(self, asking: Asking) -> Steps[Any]:
        """Return the response that refuses the request, None if it is allowed."""
        pace = Pace()
        for name in self.names(asking):
            if pace.is_due():
                yield
            if not self.need.is_met(asking, name):
                return self.refuse(asking.request, asking.version, self.need.error)
        return None


class Each(Struct, frozen=True):
    """A check of each entry of an array of the request."""

    array: str  # of the request
    answers: str  # the array of the response
    judge: Callable[[Asking], Judge]
    place: str = IN_ORDER
    message: str | None = None
    what: str = ""  # text for docs/authorization.md: what is checked
    finish: Callable[[Asking, Any], Any] | None = None  # an answer about what is denied
    refuse: Refuse = error_response  # makes the response about what is denied
    is_asked_empty: bool = False  # whether the handler is asked though all entries are denied: it may refuse the rest

    def divide(self, asking: Asking) -> Steps[DividedRequest | None]:
        """Return the request in two parts, None if nothing of it is denied."""
        return divide(
            asking.request, asking.version, self.array, self.answers, self.judge(asking), refuse=self.refuse,
            finish=lambda entry: self._finish_entry(asking, entry),
        )  # fmt: skip

    def _finish_entry(self, asking: Asking, entry: Any) -> Any:
        if self.message is not None and hasattr(entry, "error_message"):
            entry = replace(entry, error_message=self.message)
        return entry if self.finish is None else self.finish(asking, entry)

    def join(self, response: Any, divided: DividedRequest) -> Any:
        """Return the response to the allowed part, with the answers about what is denied."""
        return join(response, divided, self.answers, self.place)


class Guard(Struct, frozen=True):
    """What an API checks, in this order."""

    whole: tuple[Whole, ...] = ()
    each: tuple[Each, ...] = ()  # one of them at most has entries in a version
    seen: tuple[Seen, ...] = ()
    asks: bool = False
    is_of_commits: bool = False  # whether the request commits offsets, perhaps very many
    what: tuple[str, ...] = ()  # text for docs/authorization.md: what `seen` and the handler check

    @property
    def is_of_one_name(self) -> bool:
        """Whether one operation on one resource is all that is checked, and a field of the request names it."""
        if len(self.whole) != 1 or self.each or self.seen or self.asks:
            return False
        return self.whole[0].field is not None and len(self.whole[0].need.operations) == 1

    def sentences(self) -> Iterable[str]:
        """Say what is checked, for people."""
        whole = [f"{describe(one.need)}{one.what}: {one.need.error.name}" for one in self.whole]
        said = dict.fromkeys((*whole, *(one.what for one in self.each), *self.what))
        return [one for one in said if one]


def describe(one: Need) -> str:
    """Name the operations and the type of resource."""
    kind = one.kind.name.replace("_", "-").lower().replace("-", " ")
    return f"{' or '.join(operation.name for operation in one.operations)} on the {kind}"


Handler = Callable[[Engine, Any, Call, Where], Decision]


def guard_handler(handle: Handler, guard: Guard, authorizer: Authorizer) -> Handler:
    """Return a handler that checks a request before it is decided."""

    if guard.is_of_one_name:
        return _with_memory(handle, guard, authorizer)
    if guard.is_of_commits:
        return _but_for_the_operator(handle, _in_parts(handle, guard, authorizer))
    return _but_for_the_operator(handle, _guard_entries(handle, guard, authorizer))


def _but_for_the_operator(handle: Handler, check: Handler) -> Handler:
    """Return the same for all but the operator, who may do everything, and whose requests are cut so that each is
    decided at once."""

    def check_clients(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        return (handle if call.principal is OPERATOR_PRINCIPAL else check)(engine, request, call, where)

    return check_clients


def _in_parts(handle: Handler, guard: Guard, authorizer: Authorizer) -> Handler:
    """Return the same for commits: those of many partitions are checked, and refused, in parts as they are decided.

    The parts of a response are joined in the order of the request.
    """
    ordered = replace(guard, each=tuple([replace(one, place=IN_ORDER) for one in guard.each]))
    check, check_part = _guard_entries(handle, guard, authorizer), _guard_entries(handle, ordered, authorizer)

    def check_all(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        if not is_long(request):
            return check(engine, request, call, where)
        return InSteps(decide_in_parts(request, lambda part: check_part(engine, part, call, where)))

    return check_all


def _with_memory(handle: Handler, guard: Guard, authorizer: Authorizer) -> Handler:
    """Return the same for a guard with one check of one name. An earlier request has nearly always made it already."""
    (only,) = guard.whole
    assert only.field is not None, "the name is in a field"
    name_of, decisions = attrgetter(only.field), authorizer.decisions
    code, decide = code_of(only.need.operations[0], only.need.kind), _guard_entries(handle, guard, authorizer)

    def check(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        if decisions.get((code, name_of(request), call.principal, call.client_host)):
            return handle(engine, request, call, where)
        return decide(engine, request, call, where)

    return check


def _guard_entries(handle: Handler, guard: Guard, authorizer: Authorizer) -> Handler:
    def check(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
        rights = Rights(authorizer, call.principal, call.client_host)
        return begin(_check(handle, guard, Asking(engine, request, call.version, rights), call, where))

    return check


def _check(handle: Handler, guard: Guard, asking: Asking, call: Call, where: Where) -> Steps[Outcome]:
    """Check a request, and have it decided as far as it is allowed."""
    request = asking.request
    for one in guard.whole:
        refused = yield from one.refusal(asking)
        if refused is not None:
            return _respond_if_awaited(request, refused)
    if guard.asks:
        call = replace(call, rights=asking.rights)
    for each in guard.each:
        divided = yield from each.divide(asking)
        if divided is None:
            continue
        if divided.is_empty and not each.is_asked_empty:
            response = each.join(error_response(divided.request, call.version, ErrorCode.NONE), divided)
            return _respond_if_awaited(request, (yield from _see(guard, asking, response)))
        outcome = yield from _outcome_of(handle(asking.engine, divided.request, call, where))
        if type(outcome) is not Done:
            return DENIED if outcome is SILENT and _awaits_nothing(request) else outcome
        return Done((yield from _see(guard, asking, each.join(outcome.response, divided))), outcome.group_id)
    outcome = yield from _outcome_of(handle(asking.engine, request, call, where))
    if type(outcome) is not Done or not guard.seen:
        return outcome
    return Done((yield from _see(guard, asking, outcome.response)), outcome.group_id)


def _outcome_of(decision: Decision) -> Steps[Outcome]:
    return (yield from decision.steps) if isinstance(decision, InSteps) else decision


def _see(guard: Guard, asking: Asking, response: Any) -> Steps[Any]:
    for one in guard.seen:
        response = yield from one(asking, response)
    return response


def _respond_if_awaited(request: Any, response: Any) -> Outcome:
    """Respond with a refusal, but not to a producer with acks=0: its connection is closed, since it awaits nothing."""
    return DENIED if _awaits_nothing(request) else Done(response)


def _awaits_nothing(request: Any) -> bool:
    return type(request) is ProduceRequest and not request.acks


def cluster(asking: Asking) -> Iterable[str]:
    """Name the one cluster."""
    return (CLUSTER_NAME,)
