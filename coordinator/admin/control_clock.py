"""The part of the control API about the coordinator's clock."""

from typing import Final

import msgspec

from coordinator.admin.control_types import Advance, ClockQuery, SetClock, StepClock
from coordinator.admin.operations import Input, Operation
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import check_bounds
from coordinator.server.operator import Operator
from coordinator.server.verbs.clock import ClockMove, ClockState, KeepAlive, keep_everybody, keep_nobody

ADVANCE_MS_MAX: Final = 10 * 365 * 86_400_000


class ClockControl:
    """Handlers of the calls about the clock."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def operations(self) -> list[Operation]:
        """Return the table of these operations."""
        return [
            Operation(
                "GET",
                "/v1/clock",
                "The clock and its pending deadlines",
                self._clock,
                query=ClockQuery,
                result=ClockState,
            ),
            Operation(
                "PUT", "/v1/clock", "Freeze the clock, or let it run", self._set_clock, body=SetClock, result=ClockState
            ),
            Operation(
                "POST", "/v1/clock/advance", "Move the clock forward", self._advance, body=Advance, result=ClockMove
            ),
            Operation(
                "POST",
                "/v1/clock/step",
                "Move the clock to the next deadline",
                self._step,
                body=StepClock,
                result=ClockMove,
            ),
        ]

    def _clock(self, given: Input) -> ClockState:
        state = self._operator.clock.state()
        return msgspec.structs.replace(
            state, deadlines=state.deadlines[: check_bounds("limit", given.query.limit, 0, 100_000)]
        )

    def _set_clock(self, given: Input) -> ClockState:
        body: SetClock = given.body
        if (body.mode == "rate") != (body.rate is not None):
            raise Refused("invalid rate: expected a rate with mode rate, and with no other")
        if body.rate is not None and not 0 < body.rate <= 10_000:
            raise Refused(f"invalid rate {body.rate}: expected more than 0, and at most 10000")
        rate = {"real": 1.0, "frozen": 0.0}.get(body.mode, body.rate)
        assert rate is not None, "mode rate has a rate"
        state = self._operator.clock.set_rate(rate)
        return msgspec.structs.replace(state, deadlines=[])

    def _advance(self, given: Input) -> ClockMove:
        body: Advance = given.body
        return self._operator.clock.advance(
            check_bounds("ms", body.ms, 0, ADVANCE_MS_MAX), self._keep_alive(body.keep_alive)
        )

    def _step(self, given: Input) -> ClockMove:
        return self._operator.clock.step(self._keep_alive(given.body.keep_alive))

    def _keep_alive(self, wanted: str | list[str]) -> KeepAlive:
        if isinstance(wanted, list):
            return self._operator.clock.keep_named(wanted)
        if wanted == "connected":
            return self._operator.clock.keep_connected()
        return keep_everybody if wanted == "all" else keep_nobody
