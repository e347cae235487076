"""SASL: who gets in, what strangers can do before that, and what a failure tells them."""

import base64
import hashlib
import json
import re
import threading
import time
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OctKey

from coordinator.config import Config
from coordinator.control.journal import Filter
from coordinator.core.scram import SHA_256
from coordinator.server.authentication import Authentication
from coordinator.server.authenticator import LINGER_S
from coordinator.server.sasl.issuer import Issuer
from coordinator.server.sasl.listener import Sasl
from coordinator.server.sasl.oauthbearer import InvalidToken, OAuthBearer, Rules, Verifier
from coordinator.server.sasl.outcome import Challenge, Failure, Success, Work
from coordinator.server.sasl.plain import Plain
from coordinator.server.sasl.scram import Scram
from coordinator.server.sasl.users import read_users
from coordinator.setting import ConfigError
from protocol.apis import TABLE
from protocol.codec import encode_request
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.control.steered import SteeredNode
from tests.requests import create_topics
from tests.server.in_memory import InMemory, Peer
from tests.server.listening import IDLE_MS, VERSIONS, listening, until
from tests.server.sasl_clients import ScramClient, authenticate, bearer, claims, log_in, plain, sasl, shake_hands

DELAY_S = 0.1
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
ISSUER = Verifier(Issuer().keys, Rules())


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def begin(mechanism: str = "PLAIN", sasl_of: Sasl | None = None) -> tuple[InMemory, Peer]:
    """A server, and a client that has chosen its mechanism."""
    here = InMemory(sasl=sasl_of or sasl())
    peer = here.connect()
    shake_hands(peer, mechanism)
    return here, peer


def come_back(seconds: float) -> tuple[InMemory, Peer]:
    """A server on which an authentication counts for ten seconds, and a client that is authenticated for so long."""
    here = InMemory(sasl=sasl(connections_max_reauth_ms=10_000))
    peer = here.connect()
    assert log_in(peer).session_lifetime_ms == 10_000
    here.advance(seconds)
    return here, peer


def fail(here: InMemory, peer: Any, token: bytes) -> Any:
    """What the client is told of its failure: nothing before its time, and then it is the end."""
    before = len(peer.answers)
    assert authenticate(peer, token) is None, "the response is held back"
    here.advance(DELAY_S * 0.9)
    assert len(peer.answers) == before
    assert not peer.connection.closing
    here.advance(DELAY_S * 0.2)
    response = peer.answers[before][1]
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not peer.connection.closing, "kafka-python would not look at a response that comes with the end"
    assert peer.ask(*VERSIONS) is None
    here.advance(LINGER_S)
    assert peer.connection.closing
    assert str(peer.connection.principal) == "User:ANONYMOUS"
    return response.error_message


# -- before authentication ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [api for api in TABLE if api.name not in ("ApiVersions", "SaslHandshake")])
def test_before_authentication_every_other_api_closes_and_changes_nothing(api: Any) -> None:
    """R24, CVE-2017-12610."""
    here = InMemory(sasl=sasl())
    handled = here.record_requests()
    for begin in (None, lambda peer: peer.ask(*VERSIONS), lambda peer: shake_hands(peer, "PLAIN")):
        peer = here.connect()
        if begin is not None:
            begin(peer)
        is_expected = (
            api.name == "SaslAuthenticate" and bool(peer.answers) and hasattr(peer.answers[-1][1], "mechanisms")
        )
        handled.clear()
        answers = len(peer.answers)
        here.frontend.receive(peer.connection, encode_request(api.key, api.versions[-1], 9, "x", api.request.cls()))
        here.turn()
        assert peer.connection.closing is not is_expected
        assert len(peer.answers) == answers
        assert not handled


def test_nothing_that_comes_with_a_failure_is_done() -> None:
    here, peer = begin()
    topic = create_topics({"mine": 1})
    peer.send((SaslAuthenticateRequest(plain("alice", "wrong")), 2), (topic, 7))
    here.turn()
    for _ in range(2):
        here.advance(1)
    assert peer.connection.closing
    assert "mine" not in here.node.world.ledger.catalog.topics_by_name
    assert [number for number, _ in peer.answers] == [1, 2]


@pytest.mark.parametrize("is_in_thread", [False, True], ids=["at once", "in a thread"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_comes_right_behind_a_token_is_answered_for_the_user_of_the_token(
    mechanism: str, is_in_thread: bool, issuer: Issuer
) -> None:
    """The journal has the user, too, whoever the client was in the requests before."""
    here = SteeredNode(journal_bytes=1 << 20, sasl=sasl(issuer, sasl_enabled_mechanisms=MECHANISMS))
    waiting: list[tuple[int, Work]] = []
    if is_in_thread:
        here.frontend.authenticator.find_with(lambda *found: waiting.append(found))
    handled, peer, topic = here.record_requests(), here.connect(), create_topics({"mine": 1})
    peer.ask(*VERSIONS)
    handled.clear()
    if mechanism.startswith("SCRAM"):
        client = ScramClient("sha256", "alice", "secret")
        token = client.final(client.begin(peer))
    else:
        shake_hands(peer, mechanism)
        token = plain("alice", "secret") if mechanism == "PLAIN" else bearer(issuer.issue("alice"))
    peer.send((SaslAuthenticateRequest(token), 2), (topic, 7), VERSIONS)
    here.turn()
    for ticket, work in waiting:
        assert not handled, "nothing is decided before the token is"
        here.frontend.authenticator.resume_with(ticket, here.frontend.authenticator.attempt(work))
    assert bool(waiting) == (is_in_thread and mechanism == "OAUTHBEARER")
    here.rest()
    first, second, third = [answer for _, answer in peer.answers[-3:]]
    assert (first.error_code, second.topics[0].error_code, third.error_code) == (0, 0, 0)
    assert [str(call.principal) for _, call in handled][-2:] == ["User:alice"] * 2
    entries = [entry for entry, _ in here.operator.requests.journal.entries(Filter())]
    assert str(entries[0].client.principal) == "User:ANONYMOUS"
    assert [str(entry.client.principal) for entry in entries[-2:]] == ["User:alice"] * 2


def test_a_frame_is_small_until_the_client_is_authenticated() -> None:
    here = InMemory(sasl=sasl(sasl_server_max_receive_size=1_024))
    large = encode_request(18, 3, 1, "x" * 2_000, VERSIONS[0])
    stranger = here.connect()
    here.frontend.receive(stranger.connection, large[:8])
    assert stranger.connection.closing, "as soon as its size is there"
    peer = here.connect()
    log_in(peer)
    here.frontend.receive(peer.connection, large)
    assert not peer.connection.closing


def test_a_listener_without_sasl_refuses_a_handshake_as_kafka_does() -> None:
    assert shake_hands(InMemory().connect(), "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE


# -- PLAIN -------------------------------------------------------------------------------------------------------------


def test_bare_tokens_follow_the_older_handshake() -> None:
    here = InMemory(sasl=sasl())
    peer = here.connect()
    shake_hands(peer, "PLAIN", version=0)
    token = plain("alice", "secret")
    here.frontend.receive(peer.connection, len(token).to_bytes(4, "big") + token)
    here.frontend.finish()
    assert list(here.frontend.outbox.take(peer.connection)) == [b"\0\0\0\0"]
    assert str(peer.connection.principal) == "User:alice"
    assert peer.ask(*VERSIONS)
    stranger = here.connect()
    shake_hands(stranger, "PLAIN", version=0)
    here.frontend.receive(stranger.connection, b"\0\0\0\x01x")
    here.turn()
    for _ in range(2):
        here.advance(1)
    assert stranger.connection.closing
    assert len(stranger.answers) == 1, "the end of the connection says it all"


# -- SCRAM -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_scram_fails_alike_with_a_wrong_password_and_a_wrong_user(user: str) -> None:
    here, salts = InMemory(sasl=sasl()), set()
    for _ in range(2):
        peer, client = here.connect(), ScramClient("sha256", user, "wrong")
        challenge = client.begin(peer)
        salts.add(challenge.split(b",")[1])
        assert challenge.endswith(b",i=4096")
        assert fail(here, peer, client.final(challenge)) == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        )
    assert len(salts) == 1, "a user that does not exist has always the same salt too"


def test_scram_takes_no_other_nonce_and_no_proof_twice() -> None:
    here = InMemory(sasl=sasl())
    peer, other, third = (here.connect() for _ in range(3))
    client = ScramClient("sha256", "alice", "secret")
    heard = client.final(client.begin(peer))
    client.begin(other)
    assert fail(here, other, heard)
    assert fail(here, third, client.final(client.begin(third), nonces="clientnonce")), "though the proof is right"


@pytest.mark.parametrize("header", [b"", b"y,,", b"n,a=alice,", b"p=tls-unique,,"])
def test_scram_is_bound_to_the_header_of_its_first_message(header: bytes) -> None:
    """RFC 5802, 5.1: whoever changes the header on the way, so that less is bound, is found out."""
    here = InMemory(sasl=sasl())
    peer, client = here.connect(), ScramClient("sha256", "alice", "secret")
    assert fail(here, peer, client.final(client.begin(peer), header=header)), "though the proof is right"


@pytest.mark.parametrize(
    "first",
    [b"", b"p=tls-unique,,n=alice,r=x", b"n,,r=x", b"n,,n=,r=x", b"n,,n=a=b,r=x", b"n,a=bob,n=alice,r=x", b"\xff"],
)
def test_scram_that_makes_no_sense_fails(first: bytes) -> None:
    assert fail(*begin("SCRAM-SHA-256"), first)


@given(st.text("a,=", min_size=1, max_size=8), st.text("a,=", max_size=8))
def test_scram_takes_the_own_name_as_the_authorization_id_and_no_other(user: str, asked: str) -> None:
    names = {name: name.replace("=", "=3D").replace(",", "=2C") for name in (user, asked)}
    for wanted in (user, asked):
        first = f"n,{'a=' * bool(wanted)}{names[wanted]},n={names[user]},r=nonce"
        outcome = Scram(SHA_256, lambda user: None).step(first.encode())
        assert isinstance(outcome, Challenge if wanted in ("", user) else Failure)


@given(st.text("a,=", min_size=1, max_size=8), st.text("a,=", max_size=8))
def test_oauthbearer_takes_the_own_name_as_the_authorization_id_and_no_other(user: str, asked: str) -> None:
    for wanted in (user, asked):
        token = bearer("token", wanted.replace("=", "=3D").replace(",", "=2C"))
        work = OAuthBearer(lambda _: Success(user)).step(token)
        assert isinstance(work, Work)
        assert isinstance(work.find(), Success if wanted in ("", user) else Failure)


def test_a_password_that_a_client_has_set_counts_in_place_of_the_one_in_the_settings() -> None:
    here = InMemory(sasl=sasl())
    log_in(operator := here.connect())
    salted = hashlib.pbkdf2_hmac("sha256", b"new", b"salty", 8_192)
    upsertion = AlterUserScramCredentialsRequestScramCredentialUpsertion("alice", 1, 8_192, b"salty", salted)
    assert operator.ask(AlterUserScramCredentialsRequest(upsertions=(upsertion,)), 0).results[0].error_code == 0
    peer, client = here.connect(), ScramClient("sha256", "alice", "new")
    assert authenticate(peer, client.final(client.begin(peer))).error_code == 0
    peer, client = here.connect(), ScramClient("sha256", "alice", "secret")
    assert fail(here, peer, client.final(client.begin(peer)))


@pytest.mark.parametrize(("prefix", "other"), [("listener_name_sasl_", 7_000), ("listener_name_sasl_plain_", 1_000)])
def test_an_authentication_counts_for_as_long_as_the_nearest_setting_says(prefix: str, other: int) -> None:
    """That of a mechanism goes before that of its listener, and this before that of all."""
    settings = {"connections_max_reauth_ms": 1_000, f"{prefix}connections_max_reauth_ms": 7_000}
    here = InMemory(sasl=sasl(**settings))
    assert log_in(here.connect()).session_lifetime_ms == 7_000
    peer, client = here.connect(), ScramClient("sha256", "alice", "secret")
    assert authenticate(peer, client.final(client.begin(peer))).session_lifetime_ms == other


def test_scram_with_a_credential_that_a_client_has_set_and_that_a_restart_keeps() -> None:
    here = InMemory(sasl=sasl())
    peer = here.connect()
    log_in(peer)
    salted = hashlib.pbkdf2_hmac("sha512", b"new", b"salty", 8_192)
    upsertion = AlterUserScramCredentialsRequestScramCredentialUpsertion("dora", 2, 8_192, b"salty", salted)
    assert peer.ask(AlterUserScramCredentialsRequest(upsertions=(upsertion,)), 0).results[0].error_code == 0
    here.node.close()
    for place in (here, InMemory(here.files, sasl=sasl())):
        peer, client = place.connect(), ScramClient("sha512", "dora", "new")
        challenge = client.begin(peer)
        assert challenge.endswith(b",i=8192")
        done = authenticate(peer, client.final(challenge))
        assert done.auth_bytes == b"v=" + base64.b64encode(client.signature), "the server knows the user"
        assert str(peer.connection.principal) == "User:dora"


# -- OAUTHBEARER -------------------------------------------------------------------------------------------------------


def test_a_token_for_development_has_the_claims_of_its_user() -> None:
    issuer = Issuer(lambda: 1_000.9)
    (key,) = issuer.keys
    assert (key["use"], key["alg"], "d" in key) == ("sig", "RS256", False), "the private part is kept"
    header, claims = parts_of(issuer.issue("carol", scope="read", audience="kafka", lifetime_s=60))
    assert header == {"alg": "RS256", "kid": key["kid"], "typ": "JWT"}
    assert claims == {"iss": "muster", "sub": "carol", "iat": 1_000, "exp": 1_060, "scope": "read", "aud": "kafka"}
    assert parts_of(issuer.issue("dan"))[1] == {"iss": "muster", "sub": "dan", "iat": 1_000, "exp": 1_300}
    assert parts_of(issuer.issue("eve", lifetime_s=-5))[1] == {"iss": "muster", "sub": "eve", "iat": 995, "exp": 995}


def parts_of(token: str) -> list[Any]:
    """The header and the claims of a token."""
    return [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def test_a_token_says_who_the_client_is_and_for_how_long(issuer: Issuer) -> None:
    _, peer = begin("OAUTHBEARER", sasl(issuer))
    assert "OAUTHBEARER" in peer.answers[0][1].mechanisms
    response = authenticate(peer, bearer(issuer.issue("carol", lifetime_s=100)))
    assert response.error_code == 0
    assert 90_000 < response.session_lifetime_ms <= 100_000
    assert str(peer.connection.principal) == "User:carol"


def test_a_token_that_has_expired_is_refused_in_two_steps(issuer: Issuer) -> None:
    here, peer = begin("OAUTHBEARER", sasl(issuer))
    challenge = authenticate(peer, bearer(issuer.issue("carol", lifetime_s=-100)))
    assert (challenge.error_code, json.loads(challenge.auth_bytes)) == (0, {"status": "invalid_token"})
    assert fail(here, peer, b"\x01") == "Authentication failed: the token has expired"


def signed(key: Any, facts: Any, algorithm: str = "RS256") -> str:
    return jwt.encode({"alg": algorithm, "kid": key.kid}, dict(facts), key, algorithms=[algorithm])


def test_tokens_that_are_not_accepted(issuer: Issuer) -> None:
    rules = Rules("me", ("kafka",))
    verifier = Verifier(issuer.keys, rules)
    mine = claims(iss="me", aud=["kafka", "other"])
    assert verifier.verify(signed(issuer._key, mine)).user == "carol"
    stranger = Issuer()
    stranger._key = type(stranger._key).import_key(stranger._key.as_dict(private=True) | {"kid": issuer._key.kid})
    public = json.dumps(issuer.keys[0]).encode()
    header, payload, signature = signed(issuer._key, mine).split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    unverified = "the token cannot be verified: [A-Za-z]+"
    for token, reason in [
        (signed(stranger._key, mine), unverified),
        (signed(OctKey.import_key(public, {"kid": issuer._key.kid}), mine, "HS256"), unverified),
        (f"{none}.{payload}.", unverified),
        (f"{header}.{payload}.{signature[:-4]}AAAA", unverified),
        (f"{header}.{payload}", unverified),
        ("", unverified),
        (signed(issuer._key, mine | {"exp": time.time() - 31}), "the token has expired"),
        (signed(issuer._key, mine | {"exp": "soon"}), "the token (has no exp|cannot be verified: [A-Za-z]+)"),
        (signed(issuer._key, {"sub": "x", "iss": "me", "aud": "kafka"}), "the token has no exp"),
        *((signed(issuer._key, mine | {"exp": exp}), "the token has no exp") for exp in (inf, -inf, nan, 1e300)),
        *((signed(issuer._key, mine | {"aud": aud}), "the token is for .+") for aud in (7, None, {}, [{}], [])),
        (signed(issuer._key, mine | {"nbf": time.time() + 60}), r"the token is not valid yet \(nbf\)"),
        (signed(issuer._key, mine | {"iss": "you"}), "the token is of another issuer"),
        (signed(issuer._key, mine | {"aud": "other"}), "the token is for another audience"),
        (signed(issuer._key, mine | {"sub": ""}), "the token has no sub"),
    ]:
        with pytest.raises(InvalidToken, match=f"^{reason}$"):
            verifier.verify(token)


@pytest.mark.parametrize(("audience", "is_meant"), [("a", True), (["c", "b"], True), (["a", "b"], True), ("c", False)])
def test_a_token_is_for_one_of_several_audiences(issuer: Issuer, audience: Any, is_meant: bool) -> None:
    verifier, token = Verifier(issuer.keys, Rules(audiences=("a", "b"))), signed(issuer._key, claims(aud=audience))
    if is_meant:
        assert verifier.verify(token).user == "carol"
    else:
        with pytest.raises(InvalidToken, match="the token is for another audience"):
            verifier.verify(token)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"exp": 971}, None),
        ({"exp": 970}, "the token has expired"),
        ({"exp": 2_000, "nbf": 1_030, "iat": 1_030}, None),
        ({"exp": 2_000, "nbf": 1_031}, "the token is not valid yet (nbf)"),
        ({"exp": 2_000, "iat": 1_031}, "the token is not valid yet (iat)"),
    ],
)
def test_clocks_may_differ_by_so_many_seconds(issuer: Issuer, facts: dict[str, int], reason: str | None) -> None:
    verifier = Verifier(issuer.keys, Rules(skew_s=30, user_claim="name"), lambda: 1_000)
    token = signed(issuer._key, {"name": "carol", **facts})
    if reason is None:
        assert verifier.verify(token) == Success("carol", expires_s=facts["exp"])
    else:
        with pytest.raises(InvalidToken, match=f"^{re.escape(reason)}$"):
            verifier.verify(token)


async def test_tokens_are_checked_on_a_thread(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    verify = Verifier.verify

    def noted(self: Verifier, token: str) -> Success:
        threads.append(threading.get_ident())
        return verify(self, token)

    monkeypatch.setattr(Verifier, "verify", noted)
    async with listening(sasl=sasl(issuer)) as here:
        client, token = await here.connect(), SaslAuthenticateRequest(bearer(issuer.issue("carol")))
        await client.send((SaslHandshakeRequest("OAUTHBEARER"), 1), (token, 2), VERSIONS)
        await client.read(3)
        _, (_, authenticated), (_, versions) = client.answers
        assert authenticated.session_lifetime_ms > 0 and versions.api_keys
    assert threads
    assert threading.get_ident() not in threads


async def test_a_client_is_not_idle_right_after_its_token_was_checked(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its silence was ours."""
    is_checking, may_go_on, verify = threading.Event(), threading.Event(), Verifier.verify

    def slowly(self: Verifier, token: str) -> Success:
        is_checking.set()
        assert may_go_on.wait(60)
        return verify(self, token)

    monkeypatch.setattr(Verifier, "verify", slowly)
    async with listening(sasl=sasl(issuer)) as here:
        client, token = await here.connect(), SaslAuthenticateRequest(bearer(issuer.issue("carol")))
        await client.send((SaslHandshakeRequest("OAUTHBEARER"), 1), (token, 2))
        await until(is_checking.is_set)
        here.server.seconds += IDLE_MS / 1000
        may_go_on.set()
        await client.read(2)
        here.sweep(IDLE_MS / 1000 - 1)
        assert here.poller.connections == 1
        here.sweep(1)
        assert here.poller.connections == 0


async def test_a_failure_is_told_though_nothing_else_happens() -> None:
    async with listening(sasl=sasl()) as here:
        client = await here.connect()
        await client.send((SaslHandshakeRequest("PLAIN"), 1), (SaslAuthenticateRequest(plain("alice", "wrong")), 2))
        await until(lambda: here.server.frontend.authenticator.failures)
        assert here.poller._alarm.deadline < trio.current_time() + 60
        here.server.seconds += 1
        here.poller.set_alarm()
        await client.read(2)
        here.server.seconds += 1
        here.poller.set_alarm()
        assert await client.is_closed()


async def test_who_does_not_authenticate_is_let_go() -> None:
    async with listening(sasl=sasl()) as here:
        silent, busy = await here.connect(), await here.connect()
        await until(lambda: here.poller.connections == 2)
        here.sweep(29)
        await busy.ask()
        here.sweep(2)
        assert await silent.is_closed()
        assert await busy.is_closed(), "whatever it asks"
        assert here.server.stats.connections_closed["not authenticated"] == 2


def test_what_a_failure_repeats_of_the_client_is_cut(issuer: Issuer) -> None:
    message = fail(*begin("OAUTHBEARER", sasl(issuer)), bearer(issuer.issue("carol"), "x" * 40_000))
    assert "that is different from the token's principal name (carol)" in message
    assert len(message) < 1_100


# -- again (KIP-368) ---------------------------------------------------------------------------------------------------


def test_a_client_authenticates_again_in_time() -> None:
    here, peer = come_back(0)
    for _ in range(3):
        here.advance(9)
        assert peer.ask(*VERSIONS)
        assert log_in(peer).session_lifetime_ms == 10_000
    here.advance(9.9)
    assert peer.ask(*VERSIONS)
    here.advance(0.2)
    assert peer.ask(*VERSIONS) is None
    assert peer.connection.closing


@given(st.sampled_from((0, 1, 5_000, 60_000)), st.none() | st.integers(-5, 90))
def test_an_authentication_counts_until_the_earlier_of_its_bounds(reauth_ms: int, token_s: int | None) -> None:
    """And the client is told of that one."""
    authentication = Authentication(cast("Sasl", SimpleNamespace(max_reauth_ms=lambda mechanism: reauth_ms)))
    success = Success("alice", expires_s=None if token_s is None else 1_000.0 + token_s)
    told_ms = authentication.complete(success, 50.0, lambda: 1_000.0)
    bounds = [reauth_ms] * (reauth_ms > 0) + ([] if token_s is None else [max(0, 1_000 * token_s)])
    assert told_ms == min(bounds, default=0)
    assert authentication.expires_s == (50.0 + min(bounds) / 1_000 if bounds else inf)


def test_a_client_that_is_late_may_still_authenticate_and_nothing_else() -> None:
    _, peer = come_back(20)
    assert log_in(peer)
    assert peer.ask(*VERSIONS)


def test_while_it_authenticates_again_nothing_else_is_answered() -> None:
    _, peer = come_back(5)
    shake_hands(peer, "PLAIN")
    assert peer.ask(*VERSIONS) is None
    assert peer.connection.closing


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "GSSAPI"])
def test_again_means_in_the_same_way(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    _, peer = come_back(5)
    assert shake_hands(peer, mechanism) is None
    assert peer.connection.closing
    assert f"authentication by {mechanism}, and before by PLAIN" in caplog.text


def test_a_client_cannot_authenticate_again_all_the_time() -> None:
    _, peer = come_back(0)
    log_in(peer)
    assert shake_hands(peer, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE, "once a second"


# -- tokens of strangers -----------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)), max_size=3))
def test_no_token_of_a_stranger_does_anything_but_fail(tokens: list[bytes]) -> None:
    for machine in (Plain({"alice": "secret"}.get), Scram(SHA_256, lambda user: None), OAuthBearer(ISSUER.verify)):
        for token in tokens:
            outcome = machine.step(token)
            if isinstance(outcome, Work):
                outcome = outcome.find()
            assert isinstance(outcome, Challenge | Failure)
            if isinstance(outcome, Failure):
                break


# -- settings ----------------------------------------------------------------------------------------------------------


def test_users_come_from_a_file_and_from_kafkas_setting(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# who may come in\n\nann:se:cret\nbob:x\n")
    jaas = 'x.PlainLoginModule required\n username="admin" password="a" user_eve="sa\\"y;" user_admin=a ;'
    values = {"sasl.users.file": str(file), "listener.name.in.plain.sasl.jaas.config": jaas}
    assert read_users(Config(dict(values)), "IN", "PLAIN") == {
        "ann": "se:cret",
        "bob": "x",
        "eve": 'sa"y;',
        "admin": "a",
    }
    assert read_users(Config(dict(values)), "IN", "SCRAM-SHA-256") == {"ann": "se:cret", "bob": "x"}
    assert read_users(Config(dict(values)), "OUT", "PLAIN") == {"ann": "se:cret", "bob": "x"}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"sasl.users.file": "/nowhere"}, r"invalid sasl\.users\.file '/nowhere': cannot read it: No such file"),
        ({"sasl.users.file": "FILE"}, r"expected NAME:PASSWORD in its line 2"),
        ({"sasl.jaas.config": "user_alice=secret"}, r"invalid sasl\.jaas\.config: expected MODULE required"),
        (
            {"sasl.enabled.mechanisms": ("GSSAPI",)},
            r"invalid sasl\.enabled\.mechanisms 'GSSAPI': expected any of PLAIN",
        ),
        ({"sasl.enabled.mechanisms": ("OAUTHBEARER",)}, r"invalid sasl\.oauthbearer\.jwks\.endpoint\.url ''"),
        (
            {"sasl.enabled.mechanisms": ("OAUTHBEARER",), "sasl.oauthbearer.jwks.endpoint.url": "https://x/jwks"},
            r"only file:///PATH is read",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_named(values: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ann:secret\nbob\n")
    settings = {name: str(file) if value == "FILE" else value for name, value in values.items()}
    with pytest.raises(ConfigError, match=complaint) as refused:
        Sasl(Config(settings), "SASL")
    assert "secret" not in str(refused.value)


def test_users_and_keys_are_read_again(tmp_path: Path, issuer: Issuer) -> None:
    users, keys = tmp_path / "users", tmp_path / "keys.json"
    users.write_text("ann:one\n")
    keys.write_text(json.dumps({"keys": issuer.keys}))
    again = Sasl(
        Config({
            "sasl.users.file": str(users),
            "sasl.enabled.mechanisms": ("PLAIN", "OAUTHBEARER"),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        }),
        "SASL",
    )  # fmt: skip
    here = InMemory(sasl=again)
    users.write_text("ann:two\n")
    assert log_in(here.connect(), "ann", "one")
    again.reload()
    assert log_in(here.connect(), "ann", "two")
    users.write_text("ann")
    with pytest.raises(ConfigError):
        again.reload()
    assert log_in(here.connect(), "ann", "two")
    users.write_text("ann:three\n")
    for unusable in ([1], [{}], [{"kty": ["RSA"]}], [{"kty": "EC", "crv": "P-0", "x": "AA", "y": "AA"}]):
        keys.write_text(json.dumps({"keys": unusable}))
        with pytest.raises(ConfigError, match="expected keys in the form of JWKS: "):
            again.reload()
    assert log_in(here.connect(), "ann", "two")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(("EC", "P-256", "AQAB")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("keys", "kty", "n", "crv")), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=30)
@given(document=JSON | JSON.map(lambda value: {"keys": value}) | JSON.map(lambda value: {"keys": [value]}))
def test_a_file_of_keys_that_is_of_any_other_form_is_refused(document: Any, tmp_path_factory: Any) -> None:
    keys = tmp_path_factory.getbasetemp() / "keys of any form.json"
    keys.write_text(json.dumps(document))
    values = {"sasl.enabled.mechanisms": ("OAUTHBEARER",), "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}"}
    with pytest.raises(ConfigError, match="expected keys in the form of JWKS: "):
        Sasl(Config(values), "SASL")


def test_rotated_keys_are_used_after_a_reload_and_withdrawn_ones_are_not(tmp_path: Path, issuer: Issuer) -> None:
    keys, after = tmp_path / "keys.json", Issuer()
    keys.write_text(json.dumps({"keys": issuer.keys}))
    settings = {"sasl.enabled.mechanisms": ("OAUTHBEARER",), "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}"}
    listener = Sasl(Config(settings), "SASL")
    here, old, new = InMemory(sasl=listener), bearer(issuer.issue("carol")), bearer(after.issue("carol"))

    def codes() -> list[int]:
        answers = []
        for token in (old, new):
            peer = here.connect()
            shake_hands(peer, "OAUTHBEARER")
            answer = authenticate(peer, token)
            answers.append(bool(answer.auth_bytes))  # a refusal has a challenge first
        return answers

    assert codes() == [False, True]
    keys.write_text(json.dumps({"keys": after.keys}))
    assert codes() == [False, True], "nothing is read before it is asked for"
    listener.reload()
    assert codes() == [True, False]


def test_what_is_wrong_with_users_names_where_the_setting_comes_from() -> None:
    for name, value in (("sasl.users.file", "/nowhere"), ("sasl.jaas.config", "x")):
        with pytest.raises(ConfigError, match=rf"^invalid {re.escape(name)} .*\(muster\.toml, line 3\): "):
            read_users(Config({name: value}, {name: "muster.toml, line 3"}), "IN", "PLAIN")
