"""How a command authenticates by its settings, as brokers and issuers see it that are played here."""

import base64
import io
import json
import math
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from coordinator.client.command_config import CommandConfig
from coordinator.client.connection import AuthenticationError
from coordinator.client.sasl import oauthbearer, request_token, scram
from coordinator.core.scram import BY_NAME, derive_credential, hash_password
from coordinator.server.sasl.outcome import Challenge, Success
from coordinator.server.sasl.scram import Scram
from coordinator.setting import ConfigError
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PREFIX = "sasl.oauthbearer"
WORDS = st.text(st.sampled_from("ab=,:%+&/é"), min_size=1, max_size=6)


class Broker:
    """The other side of a connection: it answers each token with the next of these responses."""

    def __init__(self, *responses: SaslAuthenticateResponse, handshake: SaslHandshakeResponse | None = None) -> None:
        self.responses = list(responses)
        self.handshake = handshake or SaslHandshakeResponse()
        self.mechanism = ""
        self.tokens: list[bytes] = []

    def ask(self, message: Any) -> Any:
        if isinstance(message, SaslHandshakeRequest):
            self.mechanism = message.mechanism
            return self.handshake
        assert isinstance(message, SaslAuthenticateRequest)
        self.tokens.append(message.auth_bytes)
        return self.responses.pop(0)


class Issuer:
    """An issuer of tokens, in place of `urlopen`."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked: list[tuple[urllib.request.Request, float]] = []

    def __call__(self, request: urllib.request.Request, timeout: float) -> io.BytesIO:
        self.asked.append((request, timeout))
        return io.BytesIO(self.body)


def configure(folder: Path, mechanism: str, **settings: str) -> CommandConfig:
    """Return the configuration of these settings, whose names have `_` for `.`."""
    file = folder / "client.properties"
    lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism} | {
        name.replace("_", "."): value for name, value in settings.items() if value
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return CommandConfig(str(file), 7.5)


def authenticate(config: CommandConfig, broker: Any) -> float:
    return config.authenticate(broker)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


OWN, MODULE = st.one_of(st.just(""), WORDS), st.one_of(st.just(""), WORDS)


@examples(max_examples=40)
@given(*[st.tuples(OWN, MODULE)] * 3, st.sampled_from(["", "true", "FALSE"]), WORDS)
def test_a_token_is_asked_for_with_the_credentials_and_the_scope(
    folder: Path, ids: tuple[str, str], secrets: tuple[str, str], scopes: tuple[str, str], encode: str, token: str
) -> None:
    """A setting goes before the option of the login module; the two parts of Basic are as they are, unless told."""
    names = ("clientId", "clientSecret", "scope")
    options = " ".join(f'{name}="{one[1]}"' for name, one in zip(names, (ids, secrets, scopes), strict=True) if one[1])
    client_id, secret, scope = (one[0] or one[1] for one in (ids, secrets, scopes))
    settings = {
        f"{PREFIX}.token.endpoint.url": "https://issuer/token",
        f"{PREFIX}.client.credentials.client.id": ids[0],
        f"{PREFIX}.client.credentials.client.secret": secrets[0],
        f"{PREFIX}.scope": scopes[0],
        f"{PREFIX}.header.urlencode": encode,
        "sasl.jaas.config": f"a.B required {options};" if options else "",
    }
    if not client_id:
        with pytest.raises(ConfigError, match=rf"^invalid {PREFIX}.client.credentials.client.id ''"):
            configure(folder, "oauthbearer", **settings)
        return
    config = configure(folder, "oauthbearer", **settings)
    issuer, broker = Issuer(json.dumps({"access_token": token}).encode()), Broker(SaslAuthenticateResponse())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(urllib.request, "urlopen", issuer)
        assert authenticate(config, broker) == math.inf
    ((request, timeout),) = issuer.asked
    kind, _, credentials = request.headers["Authorization"].partition(" ")
    sent = base64.b64decode(credentials).decode()
    if encode == "true":
        assert sent.count(":") == 1
        sent = unquote_plus(sent)
    assert (request.full_url, request.get_method(), kind, sent, timeout) == (
        "https://issuer/token", "POST", "Basic", f"{client_id}:{secret}", 7.5,
    )  # fmt: skip
    assert isinstance(request.data, bytes)
    expected = {"grant_type": ["client_credentials"]} | ({"scope": [scope]} if scope else {})
    assert parse_qs(request.data.decode()) == expected
    assert broker.tokens == [f"n,,\x01auth=Bearer {token}\x01\x01".encode()]
    assert broker.mechanism == "OAUTHBEARER"


@pytest.mark.parametrize("url", ["", "file:///etc/token", "issuer/token"])
def test_an_issuer_is_asked_by_http_alone(url: str, folder: Path) -> None:
    settings = {f"{PREFIX}.token.endpoint.url": url, f"{PREFIX}.client.credentials.client.id": "a"}
    with pytest.raises(ConfigError, match=rf"^invalid {PREFIX}.token.endpoint.url '{url}' .*as http:// or https://$"):
        configure(folder, "OAUTHBEARER", **settings)


@pytest.mark.parametrize("url", ["http://issuer:port/token", "http://127.0.0.1:1/a token", "http://127.0.0.1:1/token"])
def test_an_issuer_that_cannot_be_asked_is_told_in_a_line(url: str, folder: Path) -> None:
    settings = {f"{PREFIX}.token.endpoint.url": url, f"{PREFIX}.client.credentials.client.id": "a"}
    with pytest.raises(AuthenticationError, match=r"^cannot authenticate by OAUTHBEARER: .+$"):
        authenticate(configure(folder, "OAUTHBEARER", **settings), Broker(SaslAuthenticateResponse()))


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"access_token": 5}', b"no", b'"access_token"'])
def test_what_is_no_token_is_refused(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", Issuer(body))
    with pytest.raises(ValueError, match=r"no access_token|Expecting value"):
        request_token("http://issuer", "a", "", "", 1)


def test_a_server_says_why_it_refuses_a_token_once_it_is_answered() -> None:
    exchange = oauthbearer(lambda: "token")
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(ValueError, match=r'^the server refuses the token: {"status":"invalid_token"}$'):
        exchange.send(b"")


@examples(max_examples=30)
@given(WORDS, WORDS, st.booleans(), st.sampled_from([0, 1, 90_500]), st.sampled_from(["PLAIN", *BY_NAME]))
def test_the_server_learns_the_user_and_the_client_for_how_long_it_counts(
    folder: Path, user: str, password: str, is_module: bool, lifetime_ms: int, mechanism: str
) -> None:
    """SCRAM by the server's own side, with names that need escapes."""
    module = {"sasl.jaas.config": f'a.B required username="{user}" password="{password}";'}
    own = {
        "sasl.username": user,
        "sasl.password": password,
        "sasl.jaas.config": 'B required username="o" password="p";',
    }
    config = configure(folder, mechanism, **(module if is_module else own))
    expected_s = lifetime_ms / 1000 if lifetime_ms else math.inf
    if mechanism == "PLAIN":
        broker = Broker(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))
        assert authenticate(config, broker) == expected_s
        assert broker.tokens == [f"\0{user}\0{password}".encode()]
        return
    hashing = BY_NAME[mechanism]
    credential = derive_credential(hashing, b"salt", 4_096, hash_password(hashing, password, b"salt", 4_096))
    server, outcomes = Scram(hashing, {user: credential}.get), list[Any]()

    class Server(Broker):
        def ask(self, message: Any) -> Any:
            if isinstance(message, SaslHandshakeRequest):
                return SaslHandshakeResponse()
            outcomes.append(server.step(message.auth_bytes))
            assert isinstance(outcomes[-1], Challenge | Success), outcomes
            lasts_ms = lifetime_ms if isinstance(outcomes[-1], Success) else 5
            return SaslAuthenticateResponse(auth_bytes=outcomes[-1].token, session_lifetime_ms=lasts_ms)

    assert authenticate(config, Server()) == expected_s
    assert len(outcomes) == 2
    assert outcomes[-1].user == user


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        (
            Broker(handshake=SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("SCRAM-SHA-256", "GSSAPI"))),
            "cannot authenticate by PLAIN: the broker has enabled SCRAM-SHA-256, GSSAPI",
        ),
        (
            Broker(handshake=SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)),
            "cannot authenticate: ILLEGAL_SASL_STATE: this port of the broker has no SASL",
        ),
        (Broker(handshake=SaslHandshakeResponse(9_999)), "cannot authenticate: error 9999"),
        (Broker(SaslAuthenticateResponse(58, "no")), "cannot authenticate: SASL_AUTHENTICATION_FAILED: no"),
        (Broker(SaslAuthenticateResponse(58, None)), "cannot authenticate: SASL_AUTHENTICATION_FAILED"),
    ],
)
def test_a_broker_that_refuses_is_told_in_a_line(broker: Broker, said: str, folder: Path) -> None:
    config = configure(folder, "PLAIN", **{"sasl.username": "a", "sasl.password": "b"})
    with pytest.raises(AuthenticationError) as refused:
        authenticate(config, broker)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    "challenge",
    ["", "r=NONCE,s=c2FsdA==,i=4096", "m=x,r=NONCE,s=c2FsdA==,i=4096", "r=NONCE,s=c2FsdA==", "e=other-error", "r=x,s=eA==,i=4096"],
)  # fmt: skip
def test_a_challenge_of_scram_is_whole(challenge: str) -> None:
    """A server must add to the nonce, of which the client's is the beginning; i of RFC 5802 is at least 4,096."""
    exchange = scram(BY_NAME["SCRAM-SHA-256"], "alice", "secret")
    own = next(exchange).decode().rpartition("r=")[2]
    is_whole = challenge.startswith("r=NONCE,") and challenge.endswith("i=4096")
    if is_whole:
        assert exchange.send(challenge.replace("NONCE", own + "x").encode()).startswith(f"c=biws,r={own}x,p=".encode())
        return
    with pytest.raises(ValueError, match=r"^the server's challenge is none of SCRAM$"):
        exchange.send(challenge.replace("NONCE", own).encode())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sasl.username": "a"}, "sasl.jaas.config ''"),
        ({"sasl.password": "a"}, "sasl.jaas.config ''"),
        ({"sasl.jaas.config": "a.B required;"}, r"sasl.jaas.config \[hidden\]"),
    ],
)
def test_a_user_and_a_password_are_both_needed(settings: dict[str, str], said: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=f'^invalid {said} .*: expected MODULE required username="USER" password='):
        configure(folder, "PLAIN", **settings)
