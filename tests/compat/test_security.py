"""Released Python clients through TLS, client certificates and every SASL mechanism; and what they say of mistakes.

One server has a listener for each protocol, and an issuer of tokens. Each client asks for the topics, which takes a
connection by the bootstrap address and one by the advertised address, both authenticated.
"""

import asyncio
import contextlib
import functools
import json
import logging
import re
import ssl
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as TokenProvider

from tests.compat.foreign.clients import CLIENTS as FOREIGN
from tests.compat.foreign.clients import cache_directory
from tests.live import Muster
from tests.server.certificates import certificates
from tests.server.secured import secured_server

SECONDS = 120  # on a machine that is busy; an error that is final comes at once
WAYS = ("TLS", "mTLS", "PLAIN", "PLAIN over TLS", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = {"TLS": "SSL", "mTLS": "MTLS", "PLAIN over TLS": "SASL_SSL"}

pytestmark = pytest.mark.xdist_group("security")


class ClientError(Exception):
    """A client's own error."""


class Way:
    """How a client gets in: what each of them needs to know for it."""

    def __init__(self, muster: Muster, way: str, mistake: str = "") -> None:
        self.mistake = mistake
        self.listener = LISTENERS.get(way, "SASL_PLAINTEXT")
        self.server = muster.address_of(self.listener)
        self.protocol = "SSL" if self.listener == "MTLS" else self.listener
        folder = certificates()
        self.ca = str((folder / "other" if mistake == "CA" else folder) / "ca.pem")
        self.certificate = str(folder / "alice.pem") if way == "mTLS" and mistake != "certificate" else None
        self.mechanism = None if self.protocol == "SSL" else way.partition(" ")[0]
        self.password = "wrong" if "password" in mistake else "secret"
        self.lifetime = -100 if mistake == "token" else 300
        self.patience_ms = SECONDS * 1000  # of clients that try again whatever the error is
        self.admin = muster.ready["admin"]

    @property
    def is_tls(self) -> bool:
        return "SSL" in self.protocol

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate:
            context.load_cert_chain(self.certificate)
        return context

    def token(self) -> str:
        form = {"grant_type": "client_credentials", "client_id": "carol", "lifetime": str(self.lifetime)}
        request = urllib.request.Request(f"{self.admin}/oauth/token", urllib.parse.urlencode(form).encode())
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return str(json.load(answer)["access_token"])


def with_confluent_kafka(way: Way) -> set[str]:
    conf: dict[str, Any] = {"bootstrap.servers": way.server, "security.protocol": way.protocol.lower()}
    if way.is_tls:
        conf["ssl.ca.location"] = way.ca
    if way.certificate:
        conf |= {"ssl.certificate.location": way.certificate, "ssl.key.location": way.certificate}
    if way.mechanism == "OAUTHBEARER":
        conf |= {"sasl.mechanism": way.mechanism, "oauth_cb": lambda _: (way.token(), 4_102_444_800.0)}
    elif way.mechanism:
        conf |= {"sasl.mechanism": way.mechanism, "sasl.username": "alice", "sasl.password": way.password}
    errors: list[str] = []

    def note(error: KafkaError) -> None:
        if way.mistake and error.code() != KafkaError._ALL_BROKERS_DOWN:
            errors.append(error.str())

    conf |= {"error_cb": note, "logger": logging.getLogger("rdkafka"), "socket.connection.setup.timeout.ms": 120_000}
    admin = AdminClient(conf)
    for _ in range(SECONDS):
        admin.poll(0)
        with contextlib.suppress(KafkaException):
            return set(admin.list_topics(timeout=1).topics)
        admin.poll(0)
        if errors:
            raise ClientError(errors[0])
    raise TimeoutError


def python_settings(way: Way, tokens: object) -> dict[str, Any]:
    """What both clients in Python are told."""
    conf: dict[str, Any] = {"bootstrap_servers": way.server, "security_protocol": way.protocol}
    if way.is_tls:
        conf["ssl_context"] = way.context()
    if way.mechanism:
        conf |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": tokens}
        conf |= {"sasl_plain_username": "alice", "sasl_plain_password": way.password}
    return conf


def with_kafka_python(way: Way) -> set[str]:
    class Provider(TokenProvider):
        def token(self) -> str:
            return way.token()

    connections: list[Any] = []  # a consumer that cannot be made does not close its own

    def connect(**settings: Any) -> Any:
        connections.append(KafkaConsumer.DEFAULT_CONFIG["kafka_client"](**settings))
        return connections[-1]

    settings = {**python_settings(way, Provider()), "bootstrap_timeout_ms": way.patience_ms, "kafka_client": connect}
    try:
        with contextlib.closing(KafkaConsumer(**settings)) as consumer:
            return set(consumer.topics())
    except PythonKafkaError as error:
        raise ClientError(repr(error)) from None
    finally:
        for each in connections:
            each.close()


def with_aiokafka(way: Way) -> set[str]:
    class Provider(AsyncTokenProvider):
        async def token(self) -> str:
            return await asyncio.to_thread(way.token)

    async def ask() -> set[str]:
        consumer = AIOKafkaConsumer(**python_settings(way, Provider()), request_timeout_ms=SECONDS * 1000)
        try:
            await consumer.start()
            return set(await consumer.topics())
        finally:
            await consumer.stop()

    try:
        return asyncio.run(ask())
    except AIOKafkaError as error:
        raise ClientError(repr(error)) from None


def with_java(way: Way) -> set[str]:
    words = [f"security.protocol={way.protocol}"]
    if way.is_tls:
        words += ["ssl.truststore.type=PEM", f"ssl.truststore.location={way.ca}"]
    if way.certificate:
        words += ["ssl.keystore.type=PEM", f"ssl.keystore.location={way.certificate}"]
    if way.mechanism:
        words += [f"sasl.mechanism={way.mechanism}", f"sasl.jaas.config={jaas(way)}"]
    if way.mechanism == "OAUTHBEARER":
        url = f"{way.admin}/oauth/token"
        words += [
            f"system:org.apache.kafka.sasl.oauthbearer.allowed.urls={url}",
            f"sasl.oauthbearer.token.endpoint.url={url}",
            "sasl.login.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        ]
    return run_program("java", way, words)


def jaas(way: Way) -> str:
    package = "org.apache.kafka.common.security"
    if way.mechanism == "OAUTHBEARER":
        return f'{package}.oauthbearer.OAuthBearerLoginModule required clientId="carol" clientSecret="any";'
    module = "plain.PlainLoginModule" if way.mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{package}.{module} required username="alice" password="{way.password}";'


def with_franz_go(way: Way) -> set[str]:
    words = [f"ca={way.ca}"] if way.is_tls else []
    words += [f"certificate={way.certificate}"] if way.certificate else []
    if way.mechanism == "OAUTHBEARER":
        words += [f"mechanism={way.mechanism}", f"token={way.token()}"]
    elif way.mechanism:
        words += [f"mechanism={way.mechanism}", "user=alice", f"password={way.password}"]
    return run_program("franz-go", way, words)


@functools.cache
def installed(client: str) -> tuple[str, ...]:
    """The command of a client in another language, which is built if it must be."""
    return tuple(FOREIGN[client].install(cache_directory(None)))


def run_program(client: str, way: Way, words: list[str]) -> set[str]:
    command = [*installed(client), "topics", way.server, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    (said,) = [json.loads(line) for line in done.stdout.splitlines()]
    if "error" in said:
        raise ClientError(said["error"] + done.stderr)
    return set(said["topics"])


Client = Callable[[Way], set[str]]
OTHERS: dict[str, Client] = {"java": with_java, "franz-go": with_franz_go}
CLIENTS: dict[str, Client] = {
    "confluent-kafka": with_confluent_kafka,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with secured_server(tmp_path_factory.mktemp("security")) as server:
        yield server


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
def test_clients_get_in_by_every_way(way: str, client: str, muster: Muster) -> None:
    assert "orders" in CLIENTS[client](Way(muster, way))


INVALID = "invalid credentials with SASL mechanism SCRAM-SHA-512"
AIO = "KafkaConnectionError"
MISTAKES = {  # the way, and what confluent-kafka, kafka-python and aiokafka say
    "CA": ("TLS", "certificate verify failed|broker certificate could not", "(?i)certificate.verify.failed", AIO),
    "certificate": ("mTLS", "certificate required", "(?i)certificate.required", AIO),
    "password": ("PLAIN", *("Invalid username or password",) * 3),
    "SCRAM password": ("SCRAM-SHA-512", INVALID, f"SaslAuthenticationFailedError.*{INVALID}", INVALID),
    # aiokafka takes the refusal for a success, and is disconnected.
    "token": ("OAUTHBEARER", "token has expired", "SaslAuthenticationFailedError.*the token has expired", AIO),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_the_clients_ordinary_errors(
    mistake: str, client: str, muster: Muster, caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python tries again until it gives up, and says in its log why."""
    name, *said = MISTAKES[mistake]
    way, expected = Way(muster, name, mistake), said[list(CLIENTS).index(client)]
    for patience_ms in (500, 5_000, 50_000):  # a busy machine may answer nothing within half a second
        way.patience_ms = patience_ms
        with pytest.raises(ClientError) as failed:
            CLIENTS[client](way)
        if re.search(expected, str(failed.value) + caplog.text):
            return
    pytest.fail(f"{expected!r} is not in {failed.value} nor in the log")


@pytest.mark.long
@pytest.mark.parametrize("client", OTHERS)
@pytest.mark.parametrize("way", WAYS)
def test_clients_of_other_languages_get_in_by_every_way(way: str, client: str, muster: Muster) -> None:
    assert "orders" in OTHERS[client](Way(muster, way))


@pytest.mark.long
@pytest.mark.parametrize(
    ("client", "mistake", "said"),
    [
        ("java", "CA", "SslAuthenticationException"),
        ("java", "certificate", "SslAuthenticationException|certificate_required|TimeoutException"),
        ("java", "password", "SaslAuthenticationException.*Invalid username or password"),
        ("java", "SCRAM password", f"SaslAuthenticationException.*{INVALID}"),
        ("franz-go", "CA", "certificate"),
        ("franz-go", "certificate", "certificate required"),
        ("franz-go", "password", "Invalid username or password|SASL_AUTHENTICATION_FAILED"),
        ("franz-go", "SCRAM password", "invalid credentials with SASL mechanism|SASL_AUTHENTICATION_FAILED"),
        ("franz-go", "token", "unexpected data in oauth response"),  # to which it does not answer
    ],
)
def test_mistakes_are_the_ordinary_errors_of_clients_of_other_languages(
    client: str, mistake: str, said: str, muster: Muster
) -> None:
    with pytest.raises(ClientError, match=said):
        OTHERS[client](Way(muster, MISTAKES[mistake][0], mistake))
