"""Released Python clients as users who may do some things and not others, and who have quotas.

The ACLs and quotas are made by the clients' own administrators, on a server with Kafka's authorizer.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from tests.live import Muster

SECONDS = 60  # of patience on a busy machine

pytestmark = pytest.mark.xdist_group("security")


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    folder = tmp_path_factory.mktemp("authorization")
    users = folder / "users"
    users.write_text("root:secret\nalice:secret\nbob:secret\n")
    settings = {
        "sasl.users.file": users,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    words += ["--listen", "SASL_PLAINTEXT://127.0.0.1:0"]
    with Muster(
        folder, "--ephemeral", "--topic", "orders:1", "--topic", "secret:1", *words, has_listen=False
    ) as server:
        yield server


def confluent(muster: Muster, user: str, **values: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": muster.kafka,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "secret",
        **values,
    }


def python(muster: Muster, user: str, **values: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": muster.kafka,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": "secret",
        **values,
    }


def allow(
    muster: Muster, user: str, kind: ResourceType, name: str, *operations: AclOperation, prefixed: bool = False
) -> None:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    create(AdminClient(confluent(muster, "root")), *(rule(user, kind, name, each, pattern) for each in operations))


def rule(
    user: str,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def create(admin: AdminClient, *rules: AclBinding) -> None:
    for made in admin.create_acls(list(rules)).values():
        made.result(SECONDS)


def consume(muster: Muster, user: str, group: str, topic: str) -> bytes | int:
    """The first record by confluent-kafka, or the code of the error that comes instead."""
    consumer = Consumer(confluent(muster, user, **{"group.id": group, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                return int(error.code())
            return bytes(message.value())
    finally:
        consumer.close()
    raise TimeoutError


def produce(muster: Muster, user: str, topic: str) -> KafkaError | None:
    """The error that a record meets, None if it is delivered."""
    told: list[KafkaError | None] = []
    producer = Producer(confluent(muster, user))
    producer.produce(topic, b"record", on_delivery=lambda error, _: told.append(error))
    producer.flush(SECONDS)
    return told[0]


def test_a_user_may_do_what_it_is_allowed_and_nothing_else(muster: Muster) -> None:
    assert produce(muster, "alice", "orders").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(muster, "alice", ResourceType.TOPIC, "ord", AclOperation.WRITE, AclOperation.READ, prefixed=True)
    assert produce(muster, "alice", "orders") is None
    assert produce(muster, "alice", "secret").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consume(muster, "alice", "shop", "orders") == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(muster, "alice", ResourceType.GROUP, "shop", AclOperation.READ)
    assert consume(muster, "alice", "shop", "orders") == b"record"
    assert consume(muster, "bob", "shop", "orders") in (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
    seen = AdminClient(confluent(muster, "alice")).list_topics(timeout=SECONDS).topics
    assert "orders" in seen and "secret" not in seen


def test_an_administrator_needs_rights_of_the_cluster(muster: Muster) -> None:
    bob = AdminClient(confluent(muster, "bob"))
    wanted = rule("bob", ResourceType.TOPIC, "orders", AclOperation.READ)
    with pytest.raises(KafkaException) as refused:
        create(bob, wanted)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    allow(muster, "bob", ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER)
    create(bob, wanted)


def test_kafka_python_raises_its_own_errors(muster: Muster) -> None:
    producer = KafkaProducer(**python(muster, "bob", max_block_ms=SECONDS * 1000))
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("secret", b"record").get(SECONDS)
    producer.close(timeout=5)
    allow(muster, "bob", ResourceType.TOPIC, "secret", AclOperation.READ)
    consumer = KafkaConsumer("secret", **python(muster, "bob", group_id="his"))
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.poll(SECONDS * 1000)
    consumer.close(autocommit=False)


def test_the_operator_of_the_admin_port_needs_no_rights(muster: Muster) -> None:
    assert muster.steer("POST", "/state", topics={"seeded": 2})["topics"]["seeded"] == 2
