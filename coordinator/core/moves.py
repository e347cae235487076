"""What becomes of a group when another broker takes its partition over, and what an operator lets go wrong with it.

The old coordinator answers the requests that are parked; the new one knows what the log says. In a log that was not
replicated in time the last commits are missing, or the members.
"""

from typing import Any

from msgspec import Struct

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.groups import group_event
from coordinator.core.kinds.kind import Group
from coordinator.core.offsets.commit_history import Commit
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.result import Result
from coordinator.core.verbs import BY, VerbResponse


class MoveGroup(Struct, frozen=True):
    """Let another broker coordinate a group, and all groups of its partition, once that is loaded.

    It takes `load_ms` at least. If that is asked for, the log lacks the last commits of the group, and its members.
    """

    group_id: str
    to: int
    load_ms: int = 0
    lose_last_commits: int = 0
    keep_members: bool = True


class MoveTransaction(Struct, frozen=True):
    """Let another broker coordinate a transactional id, and all others of its partition, once those are loaded."""

    transactional_id: str
    to: int
    load_ms: int = 0


class StopBroker(Struct, frozen=True):
    """Let the other brokers coordinate what this one has coordinated, or nobody when it is the last one."""

    node_id: int
    load_ms: int = 0


class StartBroker(Struct, frozen=True):
    """Let a broker coordinate again, as in Kafka: the partitions that no broker coordinates, and no others."""

    node_id: int
    load_ms: int = 0


BrokerVerb = MoveGroup | MoveTransaction | StopBroker | StartBroker


class LoseCommits(Struct, frozen=True):
    """Undo the last commits of a group, the newest first: the log that is taken over does not have them."""

    group_id: str
    commits: tuple[Commit, ...]


class LoseMembers(Struct, frozen=True):
    """Forget the members of a group: the log that is taken over does not have them."""

    group_id: str


def lose_commits(group: Group | None, verb: LoseCommits, env: Env) -> Result[Any]:
    """Write for each offset what it was before, unless something else has changed it since."""
    offsets, found = env.offsets, dict[OffsetCommitKey, OffsetCommitValue | None]()
    for commit in verb.commits:
        for change in commit:
            key = change.key
            if offsets.has_pending(key.group, key.topic, key.partition):
                where = f"{key.topic}-{key.partition}"
                return Result(
                    response=VerbResponse(f"an open transaction has an offset of {where} in group {key.group!r}")
                )
            now = found[key] if key in found else offsets.get(key.group, key.topic, key.partition)
            if now == change.after:
                found[key] = change.before
    records = tuple([Record(key, value) for key, value in found.items()])
    count = len(verb.commits)
    reason = f"{count} commit{'s' * (count != 1)}"
    told = () if group is None else (group_event(group, env, Cause.COMMITS_LOST, BY, reason=reason),)
    return Result(response=VerbResponse(), records=records, events=told)


def lose_no_members(group: None, verb: LoseMembers, env: Env) -> Result[Any]:
    """Do nothing: a group that does not exist has none."""
    return Result(response=VerbResponse())
