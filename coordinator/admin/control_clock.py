"""The part of the control API about the coordinator's clock."""

from typing import Final

import trio

from coordinator.admin.control_types import Advance, ClockQuery, SetClock, StepClock
from coordinator.admin.operations import Input, Operation
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import check_bounds, take_steps
from coordinator.server.operator import Operator
from coordinator.server.verbs.clock import ClockMove, ClockState, KeepAlive, keep_everybody, keep_nobody
from coordinator.server.verbs.waits import Waits

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

    async def _clock(self, given: Input) -> ClockState:
        limit = check_bounds("limit", given.query.limit, 0, 100_000)
        return await take_steps(self._operator.clock.state_in_steps(limit))

    async def _set_clock(self, given: Input) -> ClockState:
        body: SetClock = given.body
        if (body.mode == "rate") != (body.rate is not None):
            raise Refused("invalid rate: expected a rate with mode rate, and with no other")
        if body.rate is not None and not 0 < body.rate <= 10_000:
            raise Refused(f"invalid rate {body.rate}: expected more than 0, and at most 10000")
        rate = {"real": 1.0, "frozen": 0.0}.get(body.mode, body.rate)
        assert rate is not None, "mode rate has a rate"
        self._operator.clock.set_rate(rate)
        return await take_steps(self._operator.clock.state_in_steps(ClockQuery().limit))

    async def _advance(self, given: Input) -> ClockMove:
        body: Advance = given.body
        ms = check_bounds("ms", body.ms, 0, ADVANCE_MS_MAX)
        await self._operator.clock.become_movable()
        return await _finish(self._operator.clock.advance_in_steps(ms, self._keep_alive(body.keep_alive)))

    async def _step(self, given: Input) -> ClockMove:
        await self._operator.clock.become_movable()
        return await _finish(self._operator.clock.step_in_steps(self._keep_alive(given.body.keep_alive)))

    def _keep_alive(self, wanted: str | list[str]) -> KeepAlive:
        if isinstance(wanted, list):
            return self._operator.clock.keep_named(wanted)
        if wanted == "connected":
            return self._operator.clock.keep_connected()
        return keep_everybody if wanted == "all" else keep_nobody


async def _finish(steps: Waits[ClockMove]) -> ClockMove:
    """Do a move to its end, though the client leaves."""
    move: ClockMove | None = None
    with trio.CancelScope(shield=True):
        move = await take_steps(steps)
    assert move is not None, "nothing cancels it"
    return move
