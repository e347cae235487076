"""The part of the control API about topics and offsets as a whole: seeds, resets, snapshots."""

from typing import Final

import trio

from coordinator.admin.control_requests import RequestControl
from coordinator.admin.control_types import GroupsQuery, Removal, ResetBody, Snapshots
from coordinator.admin.operations import Input, Operation, Text
from coordinator.admin.portions import cut_state
from coordinator.admin.verb_calls import check_bounds, do, take_steps
from coordinator.runtime.snapshot import to_tar
from coordinator.server.loop_time import SNAPSHOTS, doing
from coordinator.server.operator import Operator
from coordinator.server.verbs.state import State

TAR: Final = "application/x-tar"
KEPT_MAX: Final = 1_000  # prefixes, each compared with each name


class StateControl:
    """Handlers of the calls about the state. `requests` is told of resets, for what is verified."""

    def __init__(self, operator: Operator, requests: RequestControl) -> None:
        self._operator = operator
        self._requests = requests

    def operations(self) -> list[Operation]:
        """Return the table of these operations."""
        return [
            Operation("POST", "/v1/reset", "Start again with nothing", self._reset, body=ResetBody, result=Removal),
            Operation("GET", "/v1/state", "Topics and offsets", self._state, query=GroupsQuery, result=State),
            Operation("POST", "/v1/state", "Create topics and commit offsets", self._seed, body=State, result=State),
            Operation("GET", "/v1/snapshots", "All snapshots", self._snapshots, result=Snapshots),
            Operation("PUT", "/v1/snapshots/{name}", "Take a snapshot", self._take_snapshot, result=Snapshots),
            Operation("GET", "/v1/snapshots/{name}", "A snapshot as a tar file", self._snapshot, others=(TAR,)),
            Operation("DELETE", "/v1/snapshots/{name}", "Remove a snapshot", self._remove_snapshot, result=Snapshots),
            Operation(
                "POST", "/v1/snapshots/{name}/restore", "Start again with a snapshot", self._restore, result=Snapshots
            ),
        ]

    async def _reset(self, given: Input) -> Removal:
        prefix, keep = given.body.prefix, tuple(given.body.keep)
        check_bounds("number of prefixes to keep", len(keep), 0, KEPT_MAX)
        groups = await take_steps(self._operator.groups.names_in_steps())
        removal = Removal(len(groups), len(await take_steps(self._operator.state.topics_in_steps())))
        await self._operator.clock.arrive()
        with trio.CancelScope(shield=True):  # it is done to its end, though the client leaves
            if prefix or keep:
                removal = Removal(*await take_steps(self._operator.state.reset_prefix_in_steps(prefix, keep)))
                self._requests.note_reset(prefix, keep)
            else:
                await take_steps(self._operator.state.reset_in_steps(self._requests.note_reset))
        return removal

    async def _state(self, given: Input) -> State:
        return await take_steps(self._operator.state.contents_in_steps(given.query.prefix))

    async def _seed(self, given: Input) -> State:
        for portion in cut_state(given.body):
            do(self._operator.state.seed, portion)
            await trio.lowlevel.checkpoint()
        return await take_steps(self._operator.state.contents_in_steps())

    def _snapshots(self, given: Input) -> Snapshots:
        return Snapshots(self._operator.state.snapshots())

    async def _take_snapshot(self, given: Input) -> Snapshots:
        with doing(SNAPSHOTS):
            await take_steps(self._operator.state.take_snapshot_in_steps(given.path["name"]))
        return self._snapshots(given)

    async def _snapshot(self, given: Input) -> Text:
        snapshot = do(self._operator.state.snapshot, given.path["name"])
        return Text(await trio.to_thread.run_sync(to_tar, snapshot), TAR)

    def _remove_snapshot(self, given: Input) -> Snapshots:
        do(self._operator.state.remove_snapshot, given.path["name"])
        return self._snapshots(given)

    async def _restore(self, given: Input) -> Snapshots:
        with doing(SNAPSHOTS), trio.CancelScope(shield=True):
            steps = self._operator.state.restore_in_steps(given.path["name"], self._requests.note_reset)
            await take_steps(steps)
        return self._snapshots(given)
