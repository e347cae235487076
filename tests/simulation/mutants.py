"""Servers with one mistake each. A promise that none of them breaks would promise nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.consumer import reconcile
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.record_types import GroupMetadataKey, OffsetCommitKey, single_records
from coordinator.core.result import Reply, Result
from coordinator.core.shard import Shard
from coordinator.core.timers import Timers
from coordinator.runtime.group_commit import GroupCommit
from coordinator.runtime.ledger import Ledger
from coordinator.runtime.partition import Partition
from coordinator.runtime.recorder import Recorder
from coordinator.server.encoder import Encoder
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupResponse
from storage.log import Log
from storage.producers import Producers
from tests.mistakes import Faulty, Plant, replacing

MUTANTS: Final[dict[str, Plant]] = {}


def instead(cls: Any, name: str, *, every: int = 1) -> Callable[[Faulty], Faulty]:
    """Register a mistake: call it as `faulty(method, self, *arguments)` in place of a method, at one of so many calls.

    `cls` may be a module, whose functions have no `self`.
    """

    def register(faulty: Faulty) -> Faulty:
        MUTANTS[faulty.__name__] = replacing(cls, name, faulty, every)
        return faulty

    return register


# -- the step ----------------------------------------------------------------------------------------------------------


@instead(Shard, "_apply_offsets", every=10)
def forgets_every_tenth_commit(method: Any, shard: Shard, records: Any, producer_id: int) -> None:
    """Acknowledge a commit that is in the log and not in memory."""


@instead(Partition, "write")
def writes_no_offsets_of_one_partition(method: Any, partition: Partition, result: Result[Any], now_ms: int) -> None:
    """Keep an offset in memory and not in the log."""
    kept = tuple(
        r for r in single_records(result.records) if not (type(r.key) is OffsetCommitKey and r.key.partition == 1)
    )
    if kept:
        method(partition, replace(result, records=kept), now_ms)


@instead(Partition, "write")
def writes_no_group(method: Any, partition: Partition, result: Result[Any], now_ms: int) -> None:
    """Make a generation stable, and do not write it down."""
    kept = tuple(r for r in single_records(result.records) if type(r.key) is not GroupMetadataKey)
    if kept:
        method(partition, replace(result, records=kept), now_ms)


@instead(Shard, "_apply_offsets")
def shows_pending_offsets(method: Any, shard: Shard, records: Any, producer_id: int) -> None:
    """Show what a transaction has not committed yet."""
    method(shard, records, -1)


@instead(Shard, "end_transaction")
def commits_what_was_aborted(method: Any, shard: Shard, producer_id: int, committed: bool) -> Any:
    """Commit the pending offsets at every end of a transaction."""
    return method(shard, producer_id, True)


@instead(Shard, "_finish")
def loses_a_parked_join(method: Any, shard: Shard, *args: Any) -> Result[Any]:
    """Answer all but one of those who wait for the join phase."""
    result = method(shard, *args)
    joins = [e for e in result.effects if type(e) is Reply and isinstance(e.response, JoinGroupResponse)]
    return replace(result, effects=tuple(e for e in result.effects if e not in joins[1:2]))


@instead(Shard, "handle")
def gives_everybody_the_same(method: Any, shard: Shard, *args: Any) -> Result[Any]:
    """Answer all who wait for their SyncGroup with the largest of their assignments."""
    result = method(shard, *args)
    answers = [result.response, *(effect.response for effect in result.effects if type(effect) is Reply)]
    largest = max((one.assignment for one in answers if isinstance(one, SyncGroupResponse)), key=len, default=b"")

    def change(response: Any) -> Any:
        is_assigned = isinstance(response, SyncGroupResponse) and response.assignment
        return replace(response, assignment=largest) if is_assigned else response

    effects = [
        replace(effect, response=change(effect.response)) if type(effect) is Reply else effect
        for effect in result.effects
    ]
    return replace(result, response=change(result.response), effects=tuple(effects))


@instead(Shard, "_put")
def counts_generations_anew(method: Any, shard: Shard, group: Any) -> None:
    """Begin with generation 0 when a group is empty."""
    if isinstance(group, ClassicGroup) and group.is_empty and group.generation:
        group = replace(group, generation=0)
    method(shard, group)


@instead(Shard, "_put", every=20)
def falls_back_an_epoch(method: Any, shard: Shard, group: Any) -> None:
    """Forget an epoch of a consumer group now and then."""
    if isinstance(group, ConsumerGroup) and group.epoch > 3:
        group = replace(group, epoch=group.epoch - 2)
    method(shard, group)


@instead(Shard, "_put")
def miscounts_joined_members(method: Any, shard: Shard, group: Any) -> None:
    """Believe that one more has joined than has."""
    if isinstance(group, ClassicGroup) and group.joined == 1 and len(group.members) > 1:
        group = replace(group, joined=2)
    method(shard, group)


@instead(reconcile, "is_free")
def takes_what_is_not_free(method: Any, *args: Any) -> bool:
    """Give a member partitions that another one has not given up."""
    return True


@instead(reconcile, "owns_any")
def waits_for_no_revocation(method: Any, *args: Any) -> bool:
    """Believe that every member has given up what it was told to."""
    return False


# -- timers ------------------------------------------------------------------------------------------------------------


@instead(Timers, "cancel_member")
def keeps_timers_of_members_who_left(method: Any, timers: Timers, *args: Any) -> None:
    """Cancel nothing when a member goes."""


@instead(Timers, "cancel_group")
def keeps_timers_of_deleted_groups(method: Any, timers: Timers, group_id: str) -> None:
    """Cancel nothing when a group changes its class or ends."""


@instead(Timers, "set")
def sets_no_sessions(method: Any, timers: Timers, key: Any, at_ms: int) -> None:
    """Let no session end."""
    if key[0] != "session":
        method(timers, key, at_ms)


@instead(Timers, "set")
def never_ends_a_join_phase(method: Any, timers: Timers, key: Any, at_ms: int) -> None:
    """Do not notice that the join phase has lasted long enough."""
    method(timers, key, at_ms + 3_600_000 if key[0] == "join" else at_ms)


# -- the node, its ledger and its frontend -----------------------------------------------------------------------------


@instead(GroupCommit, "append")
def syncs_no_groups(method: Any, group_commit: GroupCommit) -> list[Log]:
    """With --fsync, do not wait for the disk."""
    method(group_commit)
    return []


@instead(GroupCommit, "find_covering_sync")
def answers_before_a_sync_has_ended(method: Any, group_commit: GroupCommit) -> int:
    """Take a sync that is under way for one that has ended."""
    return group_commit.last_ended


@instead(GroupCommit, "find_covering_sync")
def answers_for_the_sync_that_is_under_way(method: Any, group_commit: GroupCommit) -> int:
    """Take what was decided while a sync is under way for what it covers."""
    return group_commit.last_begun


@instead(GroupCommit, "find_covering_sync_of")
def answers_groups_before_a_sync_has_ended(method: Any, group_commit: GroupCommit, group_id: str) -> int:
    """Take what was decided of a group for what is on the disk."""
    return group_commit.last_ended


@instead(Partition, "flush", every=2)
def answers_before_it_appends(method: Any, partition: Partition) -> int:
    """Append what a turn has led to in the next turn only."""
    return 0


@instead(Ledger, "complete")
def forgets_that_transactions_end(method: Any, ledger: Ledger, result: Result[Any], now_ms: int) -> None:
    """Do not write down that a transaction is complete."""
    method(ledger, replace(result, records=()), now_ms)


@instead(Log, "append", every=10)
def writes_no_catalog(method: Any, log: Log, batches: Any) -> Any:
    """Lose a write to the catalog's log now and then."""
    return log.end_offset if "__muster_catalog" in log.directory else method(log, batches)


@instead(Recorder, "write_marker")
def writes_no_markers(method: Any, recorder: Recorder, *args: Any) -> None:
    """End a transaction without its markers in the coordinator's logs."""


@instead(Shard, "handle", every=100)
def raises_in_a_heartbeat(method: Any, shard: Shard, request: Any, call: Any) -> Any:
    """Fail in a heartbeat now and then."""
    result = method(shard, request, call)
    if isinstance(result.response, HeartbeatResponse):
        raise KeyError("a mistake")
    return result


@instead(Encoder, "queue_short_response", every=20)
def answers_twice(method: Any, encoder: Encoder, *args: Any) -> bytes:
    """Send the answer to a commit twice now and then."""
    if isinstance(args[2], OffsetCommitResponse):
        method(encoder, *args)
    return bytes(method(encoder, *args))


@instead(Encoder, "queue_short_response", every=20)
def answers_nothing(method: Any, encoder: Encoder, *args: Any) -> bytes:
    """Do not answer a commit now and then."""
    return b"" if isinstance(args[2], OffsetCommitResponse) else bytes(method(encoder, *args))


# -- recovery ----------------------------------------------------------------------------------------------------------


@instead(Shard, "_restart")
def starts_no_sessions(method: Any, shard: Shard, group: Any, now_ms: int) -> Result[Any]:
    """Start without the sessions of the members that are in the log."""
    return Result(group)


@instead(Recorder, "finish_transactions")
def finishes_no_transactions(method: Any, recorder: Recorder, now_ms: int) -> None:
    """Start without the markers that a crash has cut off."""


@instead(Producers, "find_aborted_transactions")
def forgets_aborts(method: Any, producers: Producers, *args: Any) -> list[Any]:
    """Tell readers of no aborted transaction."""
    return []
