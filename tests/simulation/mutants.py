"""Servers with one mistake each. A promise that none of them breaks would promise nothing."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.records import GroupMetadataKey, Record
from coordinator.core.result import Call, Reply, Result
from coordinator.core.shard import Shard
from coordinator.core.timers import Due
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupResponse


class Forgetful(Shard):
    """Acknowledges a commit that it does not keep, now and then."""

    _seen = 0

    def _apply_offsets(self, records: Iterable[Record], producer_id: int) -> None:
        for record in records:
            self._seen += 1
            if self._seen % 50:
                super()._apply_offsets((record,), producer_id)


class Credulous(Shard):
    """Refuses a commit of a stranger, and keeps it all the same."""

    def handle(self, request: Any, call: Call) -> Result[Any]:
        result = super().handle(request, call)
        if isinstance(request, OffsetCommitRequest) and not result.records:
            asked = replace(
                request, generation_id_or_member_epoch=-1, member_id="", group_id="copy", group_instance_id=None
            )
            for record in super().handle(asked, call).records:
                self._apply_offsets((Record(replace(record.key, group="g"), record.value),), -1)
        return result


class Indulgent(Shard):
    """Commits what was aborted."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        super().end_transaction(producer_id, True)


class Hasty(Shard):
    """Shows what a transaction has not committed yet."""

    def _apply_offsets(self, records: Iterable[Record], producer_id: int) -> None:
        super()._apply_offsets(records, -1)


class Stuttering(Shard):
    """Answers a request that waited twice."""

    def _done(self, result: Result[Any], now_ms: int) -> Result[Any]:
        result = super()._done(result, now_ms)
        return replace(result, effects=result.effects + result.replies[:1])


class Silent(Shard):
    """Does not answer one of those who wait for the join phase."""

    def _done(self, result: Result[Any], now_ms: int) -> Result[Any]:
        result = super()._done(result, now_ms)
        joins = [reply for reply in result.replies if isinstance(reply.response, JoinGroupResponse)]
        return replace(result, effects=tuple(each for each in result.effects if each not in joins[1:2]))


class Generous(Shard):
    """Gives everybody what it gives to one."""

    _given = b""

    def _done(self, result: Result[Any], now_ms: int) -> Result[Any]:
        result = super()._done(result, now_ms)
        effects = tuple(self._same(each) if isinstance(each, Reply) else each for each in result.effects)
        return replace(result, effects=effects)

    def _same(self, reply: Reply) -> Reply:
        answer = reply.response
        if not isinstance(answer, SyncGroupResponse) or answer.error_code:
            return reply
        self._given = self._given or answer.assignment
        return replace(reply, response=replace(answer, assignment=self._given))


class Amnesiac(Shard):
    """Begins to count generations anew when a group is empty."""

    def _put(self, group: Any) -> None:
        if isinstance(group, ClassicGroup) and group.is_empty and group.generation:
            group = replace(group, generation=0)
        super()._put(group)


class Careless(Shard):
    """Does not write down that a generation is stable."""

    def handle(self, request: Any, call: Call) -> Result[Any]:
        result = super().handle(request, call)
        kept = tuple(each for each in result.records if not isinstance(each.key, GroupMetadataKey))
        return replace(result, records=kept)


class Patient(Shard):
    """Lets no session end."""

    def _fire(self, due: Due, now_ms: int) -> Result[Any]:
        return Result() if due.key[0] == "session" else super()._fire(due, now_ms)


class Idle(Shard):
    """Does not notice that the join phase has lasted long enough."""

    def _fire(self, due: Due, now_ms: int) -> Result[Any]:
        kind, group_id, _ = due.key
        group = self.groups[group_id]
        is_late = kind == "join" and isinstance(group, ClassicGroup) and not group.initial
        return Result() if is_late else super()._fire(due, now_ms)


class Miscounting(Shard):
    """Believes that one more has joined than has."""

    def _put(self, group: Any) -> None:
        if isinstance(group, ClassicGroup) and group.joined == 3:
            group = replace(group, joined=4)
        super()._put(group)


MUTANTS: Final[Mapping[type[Shard], str]] = {  # and what they do not keep
    Forgetful: "what was acknowledged is kept",
    Credulous: "what was acknowledged is kept",
    Indulgent: "what was acknowledged is kept",
    Hasty: "what was acknowledged is kept",
    Stuttering: "every request is answered at most once",
    Silent: "nobody waits",
    Generous: "no two own a partition",
    Amnesiac: "generations never decrease",
    Careless: "a restart changes nothing",
    Patient: "a group has the members that are alive",
    Idle: "nobody waits|left alone is stable",
    Miscounting: "who waits is counted",
}
