"""A reset and a restore are whole: cut off at any call to the disk, a server finds what was before or what was to be."""

import errno
from collections.abc import Callable, Generator
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config import Config
from coordinator.core import pace
from coordinator.runtime import log_pace
from coordinator.runtime.node import Node
from coordinator.runtime.snapshot import Snapshot
from coordinator.server.verbs.queues import Queue, QueueRecords
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import PrefixReset, State
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.steps import finish_steps
from storage import pending_reset, replacement
from storage.files import StorageError
from storage.pending_reset import PendingReset
from tests.control.control_port import ControlPort
from tests.control.steered import SteeredNode
from tests.reachable import find_reachable
from tests.requests import commit, fetch_offsets
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

BEFORE = State({"orders": 2, "new": 1}, {"g1": {"orders": {"0": 7}}, "g2": {"new": {"0": 3}}})
KEPT = State({"orders": 2}, {"g1": {"orders": {"0": 5}}})
EMPTY = State({"orders": 2})
VERBS = pytest.mark.parametrize(
    ("verb", "after"),
    [
        (lambda server: server.operator.state.reset(), EMPTY),
        (lambda server: server.operator.state.restore("kept"), KEPT),
    ],
    ids=["reset", "restore"],
)
_OVER = object()
Verb = Callable[[SteeredNode], None]
Started = tuple[SteeredNode, CrashingDisk]


def serve(disk: CrashingDisk, *, is_synced: bool = False) -> SteeredNode:
    """Start a server as `muster serve` does."""
    replacement.finish(disk, "data")
    return SteeredNode(files=disk, topics={"orders": 2}, offsets_topic_num_partitions=3, is_synced=is_synced)


def prepare() -> Started:
    """A server with a snapshot, and with what has happened since."""
    disk = CrashingDisk()
    disk.make_directory("data")
    server = serve(disk)
    server.operator.state.seed(KEPT)
    server.operator.state.take_snapshot("kept")
    server.operator.state.seed(BEFORE)
    assert server.operator.state.contents() == BEFORE
    return server, disk


@VERBS
def test_a_server_that_was_killed_has_the_old_state_or_the_new_one(verb: Verb, after: State) -> None:
    kill_at_each_call(prepare, verb, BEFORE, after)


def kill_at_each_call(begin: Callable[[], Started], verb: Verb, before: State, after: State) -> None:
    """Start anew, and kill the server at each call that the verb makes to the disk: the next start has one of the two."""
    server, disk = begin()
    first = disk.calls
    verb(server)
    assert server.operator.state.contents() == after
    found = []
    for number in range(first + 1, disk.calls + 1):
        server, disk_again = begin()
        disk_again.killed_at = number
        with pytest.raises(ProcessKill):
            verb(server)
        contents = serve(disk_again.copy()).operator.state.contents()
        assert contents in (before, after), f"killed at call {number}"
        found.append(contents == after)
    assert found == sorted(found), "once the new state is there, it stays"
    assert len(set(found)) == 2


@VERBS
def test_a_producer_id_is_given_to_one_producer_only(verb: Verb, after: State) -> None:
    """Producers outlive a reset: what one of them sends would be taken for what the other has sent before."""
    server, disk = prepare()
    given = [take_producer_id(server) for _ in range(3)]
    verb(server)
    given.append(take_producer_id(server))
    given.append(take_producer_id(serve(disk.copy())))
    assert len(set(given)) == len(given)


def take_producer_id(server: SteeredNode) -> int:
    """Ask for a producer id, as a producer without transactions does."""
    response = server.connect("producer").ask(InitProducerIdRequest(None, 0), 4)
    assert response.error_code == ErrorCode.NONE
    return int(response.producer_id)


@VERBS
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_first_changes_nothing(verb: Verb, after: State, reason: int) -> None:
    server, disk = prepare()
    connection = server.connect("client").connection
    disk.refuse = lambda operation, path: reason if replacement.INCOMING in path else 0
    with pytest.raises(Refusal, match="nothing has changed: ") as refusal:
        verb(server)
    assert refusal.value.failure is not None
    assert refusal.value.failure.is_full == (reason == errno.ENOSPC)
    assert not connection.closing
    assert server.operator.state.contents() == BEFORE
    disk.refuse = lambda operation, path: 0
    server.operator.state.seed(State({}, {"g1": {"orders": {"0": 8}}}))
    assert serve(disk.copy()).operator.state.contents().offsets["g1"] == {"orders": {"0": 8}}
    verb(server)
    assert server.operator.state.contents() == after


def test_an_abandoned_node_refuses_everything() -> None:
    server, disk = prepare()
    old: Node = server.node
    server.operator.state.reset()
    contents = disk.contents()
    with pytest.raises(StorageError, match="the log is abandoned"):
        old.world.partitions[0].log.append(b"x" * 100)
    assert old.engine._routes == {}
    assert disk.contents() == contents


def test_a_snapshot_that_is_too_large_is_not_read() -> None:
    server, disk = prepare()
    kept = server.operator.held_bytes()["snapshots"]
    assert kept == sum(server.operator.state.snapshots().values()) > 300
    server.node.world.config = Config({"snapshots.max.bytes": 300})
    disk.refuse = lambda operation, path: errno.EIO if operation == "read" else 0
    with pytest.raises(Refusal, match="snapshots may take 300 bytes in all"):
        server.operator.state.take_snapshot("large")


def test_a_snapshot_is_taken_again_where_there_is_room_for_one() -> None:
    """The one of before goes: it does not count, nor stay where the new one is refused."""
    server, _ = prepare()
    state = server.operator.state
    for name in list(state.snapshots()):
        state.remove_snapshot(name)
    size = state.take_snapshot("one")
    server.node.world.config = Config({"snapshots.max.bytes": size + size // 2})
    assert state.take_snapshot("one") == size
    with pytest.raises(Refusal, match="snapshots may take"):
        state.take_snapshot("two")
    assert state.snapshots() == {"one": size}


def test_snapshots_take_as_much_as_they_may_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are taken at one time: the second one counts as soon as it is there."""
    server, _ = prepare()
    state = server.operator.state
    state.remove_snapshot("kept")
    size = state.take_snapshot("one")
    server.node.world.config = Config({"snapshots.max.bytes": 2 * size})
    read = server.begin_snapshot

    def read_slowly() -> Generator[None, None, Snapshot]:
        yield
        return (yield from read())

    monkeypatch.setattr(server, "begin_snapshot", read_slowly)
    taking = state.take_snapshot_in_steps("slow")
    next(taking)
    state.take_snapshot("quick")
    with pytest.raises(Refusal, match=f"snapshots may take {2 * size} bytes in all"):
        finish_steps(taking)
    assert state.snapshots() == {"one": size, "quick": size}
    state.remove_snapshot("one")
    assert state.take_snapshot("two") == size
    server.node.world.config = Config({"snapshots.max.bytes": 2 * size - 1})
    with pytest.raises(Refusal, match="snapshots may take"):
        state.take_snapshot("two")


def reset_prefix(server: SteeredNode, prefix: str, *keep: str) -> tuple[int, int]:
    return finish_steps(server.operator.state.reset_prefix_in_steps(prefix, keep))


PREFIXED = State(
    {"a-orders": 2, "a-kept": 1, "b-orders": 1},
    {
        "a-g1": {"a-orders": {"0": 7, "1": 8}},
        "a-g2": {"b-orders": {"0": 3}, "a-orders": {"0": 1}},
        "a-kept-g": {"b-orders": {"0": 4}},
        "b-g": {"a-orders": {"0": 5}, "b-orders": {"0": 6}},
    },
    {
        "a-s": {"b-orders": {"0": Queue(4, [QueueRecords(5, 6)])}, "orders": {"1": Queue(2)}},
        "a-kept-s": {"a-orders": {"1": Queue(1)}, "b-orders": {"0": Queue(3)}},
    },
)
REST = State(
    {"a-kept": 1, "b-orders": 1, "orders": 2},
    {"a-kept-g": {"b-orders": {"0": 4}}, "b-g": {"b-orders": {"0": 6}}},
    {"a-kept-s": {"b-orders": {"0": Queue(3)}}},
)


def prepare_prefixes(*, is_synced: bool = False) -> Started:
    disk = CrashingDisk()
    disk.make_directory("data")
    server = serve(disk, is_synced=is_synced)
    server.operator.state.seed(PREFIXED)
    return server, disk


def test_a_reset_of_a_prefix_is_whole_whenever_the_server_is_killed() -> None:
    """Many appends to many logs: a start does the rest, once the first of them may have been made."""
    server, disk = prepare_prefixes()
    before, first = server.operator.state.contents(), disk.calls
    assert reset_prefix(server, "a-", "a-kept") == (3, 1)
    assert server.operator.state.contents() == REST
    assert serve(disk.copy()).operator.state.contents() == REST
    found = []
    for number in range(first + 1, disk.calls + 1):
        server, left = prepare_prefixes()
        left.killed_at = number
        with pytest.raises(ProcessKill):
            reset_prefix(server, "a-", "a-kept")
        again = left.copy()
        contents = serve(again).operator.state.contents()
        assert contents in (before, REST), f"killed at call {number}"
        assert not again.exists(f"data/{pending_reset.NAME}")
        found.append(contents == REST)
    assert found == sorted(found) and len(set(found)) == 2


def test_a_start_finishes_all_resets_that_were_cut_off() -> None:
    """Of several workers of a test run, each with what it keeps."""
    server, disk = prepare_prefixes()
    resets = [PrefixReset("a-", ("a-kept",)), PrefixReset("b-"), PrefixReset("a-kept")]
    server.pending_reset.note(msgspec.json.encode(resets), is_synced=True)
    assert serve(disk.copy()).operator.state.contents() == State({"orders": 2})


def test_a_reset_that_begins_while_the_start_finishes_another_leaves_that_one_noted() -> None:
    """The admin port answers as soon as all is loaded: a server that is killed then must do the rest of both."""
    for is_first_over_first in (True, False):
        server, disk = prepare_prefixes()
        server.pending_reset.note(msgspec.json.encode([PrefixReset("a-")]), is_synced=True)
        state = server.operator.state
        cut_off = state.finish_reset_in_steps()
        next(cut_off)
        new = state.reset_prefix_in_steps("b-", ())
        next(new)
        assert serve(disk.copy()).operator.state.contents() == State({"orders": 2}), "both are noted"
        finish_steps(new if is_first_over_first else cut_off)
        assert serve(disk.copy()).operator.state.contents() == State({"orders": 2}), "the other one still is"
        finish_steps(cut_off if is_first_over_first else new)
        assert not disk.exists(f"data/{pending_reset.NAME}")
        assert state.contents() == State({"orders": 2})


@pytest.mark.parametrize("kept", [0, 1, 10, None], ids=["nothing", "a byte", "ten bytes", "zeros"])
def test_a_power_cut_that_loses_the_note_of_a_reset_does_not_refuse_the_start(kept: int | None) -> None:
    """Without --fsync the name of a file may be on the disk before its contents."""
    server, disk = prepare_prefixes()
    before = server.operator.state.contents()
    note = msgspec.json.encode([PrefixReset("a-")])
    server.pending_reset.note(bytes(len(note)) if kept is None else note[:kept], is_synced=False)
    left = disk.copy()
    assert serve(left).operator.state.contents() == before
    assert not left.exists(f"data/{pending_reset.NAME}")


def test_the_state_has_no_offsets_of_topics_that_are_gone() -> None:
    """A topic is gone at once, and the offsets of its partitions go in steps."""
    server, disk = prepare_prefixes()
    server.operator.state.seed(State({"a-wide": 1_500}, {"b-g": {"a-wide": {str(index): 1 for index in range(1_500)}}}))
    server.frontend.turn.seconds = 0.0  # so that each step is a turn of its own
    assert reset_prefix(server, "a-", "a-kept") == (3, 2)
    assert any("a-wide" in view.offsets for view in finish_steps(server.operator.groups.views_in_steps("b-")))
    assert server.operator.state.contents() == REST
    assert serve(disk.copy()).operator.state.contents() == REST


def test_a_reset_is_noted_whole_whatever_an_earlier_one_has_left() -> None:
    """Killed at any call, by the next start as well, and then reset again by another prefix: that one counts."""
    disk = CrashingDisk()
    disk.make_directory("data")
    noted, calls = PendingReset(disk, "data"), disk.calls
    noted.note(b"a long note of some prefixes", is_synced=True)
    for number in range(calls + 1, disk.calls + 1):
        left = CrashingDisk()
        left.make_directory("data")
        left.killed_at = left.calls + number - calls
        with pytest.raises(ProcessKill):
            PendingReset(left, "data").note(b"a long note of some prefixes", is_synced=True)
        again = PendingReset(left.copy(), "data")
        again.note(b"another one", is_synced=True)
        assert again.read() == b"another one"
        again.clear(is_synced=True)
        assert again.read() is None


@given(st.lists(st.sampled_from([b"one prefix", b"two", None]), max_size=6))
def test_what_is_noted_with_fsync_and_what_is_cleared_survive_a_power_cut(acts: list[bytes | None]) -> None:
    """A note that came back after its reset would remove what clients have made since then."""
    disk = CrashingDisk()
    disk.make_directory("data")
    noted = PendingReset(disk, "data")
    for note in acts:
        if note is None:
            noted.clear(is_synced=True)
        else:
            noted.note(note, is_synced=True)
        for how, left in disk.crashes():
            assert PendingReset(left, "data").read() == note, how


def test_what_is_made_after_a_reset_survives_a_power_cut() -> None:
    server, disk = prepare_prefixes(is_synced=True)
    reset_prefix(server, "a-")
    server.operator.state.seed(State({}, {"a-new": {"orders": {"0": 5}}}))
    after = server.operator.state.contents()
    for how, left in disk.crashes():
        assert serve(left, is_synced=True).operator.state.contents() == after, how


def test_resets_of_two_prefixes_at_a_time_are_both_finished() -> None:
    """Workers of a test run share a server: one is still deleting topics when the other begins."""
    server, disk = prepare_prefixes()
    server.operator.state.seed(State({f"a-{number}": 200 for number in range(3)}, {}))
    first = server.operator.state.reset_prefix_in_steps("a-", ())
    next(first)
    second = server.operator.state.reset_prefix_in_steps("b-", ())
    next(second)
    assert serve(disk.copy()).operator.state.contents() == EMPTY
    finish_steps(second)
    left = serve(disk.copy()).operator.state.contents()
    assert left == EMPTY
    finish_steps(first)
    assert not disk.exists(f"data/{pending_reset.NAME}")
    assert server.operator.state.contents() == EMPTY


@pytest.mark.parametrize("restart", ["reset", "restore"])
def test_a_reset_of_a_prefix_ends_with_a_reset_or_a_restore_of_everything(
    restart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reset of the prefix removes nothing of what that has put in place, now or after a start, whenever it goes on."""
    server, disk = prepare_prefixes()
    state = server.operator.state
    state.take_snapshot("kept")
    monkeypatch.setattr(pace, "UNITS", 1)
    after = state.contents() if restart == "restore" else EMPTY
    number = 1
    while True:
        steps = state.reset_prefix_in_steps("a-", ("a-kept",))
        if any(next(steps, _OVER) is _OVER for _ in range(number)):
            break
        state.reset() if restart == "reset" else state.restore("kept")
        another = state.reset_prefix_in_steps("c-", ())
        for _ in range(2):
            assert serve(disk.copy()).operator.state.contents() == after, "the server is killed before it goes on"
            next(another)
        finish_steps(another)
        finish_steps(steps)
        assert state.contents() == after
        assert serve(disk.copy()).operator.state.contents() == after
        assert not disk.exists(f"data/{pending_reset.NAME}")
        state.restore("kept")
        number += 1
    assert number > 5, "it has steps"


@VERBS
def test_a_reset_of_a_prefix_is_done_of_the_old_logs_or_of_none(
    verb: Verb, after: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is under way when all logs are replaced, and the server is killed at any call to the disk."""
    monkeypatch.setattr(pace, "UNITS", 1)

    def begin() -> Started:
        server, disk = prepare()
        next(server.operator.state.reset_prefix_in_steps("g", ()))
        return server, disk

    kill_at_each_call(begin, verb, State(BEFORE.topics), after)


@pytest.mark.parametrize("place", [f"remove data/{pending_reset.NAME}", "sync directory data"])
def test_a_reset_of_a_prefix_whose_end_cannot_be_noted_ends_the_server(place: str) -> None:
    """Else the next start would remove what has been made under the prefix since."""
    server, disk = prepare_prefixes(is_synced=True)
    steps = server.operator.state.reset_prefix_in_steps("a-", ())
    next(steps)
    disk.refuse = partial(fail_at, place)
    with pytest.raises(StorageError) as raised:
        finish_steps(steps)
    assert server.failure is raised.value


def fail_at(place: str, operation: str, path: str) -> int:
    return errno.EIO if place in f"{operation} {path}" else 0


def test_a_reset_of_a_prefix_that_cannot_be_noted_leaves_the_note_of_another() -> None:
    """That one is still going on, and is finished whenever the server is killed; the other one never is."""
    server, disk = prepare_prefixes(is_synced=True)
    first = server.operator.state.reset_prefix_in_steps("a-", ())
    next(first)
    for place in (f"open data/{pending_reset.NAME}", "sync directory data"):
        disk.refuse = partial(fail_at, place)
        with pytest.raises(Refusal, match="nothing has changed: "):
            reset_prefix(server, "b-")
        disk.refuse = lambda operation, path: 0
        again = serve(disk.copy()).operator.state.contents()
        assert again == State({"b-orders": 1, "orders": 2}, {"b-g": {"b-orders": {"0": 6}}}), place
    finish_steps(first)
    assert not disk.exists(f"data/{pending_reset.NAME}")


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("place", [pending_reset.NAME, "sync directory data"])
def test_a_reset_of_a_prefix_that_cannot_be_noted_changes_nothing(reason: int, place: str) -> None:
    server, disk = prepare_prefixes(is_synced=True)
    before = server.operator.state.contents()
    disk.refuse = lambda operation, path: reason if place in f"{operation} {path}" else 0
    with pytest.raises(Refusal, match="nothing has changed: "):
        reset_prefix(server, "a-")
    answer = ControlPort(server).call("POST", "/reset", {"prefix": "a-"})
    assert answer.status == (507 if reason == errno.ENOSPC else 500), answer
    disk.refuse = lambda operation, path: 0
    assert server.operator.state.contents() == before
    assert serve(disk.copy()).operator.state.contents() == before


def test_a_reset_of_a_prefix_that_is_refused_is_not_done_by_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    server, disk = prepare_prefixes()

    def refuse(*_: object) -> None:
        raise Refusal("group 'a-g1' is being loaded", is_conflict=True)

    monkeypatch.setattr(server.operator.groups, "forget_all_in_steps", refuse)
    with pytest.raises(Refusal, match="is being loaded"):
        reset_prefix(server, "a-")
    assert serve(disk.copy()).operator.state.contents().offsets == PREFIXED.offsets
    server.pending_reset.note(msgspec.json.encode([PrefixReset("a-"), PrefixReset("b-")]), is_synced=False)
    finish_steps(server.operator.state.finish_reset_in_steps())  # no group can be removed: the server starts
    assert not disk.exists(f"data/{pending_reset.NAME}")
    assert server.operator.state.contents().offsets == PREFIXED.offsets


def test_clients_are_served_between_the_steps_of_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs are written by a thread, and loaded in steps: until then their groups are being loaded."""
    monkeypatch.setattr(log_pace, "STEP_RECORDS", 1)
    server, disk = prepare()
    peer = server.connect()
    steps = server.operator.state.restore_in_steps("kept")
    wait = next(steps)
    assert wait is not None, "the logs are written first, by a thread"
    calls = disk.calls
    assert server.operator.state.contents() == BEFORE
    assert not peer.ask(commit("g1", {"orders": {0: 9}}), 8).topics[0].partitions[0].error_code
    for again in (server.operator.state.reset, lambda: server.operator.state.restore("kept")):
        with pytest.raises(Refusal, match="a reset or a restore is under way"):
            again()
    wait()
    assert disk.calls > calls
    codes = []
    for wait in steps:
        if wait is not None:
            wait()  # opens a log
        (partition,) = server.connect().ask(fetch_offsets("g1", {"orders": (0,)}), 8).groups
        codes.append(partition.error_code)
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes
    assert server.operator.state.contents() == KEPT
    server.operator.state.restore("kept")


def test_a_snapshot_whose_catalog_cannot_be_read_changes_nothing() -> None:
    server, disk = prepare()
    connection = server.connect("client").connection
    snapshot = server.operator.state.snapshot("kept")
    (path,) = [path for path in snapshot if path.startswith("__muster_catalog-0/") and path.endswith(".log")]
    content = bytearray(snapshot[path])
    content[70] ^= 1  # in the first of several batches: no torn write
    server.operator.state._snapshots["kept"] = {**snapshot, path: bytes(content)}
    with pytest.raises(Refusal, match="nothing has changed: "):
        server.operator.state.restore("kept")
    assert not connection.closing
    assert server.operator.state.contents() == serve(disk.copy()).operator.state.contents() == BEFORE
    assert not [name for name in disk.list("data") if name.startswith(".")]


@VERBS
def test_nothing_that_serves_clients_refers_to_the_node_before(verb: Verb, after: State) -> None:
    """Users, quotas, rights, metrics: whoever looked into the former node would know what is no more."""
    server, _ = prepare()
    parts = (server.frontend, server.poller, server.operator)
    old = server.node
    assert all(id(old.engine) in find_reachable(part) for part in parts)
    verb(server)
    for part in parts:
        reached = find_reachable(part)
        assert id(server.node.engine) in reached
        for former in (old, old.engine, old.world, old.world.ledger, old.world.ledger.catalog):
            assert id(former) not in reached, f"{type(part).__name__} refers to a former {type(former).__name__}"


def test_a_catalog_that_is_read_ahead_is_at_its_place() -> None:
    server, disk = prepare()
    server.operator.state.restore("kept")
    log = server.node.world.ledger.log
    assert log.directory == "data/__muster_catalog-0"
    assert all(segment.path.startswith(f"{log.directory}/") for segment in log.segments)
    server.operator.state.seed(State({"more": 3}))
    assert serve(disk.copy()).operator.state.topics() == {"more": 3, "orders": 2}
