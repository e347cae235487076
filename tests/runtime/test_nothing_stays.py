"""What has ended leaves nothing in memory: in the evening of each day all containers are as long as the evening before.

A day has members of all kinds of groups, producers, sessions, topics, settings, quotas and rights. By its evening all of
them have ended, and their names are new each day: what is not removed with its owner grows from day to day.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import MethodType
from typing import Any, Final

import pytest
from msgspec import Struct

from coordinator.core.catalog import catalog
from coordinator.core.catalog.catalog import GROUP, TOPIC
from coordinator.core.moves import BrokerVerb, MoveGroup, MoveTransaction, StartBroker, StopBroker
from coordinator.dataplane import long_polls
from coordinator.dataplane.fetch import READS_MAX
from coordinator.runtime.janitor import Janitor
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestDeleteAclsFilter
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.messages.share_fetch import ShareFetchRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.records import Record
from tests import requests
from tests.members import ClassicMember, ConsumerMember, StreamsMember
from tests.runtime.guarded import AUTHORIZER, rule
from tests.server.in_memory import InMemory, Peer

PACKAGES: Final = ("coordinator.", "storage.", "protocol.")
COUNTS: Final = ("bytes", "count", "partitions")  # how the names of numbers end that say how much there is
SETTINGS: Final[Mapping[str, Any]] = {
    "authorizer_class_name": AUTHORIZER, "super_users": "User:ANONYMOUS", "virtual_brokers": 2,
    "group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 1, "offsets_topic_min_dirty_bytes": 1,
    "share_coordinator_state_topic_num_partitions": 1,
}  # fmt: skip
DAY_S: Final = 86_400
DAYS: Final = 9  # until the evening's end: offsets, transactional ids and the share coordinator's states expire
GROWS: Final = {
    "CommitHistory._commits": "the latest 20,000 offsets",
    "CommitHistory._count": "as above",
    "FreshIds.count": "of ids that were given",
    "Janitor.done": "the latest 1,000 of what was done",
    "MemoryFiles._files": "the disk",
    "Partitions._owners": "a cache, see group.owners.max.bytes",
    "_Owners.bytes": "as above",
    "TrafficByTopic.topics": "the first 100 topics, for metrics",
}


def measure(*roots: Any) -> dict[str, int]:
    """How many entries the containers have that these objects lead to, and what the counts among their fields are, by
    the class and the field that hold them."""
    lengths: dict[str, int] = {}
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [("root", one) for one in roots]
    while left:
        name, value = left.pop()
        if isinstance(value, MethodType):
            value = value.__self__
        if id(value) in seen and type(value) is not int:
            continue
        if isinstance(value, dict | list | set | frozenset | tuple | deque | bytearray):
            seen.add(id(value))
            lengths[name] = lengths.get(name, 0) + len(value)
        if isinstance(value, dict):
            left += [(name, one) for pair in value.items() for one in pair]
        elif isinstance(value, list | set | frozenset | tuple | deque):
            left += [(name, one) for one in value]
        if type(value) is int and name.rpartition(".")[2].strip("_").endswith(COUNTS):
            lengths[name] = lengths.get(name, 0) + value
        if type(value).__module__.startswith(PACKAGES):
            seen.add(id(value))
            left += [(f"{type(value).__name__}.{field}", one) for field, one in read_fields(value)]
    return {name: length for name, length in lengths.items() if name not in GROWS}


def read_fields(value: Any) -> Iterator[tuple[str, Any]]:
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        names |= dict.fromkeys(getattr(cls, "__slots__", ()))
    if isinstance(value, Struct):
        names |= dict.fromkeys(value.__struct_fields__)
    return ((name, getattr(value, name)) for name in names if hasattr(value, name))


class Life:
    """A server of two brokers, on which one day is like the other."""

    def __init__(self) -> None:
        self.server = InMemory(topics={}, **SETTINGS)
        self.janitor = Janitor(self.server.node, self.server.clock.now_ms(), rest_rounds=0)
        self.day = 0
        self.topic = ""
        self.staying = self.server.connect()  # a client that never leaves

    def measure(self) -> dict[str, int]:
        return measure(self.server.node, self.server.frontend, self.server.listeners, self.janitor)

    # -- what clients do -----------------------------------------------------------------------------------------------

    def name(self, of: str) -> str:
        return f"{of}-{self.day}"

    def ask(self, request: Any, version: int, peer: Peer | None = None) -> Any:
        """Return the response to a request, however many steps it takes."""
        peer = peer or self.admin
        peer.send((request, version))
        self.server.rest()
        return peer.answers[-1][1]

    def write(self, partition: int, txn: str | None = None, **ids: Any) -> None:
        records = [Record(b"k", b"v", timestamp=self.server.clock.now_ms()) for _ in range(2)]
        data = record_batch.encode(records, transactional=txn is not None, **ids)
        (topic,) = self.ask(requests.produce(self.topic, {partition: data}, txn), 11).responses
        assert topic.partition_responses[0].error_code == ErrorCode.NONE

    def make_topics(self) -> None:
        self.admin = self.server.connect()
        self.topic = self.name("t")
        self.ask(requests.create_topics({self.topic: 3, "lines": 1}), 7)
        self.ask(requests.alter_configs(TOPIC, self.topic, {"segment.ms": "1000"}), 1)
        self.ask(requests.alter_configs(GROUP, self.name("consumer"), {"consumer.session.timeout.ms": "50000"}), 1)

    def produce(self) -> None:
        for txn, committed in ((None, True), (self.name("x"), True), (self.name("y"), False)):
            made = self.ask(InitProducerIdRequest(txn, 60_000), 4)
            producer, group = (made.producer_id, made.producer_epoch), self.name("txn")
            if txn is not None:
                topics = (AddPartitionsToTxnRequestTopic(self.topic, (0, 1)),)
                self.ask(AddPartitionsToTxnRequest((), txn, *producer, topics), 3)
            self.write(0, txn, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0)
            if txn is not None:
                self.ask(AddOffsetsToTxnRequest(txn, *producer, group), 3)
                self.ask(requests.commit_in_transaction(txn, group, producer, {self.topic: {0: 1}}), 3)
                self.move(txn)
                assert self.ask(EndTxnRequest(txn, *producer, committed), 3).error_code == ErrorCode.NONE

    def fetch(self) -> None:
        """In a session, and in waits that end, or whose clients leave."""
        first = self.ask(requests.fetch(self.topic, session_epoch=0), 12)
        for epoch in (1, -1):
            self.ask(requests.fetch(self.topic, session_id=first.session_id, session_epoch=epoch), 12)
        stays = self.ask(requests.fetch(self.topic, session_epoch=0), 12, self.staying)
        self.ask(requests.fetch(self.topic, session_id=stays.session_id, session_epoch=-1), 12, self.staying)
        waiting = [self.server.connect() for _ in range(3)]
        for peer in waiting:
            peer.send((requests.fetch(self.topic, 2, max_wait_ms=500), 12))
        self.server.rest()
        self.leave(waiting[0])
        many = dict.fromkeys(
            range(READS_MAX + 100), 0
        )  # which are read in steps: clients leave between any two of them
        for turns in range(8):
            peer = self.server.connect()
            peer.send((requests.fetch_all(self.topic, many, max_wait_ms=500), 12))
            for _ in range(turns):
                self.server.turn()
            self.leave(peer)
        self.server.advance(1)
        self.leave(*waiting[1:])

    def join(self) -> None:
        """A classic group with a static member, a consumer group with a pattern, and a streams group."""
        one, two = [ClassicMember(self.server.connect(), self.name("classic"), topics=(self.topic,), instance=instance)
                    for instance in (None, "i")]  # fmt: skip
        for group in ("classic", "consumer"):  # while nobody is there
            done = self.ask(requests.commit(self.name(group), {self.topic: {0: 1, 2: 1}}), 8)
            assert done.topics[0].partitions[0].error_code == ErrorCode.NONE
        one.join()
        one.sync()
        two.join()
        one.join()
        two.take_join()
        one.sync()
        self.ask(requests.fetch_offsets(self.name("classic")), 8)
        many = [ConsumerMember(self.server.connect(), name, self.name("consumer")) for name in ("m", "n")]
        many[0].beat(subscribed_topic_names=(self.topic,))
        many[1].beat(subscribed_topic_names=None, subscribed_topic_regex=f"{self.topic}.*")
        for member in (*many, *many):
            self.server.rest()
            member.own()
        streams = StreamsMember(self.server.connect(), "s", self.name("streams"))
        for _ in range(3):
            streams.beat()
            self.server.rest()
        for group in ("classic", "consumer", "streams"):
            self.move(self.name(group), is_group=True)
        one.peer.ask(LeaveGroupRequest(one.group, one.member_id), 0)
        one.peer.ask(LeaveGroupRequest(two.group, members=(LeaveGroupRequestMemberIdentity("", "i"),)), 3)
        many[0].epoch = -1
        many[0].beat(topic_partitions=None)
        self.leave(one.peer, two.peer, *[member.peer for member in many], streams.peer)

    def share(self) -> None:
        group, peer = self.name("share"), self.server.connect()
        for epoch in (0, 1):
            self.ask(ShareGroupHeartbeatRequest(group, "m", epoch, subscribed_topic_names=(self.topic,)), 1, peer)
        topic_id = self.server.node.world.ledger.catalog.topics_by_name[self.topic].id
        parts = requests.share_fetch_topics({(topic_id, 1): (), (topic_id, 2): ()})
        sizes: dict[str, Any] = {"max_records": 10, "batch_size": 10, "max_bytes": 1_000, "min_bytes": 1}
        self.ask(ShareFetchRequest(group, "m", 0, topics=parts, **sizes), 1, peer)
        self.write(2)
        self.ask(ShareFetchRequest(group, "m", 1, **sizes), 1, peer)
        accepted = requests.share_acknowledge_topics({(topic_id, 2): ((0, 0, (1,)),)})
        told = self.ask(ShareAcknowledgeRequest(group, "m", 2, topics=accepted), 1, peer)
        assert told.responses[0].partitions[0].error_code == ErrorCode.NONE
        for one in (group, self.name("nowhere")):  # sessions that are closed, and not with their connection
            for epoch, named in ((0, parts), (-1, ())):
                request = ShareFetchRequest(one, "stays", epoch, topics=named, **sizes if epoch == 0 else {})
                assert self.ask(request, 1, self.staying).error_code == ErrorCode.NONE
        self.leave(peer)
        for node_id in self.server.node.world.coordinators.node_ids:
            for verb in (StopBroker(node_id), StartBroker(node_id)):  # with all that it coordinates
                self.command(verb)

    def administrate(self, *, ends: bool = False) -> None:
        """Give rights, a quota and a password, or take them."""
        user = self.name("u")
        for kind, of, key in (
            ("user", self.name("q"), "producer_byte_rate"),
            ("ip", f"::{self.day}", "connection_creation_rate"),
        ):
            entity, quota = AlterClientQuotasRequestEntityData(kind, of), AlterClientQuotasRequestOpData(key, 1e6, ends)
            (told,) = self.ask(
                AlterClientQuotasRequest((AlterClientQuotasRequestEntryData((entity,), (quota,)),)), 1
            ).entries
            assert told.error_code == ErrorCode.NONE
        if ends:
            self.ask(DeleteAclsRequest((DeleteAclsRequestDeleteAclsFilter(3, user, 3, None, None, 1, 1),)), 3)
            gone = AlterUserScramCredentialsRequestScramCredentialDeletion(user, 1)
            self.ask(AlterUserScramCredentialsRequest((gone,)), 0)
            return
        self.ask(CreateAclsRequest((rule(resource_name=user, principal=f"User:{user}"),)), 3)
        made = AlterUserScramCredentialsRequestScramCredentialUpsertion(user, 1, 4096, b"salt" * 3, b"p" * 32)
        self.ask(AlterUserScramCredentialsRequest(upsertions=(made,)), 0)

    # -- what ends -----------------------------------------------------------------------------------------------------

    def move(self, name: str, *, is_group: bool = False) -> None:
        """Let the other broker coordinate a group or a transactional id, and the first one again."""
        for node_id in self.server.node.world.coordinators.node_ids[::-1]:
            self.command(MoveGroup(name, node_id) if is_group else MoveTransaction(name, node_id))

    def command(self, verb: BrokerVerb) -> None:
        self.server.node.command(verb, self.server.clock.now_ms(), lambda: "id")
        self.server.rest()
        self.server.advance(0.01)

    def leave(self, *peers: Peer) -> None:
        for peer in peers:
            self.server.frontend.disconnect(peer.connection)
        self.server.rest()

    def end(self, groups: Iterable[str]) -> None:
        """Let the members' sessions end, delete everything, and let what is left expire."""
        self.server.advance(120)
        told = self.ask(DeleteGroupsRequest(tuple(map(self.name, groups))), 2)
        assert {one.error_code for one in told.results} == {ErrorCode.NONE}
        self.ask(requests.alter_configs(GROUP, self.name("consumer"), {"consumer.session.timeout.ms": None}), 1)
        self.administrate(ends=True)
        topics = [name for name in self.server.node.world.ledger.catalog.topics_by_name if not name.startswith("__")]
        self.ask(DeleteTopicsRequest(tuple(map(DeleteTopicsRequestDeleteTopicState, topics))), 6)
        self.leave(self.admin)
        for _ in range(DAYS):
            self.server.advance(DAY_S)
            self.server.rest()
            for _ in self.janitor.round(self.server.clock.now_ms()):
                pass
            self.server.rest()

    def live(self) -> dict[str, int]:
        """Live a day. Return how long the containers were at noon."""
        self.day += 1
        self.make_topics()
        self.administrate()
        self.produce()
        self.fetch()
        self.join()
        self.share()
        noon = self.measure()
        self.end(("classic", "consumer", "streams", "share", "txn"))
        return noon


def test_what_ends_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_polls, "REMEMBERED_MAX", 1)  # of which some are of topics that are gone
    monkeypatch.setattr(catalog, "GONE_MAX", 0)
    life = Life()
    life.live()
    life.live()  # as the first time there are things to be made once
    before = life.measure()
    noon = life.live()
    after = life.measure()
    assert {name: (before.get(name, 0), length) for name, length in after.items() if length > before.get(name, 0)} == {}
    assert sum(noon.get(name, 0) > length for name, length in after.items()) > 30, "there was something to end"
