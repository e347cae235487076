"""What the requests of classic members are answered where their group is of another kind."""

from typing import Any

from coordinator.core.env import Env
from coordinator.core.kinds.classic.heartbeat import heartbeat
from coordinator.core.kinds.classic.leave_group import leave_group
from coordinator.core.kinds.classic.sync_group import sync_group
from coordinator.core.kinds.kind import Group
from coordinator.core.refusal import refuse_join
from coordinator.core.result import Result
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest


def refuse_to_join(group: Group, request: JoinGroupRequest, env: Env) -> Result[Any]:
    """Refuse to admit a member that speaks another protocol than the group."""
    return Result(response=refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", env.call.version))


def refuse_to_sync(group: Group, request: Any, env: Env) -> Result[Any]:
    """Answer as if there were no group: it has no classic members."""
    return sync_group(None, request, env)


def refuse_to_beat(group: Group, request: Any, env: Env) -> Result[Any]:
    """Answer as if there were no group: it has no classic members."""
    return heartbeat(None, request, env)


def refuse_to_leave(group: Group, request: Any, env: Env) -> Result[Any]:
    """Answer as if there were no group: it has no classic members."""
    return leave_group(None, request, env)
