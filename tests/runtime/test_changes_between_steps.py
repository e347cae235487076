"""Whatever comes, goes and changes between two steps of a request that reads, it is answered, and nothing fails."""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final

import pytest

from coordinator.core.catalog.catalog import CLIENT_METRICS, GROUP, TOPIC
from protocol.apis import BY_NAME, TABLE
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
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.schema import Message
from protocol.traits import Trait
from tests.members import ConsumerMember
from tests.reading import GROUPS, PARTITIONS, READING, TOPICS
from tests.requests import alter_configs, commit, create_topics
from tests.runtime.guarded import rule, server, user
from tests.server.in_memory import InMemory, Peer

AT_ONCE: Final = {"ApiVersions", "GetTelemetrySubscriptions"}
BY_IDS: Final = {"ReadShareGroupStateSummary"}  # of topics: it has tests of its own


def make(name: str) -> Iterator[tuple[Message, int]]:
    """Requests that make one of everything there is, with the number of a name."""
    topic, group, own = f"t{name}", f"g{name}", f"x{name}"
    quota = AlterClientQuotasRequestOpData("producer_byte_rate", 1e9)
    entity = (AlterClientQuotasRequestEntityData("client-id", own),)
    yield create_topics({topic: PARTITIONS}), 7
    yield alter_configs(TOPIC, topic, {"retention.ms": "1000"}), 1
    yield alter_configs(GROUP, group, {"consumer.session.timeout.ms": "50000"}), 1
    yield alter_configs(CLIENT_METRICS, own, {"interval.ms": "1000"}), 1
    yield commit(group, {topic: {0: 1}}), 8
    yield InitProducerIdRequest(own, 10_000), 4
    yield AlterClientQuotasRequest((AlterClientQuotasRequestEntryData(entity, (quota,)),)), 1
    scram = AlterUserScramCredentialsRequestScramCredentialUpsertion(own, 1, 4096, b"salt", b"p" * 32)
    yield AlterUserScramCredentialsRequest(upsertions=(scram,)), 0
    yield CreateAclsRequest((rule(resource_name=own),)), 3


def remove(name: str) -> Iterator[tuple[Message, int]]:
    """Requests that remove the same."""
    topic, group, own = f"t{name}", f"g{name}", f"x{name}"
    quota = AlterClientQuotasRequestOpData("producer_byte_rate", remove=True)
    entity = (AlterClientQuotasRequestEntityData("client-id", own),)
    yield DeleteGroupsRequest((group,)), 2
    yield DeleteTopicsRequest(topic_names=(topic,)), 5
    yield alter_configs(GROUP, group, {"consumer.session.timeout.ms": None}), 1
    yield alter_configs(CLIENT_METRICS, own, {"interval.ms": None}), 1
    yield AlterClientQuotasRequest((AlterClientQuotasRequestEntryData(entity, (quota,)),)), 1
    deletion = AlterUserScramCredentialsRequestScramCredentialDeletion(own, 1)
    yield AlterUserScramCredentialsRequest(deletions=(deletion,)), 0
    yield DeleteAclsRequest((DeleteAclsRequestDeleteAclsFilter(2, own, 3, None, None, 1, 1),)), 3


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> InMemory:
    """A server that has something of everything, and of which each turn does one step, over one thing."""
    made = server(offsets_topic_num_partitions=3)
    admin = user(made, "admin")
    for number in range(len(TOPICS)):
        for message, version in make(str(number)):
            done(made, admin, message, version)
    for group in GROUPS[:3]:
        ConsumerMember(user(made, "admin"), group).beat()
        done(made, admin, ShareGroupHeartbeatRequest(f"share-{group}", "m", 0, subscribed_topic_names=TOPICS), 1)
    monkeypatch.setattr("coordinator.core.pace.UNITS", 1)
    made.frontend.turn.real_s = count(1.0).__next__  # every look takes as long as a turn
    return made


def done(made: InMemory, peer: Peer, message: Message, version: int) -> None:
    before = len(peer.answers)
    peer.send((message, version))
    while len(peer.answers) == before:
        made.turn()


@pytest.mark.parametrize("name", READING)
def test_a_request_that_reads_is_answered_whatever_changes_between_its_steps(full: InMemory, name: str) -> None:
    dice, admin = Random(name), user(full, "admin")
    peer = user(full, "admin")
    peer.send((READING[name], BY_NAME[name].versions[-1]))
    numbers = count(len(TOPICS))
    while not peer.answers:
        change = make(str(next(numbers))) if dice.random() < 0.5 else remove(str(dice.randrange(next(numbers))))
        for message, version in change:
            if dice.random() < 0.5:
                done(full, admin, message, version)
        full.turn()
    assert full.node.world.edge.failures == {}


def test_each_api_that_reads_is_here() -> None:
    reads = {api.name for api in TABLE if Trait.READS in api.traits}
    assert reads | {"Metadata"} == READING.keys() | AT_ONCE | BY_IDS  # which may create topics
