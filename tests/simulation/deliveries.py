"""What holds of the records of share groups, whatever happens.

    from outside   an accepted record is never delivered again; no delivery count is one that was told before
    from within    each record goes from state to state as it may, held by one member at a time, and is archived only if
                   its member has said so, or after its last delivery
    in the end     every record is accepted, rejected, or was delivered as often as it may be

A power cut without --fsync may take back what was told: then nothing is known any more.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from coordinator.core.share_partitions.values import TERMINAL, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState, StateKey
from coordinator.dataplane.share.partitions import SharePartitions
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from storage.log import Log
from tests.simulation.broken import promise
from tests.simulation.promises import Promises, codes_in
from tests.simulation.requests import Request

if TYPE_CHECKING:
    from tests.simulation.server import Server, Session

ACCEPT, RELEASE, REJECT, GAP = 1, 2, 3, 0
Offset = tuple[StateKey, int]
Request_ = ShareFetchRequest | ShareAcknowledgeRequest


class Deliveries(Promises):
    """Watches the share partitions of a server, beside all else that is promised."""

    def __init__(self, retention_ms: int, policy: str, limit: int) -> None:
        super().__init__(retention_ms, policy)
        self.limit = limit  # of deliveries
        self.accepted: set[Offset] = set()  # of which the member was told so
        self.counts: dict[Offset, int] = {}  # of deliveries that were given back, of which the member was told so
        self.said: set[tuple[Offset, str, int]] = set()  # what members have said: offset, member, type
        self.delivered_count = self.redelivered_count = self.archived_count = 0
        self.missing_count = self.overtaken_count = 0
        self._told: dict[Offset, int] = {}  # the latest delivery count in this life
        self._had: dict[tuple[Offset, str], int] = {}  # and that of each member
        self._watched: SharePartitions | None = None

    @property
    def has_forgotten(self) -> bool:
        """Whether a power cut without --fsync may have taken what was told."""
        return self._has_forgotten

    # -- from outside --------------------------------------------------------------------------------------------------

    def delivered(self, request: Request) -> None:
        super().delivered(request)
        if isinstance(request.message, Request_):
            for offset, kind in _acknowledged(request.message):
                self.said.add((offset, str(request.message.member_id), kind))

    def answered(self, server: "Server", request: Request, response: Any) -> None:
        if not isinstance(response, ShareFetchResponse | ShareAcknowledgeResponse):
            super().answered(server, request, response)
            return
        errors = codes_in(response)
        self.note(server.now_ms(), f"{type(response).__name__} {_brief(request.message)} -> {errors} {_got(response)}")
        if not self._has_forgotten:
            promise(ErrorCode.UNKNOWN_SERVER_ERROR not in errors, "no internal error", lambda: repr(request.message))
        if response.error_code:
            return
        group_id = str(request.message.group_id)
        refused = set()
        for topic in response.responses:
            for one in topic.partitions:
                key = StateKey(group_id, topic.topic_id, one.partition_index)
                is_fetch = isinstance(response, ShareFetchResponse)
                if one.acknowledge_error_code if is_fetch else one.error_code:
                    refused.add(key)
        for (key, offset), kind in _acknowledged(request.message):
            if key not in refused:
                self._note_told((key, offset), str(request.message.member_id), kind)
        if isinstance(response, ShareFetchResponse):
            for topic in response.responses:
                for one in topic.partitions:
                    key = StateKey(group_id, topic.topic_id, one.partition_index)
                    for run in one.acquired_records:
                        for offset in range(run.first_offset, run.last_offset + 1):
                            self._note_delivery((key, offset), str(request.message.member_id), run.delivery_count)

    def _note_told(self, at: Offset, member_id: str, kind: int) -> None:
        if kind == ACCEPT:
            self.accepted.add(at)
        elif kind == RELEASE:
            self.counts[at] = max(self.counts.get(at, 0), self._had.get((at, member_id), 0))

    def _note_delivery(self, at: Offset, member_id: str, count: int) -> None:
        self.delivered_count += 1
        self.redelivered_count += count > 1
        promise(at not in self.accepted, "an accepted record is never delivered again", lambda: f"{at}")
        promise(count <= self.limit, "a record is delivered up to the limit", lambda: f"{at}: {count}")
        before = max(self.counts.get(at, 0), self._told.get(at, 0))
        promise(count > before, "a delivery count never goes back", lambda: f"{at}: {count} after {before}")
        self._told[at] = self._had[at, member_id] = count

    # -- from within ---------------------------------------------------------------------------------------------------

    def turned(self, server: "Server", sessions: "Iterable[Session]") -> None:
        super().turned(server, sessions)
        self.watch(server)

    def watch(self, server: "Server") -> None:
        """Look at each change of a share partition from now on, as long as the process lives."""
        share = server.node.world.dataplane.share
        if share is self._watched:
            return
        self._watched = share
        put = share.put

        def look_and_put(key: StateKey, partition: SharePartition) -> None:
            before = share.find(key)
            if before is not None:
                self._compare(server, key, before, partition)
            put(key, partition)

        setattr(share, "put", look_and_put)  # noqa: B010 - mypy knows that it is a method

    def _compare(self, server: "Server", key: StateKey, before: SharePartition, after: SharePartition) -> None:
        promise(after.start_offset >= before.start_offset, "a start offset never goes back", lambda: f"{key}")
        promise(after.end_offset >= before.end_offset, "the end of a window never goes back", lambda: f"{key}")
        log_start = _log_start(server, key)
        self.overtaken_count += before.start_offset < log_start == after.start_offset
        now = {offset: run for run in after.runs for offset in range(run.first_offset, run.last_offset + 1)}
        for run in before.runs:
            for offset in range(run.first_offset, run.last_offset + 1):
                if offset < after.start_offset:
                    is_fine = offset < log_start or run.state in TERMINAL or self._may_end(server, key, offset, run)
                    promise(is_fine, "only what is done leaves the window", lambda o=offset, r=run: f"{o}: {r}")
                else:
                    self._look_at(server, key, offset, run, now[offset])

    def _look_at(self, server: "Server", key: StateKey, offset: int, run: Run, then: Run) -> None:
        def is_fine() -> bool:
            if run.state in TERMINAL:
                return then.state == run.state
            if then.state in TERMINAL:
                return self._may_end(server, key, offset, run)
            if run.state == DeliveryState.AVAILABLE:
                gained = int(then.state == DeliveryState.ACQUIRED)
                return then.delivery_count == run.delivery_count + gained and bool(then.member_id) == bool(gained)
            is_same = then.delivery_count == run.delivery_count
            if then.state == DeliveryState.AVAILABLE:
                return is_same and run.delivery_count < self.limit
            return is_same and then.member_id == run.member_id and then.locked_until_ms >= run.locked_until_ms

        promise(is_fine(), "a record goes from state to state as it may", lambda: f"{offset} of {key}: {run} -> {then}")

    def _may_end(self, server: "Server", key: StateKey, offset: int, run: Run) -> bool:
        """Whether a record may be done: its member has said so, it was the last delivery, or, if nobody has it,
        compaction has removed it."""
        if run.state != DeliveryState.ACQUIRED:
            is_missing = _is_missing(server, key, offset)
            self.missing_count += is_missing
            return is_missing
        at = (key, offset)
        is_said = any((at, run.member_id, kind) in self.said for kind in (ACCEPT, REJECT, GAP))
        self.archived_count += not is_said
        return is_said or run.delivery_count >= self.limit

    # -- ends ----------------------------------------------------------------------------------------------------------

    def ended(self, server: "Server", how: str, lost: list[Request]) -> None:
        super().ended(server, how, lost)
        self._watched = None
        self._told.clear()
        self._had.clear()
        if how == "power cut" and not server.is_synced:
            self.accepted.clear()
            self.counts.clear()
            self.said.clear()

    def check_all_done(self, server: "Server", ends: dict[int, int], keys: Callable[[int], Iterable[StateKey]]) -> None:
        """In the end nothing is left that a group has not done with."""
        for index in ends:
            end = server.node.world.dataplane.end_offset("jobs", index)
            for key in keys(index):
                partition = server.node.world.dataplane.share.find(key)
                promise(
                    partition is not None and partition.start_offset == end,
                    "every record is accepted, rejected, or was delivered as often as it may be",
                    lambda k=key, p=partition, e=end: f"{k} ends at {e}: {p}",
                )


def _acknowledged(message: Any) -> Iterable[tuple[Offset, int]]:
    """Yield each offset that a request tells of, and what it says of it."""
    for topic in message.topics:
        for one in topic.partitions:
            key = StateKey(str(message.group_id), topic.topic_id, one.partition_index)
            for batch in one.acknowledgement_batches:
                types = batch.acknowledge_types
                for number, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
                    yield (key, offset), types[number if len(types) > 1 else 0]


def _find_log(server: "Server", key: StateKey) -> Log | None:
    name = server.node.world.ledger.catalog.topics.by_id(key.topic_id)
    return None if name is None else server.node.world.dataplane._state.logs.find_open((name.name, key.partition))


def _log_start(server: "Server", key: StateKey) -> int:
    log = _find_log(server, key)
    return 0 if log is None else log.start_offset


def _is_missing(server: "Server", key: StateKey, offset: int) -> bool:
    """Whether a log has no batch any more that holds this offset, and later ones."""
    log = _find_log(server, key)
    found = b"" if log is None else log.read(offset, 1)
    return bool(found) and next(record_batch.batches(found))[1].base_offset > offset


def _brief(message: Any) -> str:
    said = [(offset, kind) for (_, offset), kind in _acknowledged(message)]
    return f"{message.member_id} {message.share_session_epoch} {said}"


def _got(response: Any) -> str:
    if not isinstance(response, ShareFetchResponse):
        return ""
    runs = [run for topic in response.responses for one in topic.partitions for run in one.acquired_records]
    return str([(run.first_offset, run.last_offset, run.delivery_count) for run in runs])
