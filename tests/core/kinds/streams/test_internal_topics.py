"""What members are told of internal topics that could not be created."""

import pytest

from coordinator.core.env import Env
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.internal_topics import keep_errors
from coordinator.core.limits import Limits
from coordinator.core.result import Call, NoteCreatedTopics
from coordinator.core.topics import Topics

ERRORS: list[dict[str, str]] = [{}, {"store": "no room"}, {"store": "no room", "again": "no room"}, {"again": "no"}]


@pytest.mark.parametrize("before", ERRORS)
@pytest.mark.parametrize("now", ERRORS)
def test_the_errors_of_the_last_try_are_told_and_none_of_one_before(
    before: dict[str, str], now: dict[str, str]
) -> None:
    group, env = StreamsGroup("app", creation_errors=before), Env(Call(0, 0, 0, None, "", str), Limits(), Topics())
    result = keep_errors(group, NoteCreatedTopics("app", now), env)
    assert (result.group or group).creation_errors == now
    assert (result.group is None) == (before == now), "nothing changes without need"
