"""Members of groups that a reset has removed, so that their clients do not join the groups of the next test.

A client that a test leaves open connects again after a reset, and joins its group again. Nothing in a JoinGroup without
a member id says that it is one of before. But a client first sends what it was about to send as a member, or keeps its
member id for ever (KIP-848). So a request with the member id of before is answered by an error that clients take as
final, FENCED_INSTANCE_ID, and so is every request to join or to stay that comes by the same connection later. Commits
get GROUP_AUTHORIZATION_FAILED.

A client that was not a member yet, a producer, and a consumer without a group cannot be told from new ones.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from coordinator.control.faults import Action, FaultSpec, Rule
from coordinator.control.subject import Subject

MEMBERS_MAX: Final = 10_000  # the oldest go first
CONNECTIONS_MAX: Final = 1_000
MEMBER_ID_LENGTH: Final = 22  # of a UUID: a shorter one was chosen, and may come again


def _answer(error: str) -> Rule:
    return Rule(0, FaultSpec(Action(error=error), count=None), Random(0))


FENCED: Final = _answer("FENCED_INSTANCE_ID")
FORBIDDEN: Final = _answer("GROUP_AUTHORIZATION_FAILED")  # aiokafka sends a commit that is fenced again and again
ANSWERS: Final[Mapping[str, Rule]] = {
    "JoinGroup": FENCED,
    "SyncGroup": FENCED,
    "Heartbeat": FENCED,
    "ConsumerGroupHeartbeat": FENCED,
    "ShareGroupHeartbeat": FENCED,
    "StreamsGroupHeartbeat": FENCED,
    "OffsetCommit": FORBIDDEN,
    "TxnOffsetCommit": FORBIDDEN,
}


class Leftovers:
    """The members of before the last resets, and the connections that have named one of them since."""

    def __init__(self) -> None:
        self._members: dict[str, None] = {}
        self._connections: dict[int, None] = {}  # by their numbers

    def __bool__(self) -> bool:
        """Return whether there is anybody to keep out."""
        return bool(self._members)

    def note(self, member_ids: Iterable[str]) -> None:
        """Keep out members whose groups a reset removes."""
        self._members |= dict.fromkeys(one for one in member_ids if len(one) >= MEMBER_ID_LENGTH)
        _drop_oldest(self._members, MEMBERS_MAX)

    def clear(self) -> None:
        """Keep nobody out any more: a snapshot has brought members of before back."""
        self._members.clear()
        self._connections.clear()

    def find(self, connection: int, subject: Subject) -> Rule | None:
        """Return the answer to a request that a member of before has sent, by this connection or another one."""
        answer = ANSWERS.get(subject.api)
        if answer is None:
            return None
        if not self._members.keys().isdisjoint(subject.members):
            self._connections[connection] = None
            _drop_oldest(self._connections, CONNECTIONS_MAX)
        return answer if connection in self._connections else None


def _drop_oldest(kept: dict[str, None] | dict[int, None], most: int) -> None:
    for key in list(kept)[: len(kept) - most] if len(kept) > most else ():
        del kept[key]  # type: ignore[arg-type]  # it is a key of this one
