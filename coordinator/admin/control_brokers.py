"""The part of the control API about brokers and coordinators."""

from typing import Final, Literal

from msgspec import Struct

from coordinator.admin.operations import Input, Operation
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import answer, check_bounds, do
from coordinator.server.operator import Operator
from coordinator.server.verbs.brokers import BrokerView, CoordinatorView
from coordinator.server.verbs.refusal import Refusal

LOAD_MS_MAX: Final = 86_400_000
DOWN_MS_MAX: Final = 60_000
COMMITS_MAX: Final = 10_000


class Brokers(Struct, frozen=True):
    """Brokers, by id."""

    brokers: list[BrokerView]


class CoordinatorQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the name is that of a group or of a transaction."""

    type: Literal["group", "transaction"] = "group"


class MoveBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a coordinator moves, and what is lost on the way."""

    to: int
    type: Literal["group", "transaction"] = "group"
    load_ms: int = 0  # the shortest time that loading takes, by the coordinator's clock
    lose_last_commits: int = 0  # of the group
    keep_members: bool = True


class LoadBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The shortest time that brokers which take over spend loading, by the coordinator's clock."""

    load_ms: int = 0


class RestartBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How long each broker is down, in real time, and the shortest time that loading takes afterwards."""

    down_ms: int = 0
    load_ms: int = 0


class BrokerControl:
    """Handlers of the calls about brokers and coordinators."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def operations(self) -> list[Operation]:
        """Return the table of these operations."""
        return [
            Operation("GET", "/v1/brokers", "All brokers", self._brokers, result=Brokers),
            Operation(
                "POST",
                "/v1/brokers/rolling-restart",
                "Restart the brokers one after the other",
                self._restart,
                body=RestartBody,
                result=Brokers,
            ),
            Operation("GET", "/v1/brokers/{broker}", "One broker", self._broker, result=BrokerView),
            Operation(
                "POST", "/v1/brokers/{broker}/stop", "Stop a broker", self._stop, body=LoadBody, result=BrokerView
            ),
            Operation(
                "POST", "/v1/brokers/{broker}/start", "Start a broker", self._start, body=LoadBody, result=BrokerView
            ),
            Operation(
                "GET",
                "/v1/coordinators/{name}",
                "The coordinator of a group or a transactional id",
                self._coordinator,
                query=CoordinatorQuery,
                result=CoordinatorView,
            ),
            Operation(
                "POST",
                "/v1/coordinators/{name}/move",
                "Move a coordinator to another broker",
                self._move,
                body=MoveBody,
                result=CoordinatorView,
            ),
        ]

    def _brokers(self, given: Input) -> Brokers:
        return Brokers(self._operator.brokers.views())

    def _broker(self, given: Input) -> BrokerView:
        view: BrokerView = do(self._operator.brokers.view, _node_id(given))
        return view

    def _stop(self, given: Input) -> BrokerView:
        view: BrokerView = do(self._operator.brokers.stop, _node_id(given), load_ms=_load_ms(given))
        return view

    def _start(self, given: Input) -> BrokerView:
        view: BrokerView = do(self._operator.brokers.start, _node_id(given), load_ms=_load_ms(given))
        return view

    async def _restart(self, given: Input) -> Brokers:
        down_ms, load_ms = check_bounds("down_ms", given.body.down_ms, 0, DOWN_MS_MAX), _load_ms(given)
        restart = self._operator.brokers.restart_all
        try:
            return Brokers(await restart(self._operator.next_turn, down_ms=down_ms, load_ms=load_ms))
        except Refusal as refusal:
            raise answer(refusal) from None

    def _coordinator(self, given: Input) -> CoordinatorView:
        return self._operator.brokers.coordinator(given.path["name"], given.query.type)

    def _move(self, given: Input) -> CoordinatorView:
        body: MoveBody = given.body
        name, load_ms = given.path["name"], _load_ms(given)
        lost = check_bounds("lose_last_commits", body.lose_last_commits, 0, COMMITS_MAX)
        view: CoordinatorView
        if body.type == "transaction":
            if lost or not body.keep_members:
                raise Refused("a transactional id has no commits or members: expected type group")
            view = do(self._operator.brokers.move_transaction, name, body.to, load_ms=load_ms)
        else:
            options = {"load_ms": load_ms, "lose_last_commits": lost, "keep_members": body.keep_members}
            view = do(self._operator.brokers.move_group, name, body.to, **options)
        return view


def _load_ms(given: Input) -> int:
    return check_bounds("load_ms", given.body.load_ms, 0, LOAD_MS_MAX)


def _node_id(given: Input) -> int:
    text = given.path["broker"]
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise Refused(f"invalid broker {text!r}: expected the id of a broker")
    return int(text)
