"""A consumer, as clients are: it joins, syncs, beats and commits, and does what the answers tell it to."""

from collections.abc import Callable
from random import Random
from typing import Any

from protocol.messages import consumer_protocol as embedded
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.clock import Clock
from tests.simulation.network import Network

GROUP = "g"
SESSION_MS, REBALANCE_MS = 20_000, 60_000
BEAT_MS, COMMIT_MS = 5_000, 10_000
REQUEST_MS, RETRY_MS = 10_000, 500

ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED, FENCED = 22, 25, 27, 79, 82


class Member:
    """One process. `life` counts its starts: what an earlier life asked for means nothing to a later one."""

    def __init__(
        self,
        number: int,
        instance: str | None,
        version: int,
        is_transactional: bool,
        clock: Clock,
        network: Network,
        partitions: int,
        dice: Random,
    ) -> None:
        self.name = f"m{number}"
        self.producer_id = 1_000 + number
        self.is_transactional = is_transactional  # it commits together with what it produces
        self.instance = instance
        self.version = version  # of JoinGroup
        self.is_alive = False
        self.is_stuck = False  # it runs, and neither beats nor answers: a long pause
        self.is_busy = False  # it beats, and has no time to rejoin: its poll loop hangs
        self.fenced = 0
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[int, ...] = ()
        self.is_settled = False
        self._rack = 0
        self._life = 0
        self._clock = clock
        self._network = network
        self._partitions = partitions
        self._dice = dice
        self._position = 0

    # -- what happens to it --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process, which knows nothing but its instance id."""
        self._life += 1
        self.is_alive, self.is_stuck, self.is_busy, self.is_settled = True, False, False, False
        self.member_id, self.generation, self.owned = "", -1, ()
        if self.is_transactional:
            self._network.end_transaction(self.producer_id, False)  # what an earlier life has left open
        self._join()

    def crash(self) -> None:
        """It is gone, and says nothing."""
        self._life += 1
        self.is_alive, self.is_settled, self.owned = False, False, ()

    def stop(self) -> None:
        """It leaves, as clients do; static ones just go."""
        if self.is_alive and self.member_id and self.instance is None:
            who = LeaveGroupRequestMemberIdentity(self.member_id, None, "done")
            self._network.ask(LeaveGroupRequest(GROUP, members=(who,)), 5, self.name, REQUEST_MS, lambda _: None)
        self.crash()

    def change(self) -> None:
        """It subscribes to something else, and rejoins to say so."""
        self._rack += 1
        if self.is_settled:
            self._rejoin()

    # -- the protocol --------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        subscription = embedded.ConsumerProtocolSubscription(topics=("t",), user_data=b"%d" % self._rack)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", embedded.write(subscription, 1)),),
        )
        self._ask(request, self.version, REBALANCE_MS + 10_000, self._joined)

    def _joined(self, answer: JoinGroupResponse | None) -> None:
        if answer is None or answer.error_code:
            if answer is not None and answer.error_code == MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            self._after_error(answer)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        ids = sorted(member.member_id for member in answer.members) if leads else []
        assignments = tuple(
            SyncGroupRequestAssignment(id_, bytes(range(number, self._partitions, len(ids))))
            for number, id_ in enumerate(ids)
        )
        request = SyncGroupRequest(GROUP, self.generation, self.member_id, self.instance, None, None, assignments)
        self._ask(request, 4, REBALANCE_MS + 10_000, self._synced)

    def _synced(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._after_error(answer)
            return
        self.owned = tuple(answer.assignment)
        self.is_settled = True
        life, generation = self._life, self.generation
        self._later(BEAT_MS, lambda: self._beat(life, generation))
        self._later(COMMIT_MS, lambda: self._commit(life, generation))

    def _beat(self, life: int, generation: int) -> None:
        if not self.is_settled or (life, generation) != (self._life, self.generation):
            return
        if not self.is_stuck:
            request = HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance)
            self._ask(request, 4, REQUEST_MS, self._beaten)
        self._later(BEAT_MS, lambda: self._beat(life, generation))

    def _beaten(self, answer: Any) -> None:
        if answer is not None and answer.error_code and self.is_settled:
            if answer.error_code != REBALANCING or not self.is_busy:
                self._after_error(answer)

    def _commit(self, life: int, generation: int) -> None:
        if not self.is_settled or (life, generation) != (self._life, self.generation):
            return
        if self.owned and not self.is_stuck:
            self._position += 1
            if self.is_transactional:
                self._ask(self._txn_request(), 3, REQUEST_MS, self._added)
            else:
                self._ask(self._request(), 9, REQUEST_MS, self._committed)
        self._later(COMMIT_MS, lambda: self._commit(life, generation))

    def _request(self) -> OffsetCommitRequest:
        partitions = tuple(
            OffsetCommitRequestPartition(at, self._position, committed_metadata=self.name) for at in self.owned
        )
        topics = (OffsetCommitRequestTopic("t", partitions=partitions),)
        return OffsetCommitRequest(GROUP, self.generation, self.member_id, self.instance, topics=topics)

    def _txn_request(self) -> TxnOffsetCommitRequest:
        partitions = tuple(TxnOffsetCommitRequestPartition(at, self._position) for at in self.owned)
        topics = (TxnOffsetCommitRequestTopic("t", partitions),)
        who = (self.generation, self.member_id, self.instance)
        return TxnOffsetCommitRequest(self.name, GROUP, self.producer_id, 0, *who, topics)

    def _added(self, answer: Any) -> None:
        """The offsets are in the transaction, or not; it ends, now and then without them."""
        fine = answer is not None and not any(each.error_code for topic in answer.topics for each in topic.partitions)
        self._network.end_transaction(self.producer_id, fine and self._dice.random() < 0.8)
        self._committed(answer)

    def _committed(self, answer: Any) -> None:
        errors = {each.error_code for topic in answer.topics for each in topic.partitions} if answer else set()
        if errors & {ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED} and self.is_settled:
            self._give_up(max(errors))

    def _rejoin(self) -> None:
        self.is_settled = False
        self._join()

    def _after_error(self, answer: Any) -> None:
        """Try again, as whom the error leaves it."""
        self.is_settled = False
        self._give_up(0 if answer is None else answer.error_code)

    def _give_up(self, error: int) -> None:
        self.is_settled = False
        if error == FENCED:  # somebody else has its instance id: clients end here
            self.fenced += 1
            self.crash()
            return
        if error in (UNKNOWN_MEMBER, ILLEGAL_GENERATION):
            self.owned = ()
        if error == UNKNOWN_MEMBER:
            self.member_id = ""
        self._later(0 if error in (MEMBER_ID_REQUIRED, REBALANCING) else RETRY_MS, self._join)

    def _ask(self, request: Any, version: int, timeout_ms: int, heard: Callable[[Any], None]) -> None:
        life = self._life

        def in_this_life(answer: Any) -> None:
            if life == self._life:
                heard(answer)

        self._network.ask(request, version, self.name, timeout_ms, in_this_life)

    def _later(self, delay_ms: int, act: Callable[[], None]) -> None:
        life = self._life
        self._clock.after(delay_ms, lambda: act() if life == self._life else None)
