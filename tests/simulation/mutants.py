"""Servers with one mistake each. A promise that none of them breaks would promise nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.record_types import GroupMetadataKey, OffsetCommitKey, single_records
from coordinator.core.result import Reply, Result
from coordinator.core.shard import Shard
from coordinator.core.timers import Timers
from coordinator.runtime.engine import Engine
from coordinator.runtime.ledger import Ledger
from coordinator.runtime.node import Node
from coordinator.runtime.partition import Partition
from coordinator.server.encoder import Encoder
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupResponse
from storage.log import Log
from storage.producers import Producers

Plant = Callable[[pytest.MonkeyPatch], None]
MUTANTS: Final[dict[str, Plant]] = {}


def mutant(plant: Plant) -> Plant:
    """Register a mistake; its docstring says what it does."""
    MUTANTS[plant.__name__] = plant
    return plant


def _wrap(patch: pytest.MonkeyPatch, cls: type, name: str, after: Callable[..., Any]) -> None:
    """Let `after(result, self, *arguments)` decide what the method returns."""
    method = getattr(cls, name)
    patch.setattr(cls, name, lambda self, *args, **named: after(method(self, *args, **named), self, *args))


def _instead(patch: pytest.MonkeyPatch, cls: type, name: str, function: Callable[..., Any]) -> None:
    """Call `function(method, self, *arguments)` in place of the method."""
    method = getattr(cls, name)
    patch.setattr(cls, name, lambda self, *args, **named: function(method, self, *args, **named))


# -- the step ----------------------------------------------------------------------------------------------------------


@mutant
def forgets_every_fiftieth_offset(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge a commit that is in the log and not in memory."""
    seen = [0]

    def apply(method: Any, shard: Shard, records: Any, producer_id: int) -> None:
        kept = []
        for record in single_records(records):
            seen[0] += 1
            if seen[0] % 50:
                kept.append(record)
        method(shard, kept, producer_id)

    _instead(patch, Shard, "_apply_offsets", apply)


@mutant
def writes_no_offsets_of_one_partition(patch: pytest.MonkeyPatch) -> None:
    """Keep an offset in memory and not in the log."""

    def write(method: Any, partition: Partition, result: Result[Any], now_ms: int) -> None:
        kept = tuple(
            r for r in single_records(result.records) if not (type(r.key) is OffsetCommitKey and r.key.partition == 1)
        )
        if kept:
            method(partition, replace(result, records=kept), now_ms)

    _instead(patch, Partition, "write", write)


@mutant
def writes_no_group(patch: pytest.MonkeyPatch) -> None:
    """Make a generation stable, and do not write it down."""

    def write(method: Any, partition: Partition, result: Result[Any], now_ms: int) -> None:
        kept = tuple(r for r in single_records(result.records) if type(r.key) is not GroupMetadataKey)
        if kept:
            method(partition, replace(result, records=kept), now_ms)

    _instead(patch, Partition, "write", write)


@mutant
def shows_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    """Show what a transaction has not committed yet."""
    _instead(patch, Shard, "_apply_offsets", lambda method, shard, records, producer_id: method(shard, records, -1))


@mutant
def commits_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    """Commit the pending offsets at every end of a transaction."""
    _instead(
        patch, Shard, "end_transaction", lambda method, shard, producer_id, committed: method(shard, producer_id, True)
    )


@mutant
def loses_a_parked_join(patch: pytest.MonkeyPatch) -> None:
    """Answer all but one of those who wait for the join phase."""

    def done(result: Result[Any], shard: Shard, *_: Any) -> Result[Any]:
        joins = [e for e in result.effects if type(e) is Reply and isinstance(e.response, JoinGroupResponse)]
        return replace(result, effects=tuple(e for e in result.effects if e not in joins[1:2]))

    _wrap(patch, Shard, "_finish", done)


@mutant
def gives_everybody_the_same(patch: pytest.MonkeyPatch) -> None:
    """Answer every SyncGroup with the largest assignment so far."""
    given: list[bytes] = []

    def largest(response: Any) -> Any:
        if not isinstance(response, SyncGroupResponse) or not response.assignment:
            return response
        given.append(response.assignment)
        return replace(response, assignment=max(given, key=len))

    def done(result: Result[Any], shard: Shard, *_: Any) -> Result[Any]:
        effects = [
            replace(effect, response=largest(effect.response)) if type(effect) is Reply else effect
            for effect in result.effects
        ]
        return replace(result, response=largest(result.response), effects=tuple(effects))

    _wrap(patch, Shard, "handle", done)


@mutant
def counts_generations_anew(patch: pytest.MonkeyPatch) -> None:
    """Begin with generation 0 when a group is empty."""

    def put(method: Any, shard: Shard, group: Any) -> None:
        if isinstance(group, ClassicGroup) and group.is_empty and group.generation:
            group = replace(group, generation=0)
        method(shard, group)

    _instead(patch, Shard, "_put", put)


@mutant
def falls_back_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """Forget an epoch of a consumer group now and then."""
    seen = [0]

    def put(method: Any, shard: Shard, group: Any) -> None:
        seen[0] += 1
        if isinstance(group, ConsumerGroup) and group.epoch > 3 and not seen[0] % 20:
            group = replace(group, epoch=group.epoch - 2)
        method(shard, group)

    _instead(patch, Shard, "_put", put)


@mutant
def miscounts_the_joined(patch: pytest.MonkeyPatch) -> None:
    """Believe that one more has joined than has."""

    def put(method: Any, shard: Shard, group: Any) -> None:
        if isinstance(group, ClassicGroup) and group.joined == 1 and len(group.members) > 1:
            group = replace(group, joined=2)
        method(shard, group)

    _instead(patch, Shard, "_put", put)


# -- timers ------------------------------------------------------------------------------------------------------------


@mutant
def keeps_timers_of_members_who_left(patch: pytest.MonkeyPatch) -> None:
    """Cancel nothing when a member goes."""
    _instead(patch, Timers, "cancel_member", lambda method, timers, group_id, member_id: None)


@mutant
def keeps_timers_of_groups_that_ended(patch: pytest.MonkeyPatch) -> None:
    """Cancel nothing when a group changes its class or ends."""
    _instead(patch, Timers, "cancel_group", lambda method, timers, group_id: None)


@mutant
def sets_no_sessions(patch: pytest.MonkeyPatch) -> None:
    """Let no session end."""

    def set_(method: Any, timers: Timers, key: Any, at_ms: int) -> None:
        if key[0] != "session":
            method(timers, key, at_ms)

    _instead(patch, Timers, "set", set_)


@mutant
def never_ends_a_join_phase(patch: pytest.MonkeyPatch) -> None:
    """Do not notice that the join phase has lasted long enough."""

    def set_(method: Any, timers: Timers, key: Any, at_ms: int) -> None:
        method(timers, key, at_ms + 3_600_000 if key[0] == "join" else at_ms)

    _instead(patch, Timers, "set", set_)


# -- the node, its ledger and its frontend -----------------------------------------------------------------------------


@mutant
def syncs_no_groups(patch: pytest.MonkeyPatch) -> None:
    """With --fsync, do not wait for the disk."""
    _instead(patch, Log, "sync", lambda method, log: None)


@mutant
def answers_before_it_appends(patch: pytest.MonkeyPatch) -> None:
    """Append what a turn has led to in the next turn only."""
    waits: list[bool] = [False]

    def flush(method: Any, partition: Partition) -> int:
        waits[0] = not waits[0]
        return 0 if waits[0] else int(method(partition))

    _instead(patch, Partition, "flush", flush)


@mutant
def forgets_that_transactions_end(patch: pytest.MonkeyPatch) -> None:
    """Do not write down that a transaction is complete."""

    def complete(method: Any, ledger: Ledger, result: Result[Any], now_ms: int) -> None:
        method(ledger, replace(result, records=()), now_ms)

    _instead(patch, Ledger, "complete", complete)


@mutant
def writes_no_catalog(patch: pytest.MonkeyPatch) -> None:
    """Lose every tenth write to the catalog's log."""
    seen = [0]

    def append(method: Any, log: Log, batches: Any) -> Any:
        seen[0] += 1
        if "__muster_catalog" in log.directory and not seen[0] % 10:
            return log.end_offset
        return method(log, batches)

    _instead(patch, Log, "append", append)


@mutant
def writes_no_markers(patch: pytest.MonkeyPatch) -> None:
    """End a transaction without its markers in the coordinator's logs."""
    _instead(patch, Engine, "_write_marker", lambda method, engine, *args: None)


@mutant
def raises_in_a_heartbeat(patch: pytest.MonkeyPatch) -> None:
    """Fail in one of a hundred heartbeats."""
    seen = [0]

    def handle(method: Any, shard: Shard, request: Any, call: Any) -> Any:
        result = method(shard, request, call)
        seen[0] += isinstance(result.response, HeartbeatResponse)
        if seen[0] == 100:
            seen[0] = 0
            raise KeyError("a mistake")
        return result

    _instead(patch, Shard, "handle", handle)


@mutant
def answers_twice(patch: pytest.MonkeyPatch) -> None:
    """Send the answer to a commit twice now and then."""
    seen = [0]

    def owe(method: Any, encoder: Encoder, connection: Any, request: Any, response: Any) -> bytes:
        data = method(encoder, connection, request, response)
        seen[0] += isinstance(response, OffsetCommitResponse)
        if seen[0] == 20:
            seen[0] = 0
            method(encoder, connection, request, response)
        return data

    _instead(patch, Encoder, "owe_short", owe)


@mutant
def answers_nothing(patch: pytest.MonkeyPatch) -> None:
    """Do not answer a commit now and then."""
    seen = [0]

    def owe(method: Any, encoder: Encoder, connection: Any, request: Any, response: Any) -> bytes:
        seen[0] += isinstance(response, OffsetCommitResponse)
        if seen[0] == 20:
            seen[0] = 0
            return b""
        return method(encoder, connection, request, response)

    _instead(patch, Encoder, "owe_short", owe)


# -- recovery ----------------------------------------------------------------------------------------------------------


@mutant
def starts_no_sessions(patch: pytest.MonkeyPatch) -> None:
    """Start without the sessions of the members that are in the log."""
    _instead(patch, Shard, "_restart", lambda method, shard, group, now_ms: Result(group))


@mutant
def finishes_no_transactions(patch: pytest.MonkeyPatch) -> None:
    """Start without the markers that a crash has cut off."""
    _instead(patch, Node, "finish_transactions", lambda method, node, now_ms: None)


@mutant
def forgets_aborts(patch: pytest.MonkeyPatch) -> None:
    """Tell readers of no aborted transaction."""
    _wrap(patch, Producers, "find_aborted", lambda found, *_: [])
