"""Verbs over all groups give way between groups, and say the same as at once."""

import itertools
from collections.abc import Callable

import pytest
import trio

from coordinator.admin import verb_calls
from coordinator.admin.http import Request
from coordinator.admin.portions import cut_state
from coordinator.control.journal_file import read_journal, write_journal
from coordinator.runtime.replay import Replay
from coordinator.runtime.snapshot import read_logs
from coordinator.server.verbs.state import State
from coordinator.server.verbs.waits import Waits
from storage.memory_files import MemoryFiles
from storage.pending_reset import PendingReset
from tests.control.control_port import ControlPort
from tests.control.steered import SteeredNode
from tests.requests import commit
from tests.runtime.guarded import AUTHORIZER
from tests.steps import count_steps

GROUPS = 130
STATE = State({"orders": 1}, {f"g{number:03}": {"orders": {"0": number}} for number in range(GROUPS)})


def test_groups_are_viewed_in_steps_and_those_that_go_meanwhile_are_left_out() -> None:
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    steps, views = count_steps(server.operator.groups.views_in_steps("g"))
    assert views == server.operator.groups.views() and len(views) == GROUPS
    assert steps > 3
    assert server.operator.state.contents() == STATE
    going = server.operator.groups.views_in_steps()
    next(going)
    server.operator.groups.forget(f"g{GROUPS - 1:03}")
    assert [view.group for view in count_steps(going)[1]] == [f"g{number:03}" for number in range(GROUPS - 1)]


def test_groups_are_removed_in_steps_and_others_are_not_waited_for() -> None:
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    removal = server.operator.groups.forget_all_in_steps("g", ("g00",))
    counts = [GROUPS]
    while counts[-1] == GROUPS:
        next(removal)
        counts.append(len(server.operator.groups.names()))
    assert 10 < counts[-1] < GROUPS
    server.operator.groups.forget(f"g{GROUPS - 1:03}")
    assert count_steps(removal)[1] == GROUPS - 10
    assert server.operator.groups.names() == [f"g00{number}" for number in range(10)]


def test_a_reset_of_a_prefix_is_done_to_its_end_though_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next start would remove what was made since."""
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    monkeypatch.setattr(verb_calls, "thread_time", itertools.count().__next__)  # each step has used enough
    client, note = trio.CancelScope(), PendingReset.note

    def note_and_leave(pending: PendingReset, what: bytes, *, is_synced: bool) -> None:
        note(pending, what, is_synced=is_synced)
        client.cancel()

    async def ask() -> None:
        with client:
            await ControlPort(server).answer(Request("POST", "/v1/reset", "", body=b'{"prefix": "g"}'))

    monkeypatch.setattr(PendingReset, "note", note_and_leave)
    trio.run(ask)
    assert client.cancelled_caught
    assert server.operator.groups.names() == []
    assert not server.files.exists("data/muster.reset")


@pytest.mark.parametrize("verb", ["reset", "restore"])
def test_no_client_is_served_between_the_members_that_are_kept_out_and_the_next_node(verb: str) -> None:
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    server.operator.state.take_snapshot("kept")
    old, seen = server.node, list[tuple[bool, bool]]()
    state = server.operator.state
    for wait in state.reset_in_steps() if verb == "reset" else state.restore_in_steps("kept"):
        seen.append((server.node is old, server.poller.is_held))
        if wait is not None:
            wait()
    assert (True, True) in seen and (False, True) not in seen
    assert not server.poller.is_held and server.node is not old
    server.connect().ask(commit("g", {"orders": {0: 1}}), 8)


class BusyNode(SteeredNode):
    """A server with a client that commits as soon as it is served again, before all of a restart is done."""

    def restart_in_steps(self, opened: Callable[[], None]) -> Waits[None]:
        steps, has_committed = super().restart_in_steps(opened), False
        for wait in steps:
            yield wait
            if not (self.poller.is_held or has_committed):
                self.connect().ask(commit("g000", {"orders": {0: 7}}), 8)
                has_committed = True


@pytest.mark.parametrize("path", ["/reset", "/snapshots/kept/restore"])
def test_what_clients_do_before_a_restart_has_ended_is_after_it(path: str) -> None:
    server = BusyNode(topics={"orders": 1}, journal_bytes=1 << 20)
    port = ControlPort(server)
    server.operator.state.seed(STATE)
    server.operator.state.take_snapshot("kept")
    for _ in range(2):
        server.connect().ask(commit("g000", {"orders": {0: 7}}), 8)
    assert port.call("POST", path, {} if path == "/reset" else None).status == 200
    verdict = port.call("POST", "/verify", {"expect": [{"api": "OffsetCommit", "group": "g000", "times": 1}]})
    assert verdict.status == 200, verdict.body


HOLDING = (("/v1/clock/advance", b'{"ms": 60000}'), ("/v1/clock/step", b"{}"),
           ("/v1/reset", b"{}"), ("/v1/snapshots/kept/restore", b"{}"))  # fmt: skip


@pytest.mark.parametrize("one", HOLDING)
@pytest.mark.parametrize("other", HOLDING)
def test_verbs_that_hold_clients_follow_each_other(
    one: tuple[str, bytes], other: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first to end lets go of the clients that the other one holds, or those it has held wait for ever."""
    server = SteeredNode(topics={"orders": 1})
    server.operator.state.seed(STATE)
    server.operator.state.take_snapshot("kept")
    monkeypatch.setattr(verb_calls, "thread_time", itertools.count().__next__)  # each step has used enough
    port, statuses = ControlPort(server), list[int]()

    async def ask(path: str, body: bytes) -> None:
        statuses.append((await port.answer(Request("POST", path, "", body=body))).status)

    async def ask_at_once() -> None:
        async with trio.open_nursery() as nursery:
            for path, body in (one, other, one):
                nursery.start_soon(ask, path, body)

    trio.run(ask_at_once)
    assert statuses.count(200) + statuses.count(409) == 3, statuses
    both_restart = "clock" not in one[0] + other[0]
    assert both_restart or statuses.count(409) <= ("clock" not in one[0]), "the clock waits until it can be moved"
    assert not server.poller.is_held
    assert not server.connect().ask(commit("g", {"orders": {0: 1}}), 8).topics[0].partitions[0].error_code


@pytest.mark.parametrize("authorizer", ["", AUTHORIZER])
def test_what_is_seeded_and_reset_is_there_and_gone_when_the_verb_is_over(authorizer: str) -> None:
    """However many steps the requests take that it consists of, and whatever rights clients need. A topic that is made
    at once under a name of before stays, and a journal has all of it."""
    server = SteeredNode(topics={}, authorizer_class_name=authorizer, journal_bytes=1 << 20)
    server.frontend.turn.seconds = 0.0  # a step a turn
    names = [f"p{number:03}" for number in range(180)]
    for state in cut_state(State(dict.fromkeys(names, 1), {"p": {name: {"0": 5} for name in names}})):
        server.operator.state.seed(state)
    assert list(server.operator.state.contents().offsets["p"]) == names
    steps, counts = count_steps(server.operator.state.reset_prefix_in_steps("p", ("p000",)))
    assert counts == (1, 179)
    assert steps > 5
    assert server.operator.state.contents() == State({"p000": 1})
    server.operator.state.seed(State({"p179": 2}))
    server.rest()
    assert server.operator.state.contents() == State({"p000": 1, "p179": 2})
    files = MemoryFiles()
    assert Replay(read_journal(write_journal(server.operator.requests.journal)), files, "again").run() == []
    assert read_logs(files, "again") == server.take_snapshot()
