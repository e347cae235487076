"""What share groups answer to the requests of other protocols."""

from typing import Any

from coordinator.core.env import Env
from coordinator.core.result import Result
from protocol.errors import ErrorCode


def validate_commit(group: Any, request: Any, env: Env) -> ErrorCode:
    """Refuse to commit offsets: a share group has none."""
    return ErrorCode.GROUP_ID_NOT_FOUND


def validate_fetch(group: Any, member_id: str | None, epoch: int) -> ErrorCode:
    """Let everybody fetch offsets: nothing is committed. Kafka: `OffsetMetadataManager.fetchOffsets`."""
    return ErrorCode.NONE


def validate_delete_offsets(group: Any) -> ErrorCode:
    """Refuse to delete offsets."""
    return ErrorCode.GROUP_ID_NOT_FOUND


def nothing(*arguments: Any) -> Result[Any]:
    """Do nothing."""
    return Result()
