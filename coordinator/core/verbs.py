"""The operator's verbs on a group: inputs of the same step as a client's requests.

A verb is a request by another road. `core/dispatch.py` gives it to the function for the type of its group, which
returns a `Result` with a `VerbResponse`; one that cannot be done says why in a sentence, and has changed nothing.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.result import Result
from protocol.errors import ErrorCode

BY = "operator"


class VerbResponse(Struct, frozen=True):
    """The response to a verb: empty, or why it was not done."""

    refusal: str = ""


class RemoveMember(Struct, frozen=True):
    """Remove a member as if its session had expired, or for another `cause`."""

    group_id: str
    member_id: str
    cause: Cause = Cause.SESSION_EXPIRED
    reason: str = ""


class Rebalance(Struct, frozen=True):
    """Rebalance the group, though nothing has changed."""

    group_id: str
    reason: str = ""


class SetTarget(Struct, frozen=True):
    """Give a group this target assignment. It holds until the group's epoch is raised again.

    A target has partitions by the name of their topic, or of a streams group active tasks by their subtopology. A
    member that is not named gets nothing.
    """

    group_id: str
    targets: Mapping[str, Mapping[str, tuple[int, ...]]]  # by member id
    standbys: Mapping[str, Mapping[str, tuple[int, ...]]] = {}  # the same, of standby tasks


class Forget(Struct, frozen=True):
    """Remove a group with its members and offsets, as if it had never been there."""

    group_id: str


Verb = RemoveMember | Rebalance | SetTarget | Forget


def refuse_without_group(group: None, verb: Verb, env: Env) -> Result[Any]:
    """Refuse a verb, because there is no such group."""
    return Result(response=VerbResponse(f"there is no group {verb.group_id!r}"))


def ignore_outcome(group: Any, outcome: Any, env: Env) -> Result[Any]:
    """Take note of what came of an effect: most groups have nothing to do then, or are gone."""
    return Result()


def end_no_states(group: Any, request: Any, env: Env) -> Result[Any]:
    """Succeed at once: most groups have no states of share partitions."""
    return Result(response=ErrorCode.NONE)
