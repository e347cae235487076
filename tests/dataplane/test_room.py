"""Each kind of state that outlives its request is refused beyond its setting, with a code, each entry for itself; the
server is full again after a restart, and takes more once something is gone."""

from collections.abc import Callable

import pytest

from coordinator.core.prices import BOUNDED, Kind
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestAclCreation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.dataplane.broker import Broker
from tests.requests import create_topics
from tests.storage.crashing_disk import CrashingDisk

BOUND = 65_536
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
              "super.users": "User:ANONYMOUS"}  # fmt: skip


def configs(broker: Broker, number: int) -> list[int]:
    entries = [
        IncrementalAlterConfigsRequestResource(
            32,
            f"{number}-{n}",
            (IncrementalAlterConfigsRequestAlterableConfig("consumer.session.timeout.ms", 0, "46000"),),
        )
        for n in range(5)
    ]
    return [one.error_code for one in broker.ask(IncrementalAlterConfigsRequest(tuple(entries))).responses]


def topics(broker: Broker, number: int) -> list[int]:
    names = {f"{number}-{n}": 1 for n in range(5)}
    return [one.error_code for one in broker.ask(create_topics(names)).topics]


def transactional_ids(broker: Broker, number: int) -> list[int]:
    return [broker.ask(InitProducerIdRequest(f"{number}", 60_000), version=5).error_code]


def credentials(broker: Broker, number: int) -> list[int]:
    make = AlterUserScramCredentialsRequestScramCredentialUpsertion
    asked = tuple([make(f"{number}-{n}", 1, 4096, b"salt", b"p" * 32) for n in range(5)])
    return [one.error_code for one in broker.ask(AlterUserScramCredentialsRequest((), asked)).results]


def acls(broker: Broker, number: int) -> list[int]:
    asked = [CreateAclsRequestAclCreation(2, f"{number}-{n}", 3, "User:a", "*", 3, 3) for n in range(5)]
    return [one.error_code for one in broker.ask(CreateAclsRequest(tuple(asked))).results]


def quotas(broker: Broker, number: int) -> list[int]:
    entries = [
        AlterClientQuotasRequestEntryData(
            (AlterClientQuotasRequestEntityData("user", f"{number}-{n}"),),
            (AlterClientQuotasRequestOpData("producer_byte_rate", 1.0, False),),
        )
        for n in range(5)
    ]
    return [one.error_code for one in broker.ask(AlterClientQuotasRequest(tuple(entries))).entries]


FILL: dict[Kind, Callable[[Broker, int], list[int]]] = {
    Kind.TOPICS: topics,
    Kind.GROUP_CONFIGS: configs,
    Kind.TRANSACTIONAL_IDS: transactional_ids,
    Kind.CREDENTIALS: credentials,
    Kind.ACLS: acls,
    Kind.QUOTAS: quotas,
}


def broker_with(kind: Kind, disk: CrashingDisk | None = None) -> Broker:
    return Broker(
        disk, **{name.replace(".", "_"): value for name, value in {**AUTHORIZER, kind.setting: BOUND}.items()}
    )


@pytest.mark.parametrize("kind", BOUNDED)
def test_each_kind_is_refused_beyond_its_setting(kind: Kind) -> None:
    disk = CrashingDisk()
    broker = broker_with(kind, disk)
    told: list[int] = []
    number = 0
    while not told or told[-1] == ErrorCode.NONE:
        number += 1
        told += FILL[kind](broker, number)
        assert number < 1_000, "nothing is refused"
    assert set(told) == {ErrorCode.NONE, ErrorCode.POLICY_VIOLATION}
    held = broker.ledger.catalog.held
    assert 0.9 * BOUND < held.bytes[kind] <= BOUND
    assert not any(held.bytes[other] for other in BOUNDED if other not in (kind, Kind.TOPICS))
    again = broker_with(kind, disk.copy())
    assert again.ledger.catalog.held.bytes == held.bytes
    assert ErrorCode.POLICY_VIOLATION in FILL[kind](again, 5_000)
    held.bounds = {**held.bounds, kind: 2 * BOUND}
    assert set(FILL[kind](broker, 6_000)) == {ErrorCode.NONE}


def test_a_transaction_with_many_partitions_takes_room() -> None:
    broker = broker_with(Kind.TRANSACTIONAL_IDS)
    broker.create("t", partitions=3_000)
    producer = broker.producer("a")

    def add(first: int, last: int) -> set[int]:
        topic = AddPartitionsToTxnRequestTopic("t", tuple(range(first, last)))
        transaction = AddPartitionsToTxnRequestTransaction("a", *producer, False, (topic,))
        (result,) = broker.ask(AddPartitionsToTxnRequest((transaction,))).results_by_transaction
        return {one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition}

    assert add(0, 1_000) == {ErrorCode.NONE}
    assert add(1_000, 3_000) == {ErrorCode.POLICY_VIOLATION}
    assert add(1_000, 1_010) == {ErrorCode.NONE}
