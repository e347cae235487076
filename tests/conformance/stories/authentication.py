"""How clients authenticate, and what they are told when they may not: SASL/PLAIN, SCRAM, and authenticating again."""

import hashlib
from typing import Any

from tests.conformance.stage import Answer, Line, Stage
from tests.conformance.story import story
from tests.server.sasl_clients import ScramClient, plain

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT, ITERATIONS = b"salt of the story", 4_096


def begin(line: Line, mechanism: str, version: int = 1) -> Answer:
    """Send SaslHandshake."""
    return line.call("sasl_handshake", version, mechanism=mechanism)


def say(line: Line, token: bytes, version: int = 2) -> Answer:
    """Send a token."""
    return line.call("sasl_authenticate", version, auth_bytes=token)


def log_in(k: Stage, line: Line, user: str = "alice") -> Answer:
    """Authenticate by PLAIN, as a user whose password is the user's name."""
    begin(line, "PLAIN")
    return say(line, plain(k.name(user), k.name(user)))


def ask_versions(line: Line) -> Any:
    """Send ApiVersions, whose response is written down without what the broker offers."""
    answer = line.quietly("api_versions", 3, client_software_name="story", client_software_version="1")
    line.stage.events.append({"on": line.name, "api_versions": answer.error_code})


def set_password(k: Stage, user: str, password: str, *mechanisms: str) -> None:
    """Set a SCRAM credential, and wait until the broker knows it. Stage setting."""
    for mechanism in mechanisms:
        salted = hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), SALT, ITERATIONS)
        credential = {
            "name": k.name(user),
            "mechanism": [*DIGESTS].index(mechanism) + 1,
            "iterations": ITERATIONS,
            "salt": SALT,
            "salted_password": salted,
        }
        admin = k.line("stage")
        admin.quietly("alter_user_scram_credentials", 0, deletions=[], upsertions=[credential])

    def has_all(answer: Answer) -> bool:
        return len(answer.results[0].credential_infos) >= len(mechanisms)

    admin.until(user, "describe_user_scram_credentials", 0, has_all, users=[{"name": k.name(user)}])
    k.pump.run(k.settle_ms)


def scram(k: Stage, line: Line, mechanism: str, user: str, password: str, **changes: Any) -> Answer:
    """Authenticate by SCRAM. Returns the last response."""
    begin(line, mechanism)
    client = ScramClient(DIGESTS[mechanism], k.name(user), password)
    challenge = say(line, f"n,,{client.first}".encode())
    if challenge.error_code != "NONE":
        return challenge
    return say(line, client.final(challenge.auth_bytes, **changes))


@story("", server="sasl")
def a_client_authenticates_by_plain(k: Stage) -> None:
    """ApiVersions may come before; the session has no end where none is set."""
    line = k.stranger()
    ask_versions(line)
    log_in(k, line)
    line.call("metadata", 12, mine="topics.name", topics=[])


@story("", server="sasl")
def a_wrong_password_for_plain(k: Stage) -> None:
    """The client is told late, in the words that clients show, and let go; also by the older versions."""
    for version in (2, 1, 0):
        line = k.stranger(f"v{version}")
        begin(line, "PLAIN")
        say(line, plain(k.name("alice"), "wrong"), version)
        line.ends()


@story("", server="sasl")
def an_unknown_user_for_plain(k: Stage) -> None:
    """It is told the same as with a wrong password."""
    line = k.stranger()
    begin(line, "PLAIN")
    say(line, plain(k.name("nobody"), "wrong"))
    line.ends()


@story("", server="sasl")
def tokens_that_are_none_of_plain(k: Stage) -> None:
    """Too few words, too many, no user, no password, and another user to act for."""
    alice = k.name("alice")
    tokens = {
        "nothing": b"",
        "one": b"alice",
        "two": b"\0alice",
        "four": b"\0alice\0secret\0more",
        "no-user": b"\0\0secret",
        "no-password": f"\0{alice}\0".encode(),
        "for-bob": plain(alice, alice, k.name("bob")),
        "for-bob-wrong": plain(alice, "wrong", k.name("bob")),
        "for-alice": plain(alice, alice, alice),
    }
    for name, token in tokens.items():
        line = k.stranger(name)
        begin(line, "PLAIN")
        say(line, token)


@story("", server="sasl")
def a_mechanism_that_is_not_enabled(k: Stage) -> None:
    """It is refused with the names of those that are, and the connection ends."""
    for version, mechanism in ((1, "GSSAPI"), (0, "GSSAPI"), (1, "OAUTHBEARER"), (1, "plain"), (1, "")):
        line = k.stranger(f"{mechanism or 'none'}-{version}")
        begin(line, mechanism, version)
        line.ends()


@story("", server="sasl")
def other_requests_before_authentication(k: Stage) -> None:
    """They end the connection without a response, and so does a token before a mechanism was chosen."""
    for name, api, version, values in (
        ("metadata", "metadata", 12, {"topics": []}),
        ("group", "find_coordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]}),
        ("token", "sasl_authenticate", 2, {"auth_bytes": plain("alice", "alice")}),
    ):
        k.stranger(name).send(api, version, **values).closed()


@story("", server="sasl")
def other_requests_during_authentication(k: Stage) -> None:
    """Behind SaslHandshake nothing but a token may come, not even ApiVersions or another SaslHandshake."""
    for name, api, version, values in (
        ("metadata", "metadata", 12, {"topics": []}),
        ("versions", "api_versions", 3, {"client_software_name": "s", "client_software_version": "1"}),
        ("handshake", "sasl_handshake", 1, {"mechanism": "PLAIN"}),
    ):
        line = k.stranger(name)
        ask_versions(line)
        begin(line, "PLAIN")
        line.send(api, version, **values).closed()


@story("", server="sasl")
def sasl_requests_of_a_client_that_is_authenticated(k: Stage) -> None:
    """Where it need not authenticate again, they are refused, and the connection goes on."""
    line = k.stranger()
    log_in(k, line)
    begin(line, "PLAIN")
    say(line, plain(k.name("alice"), k.name("alice")))
    line.call("metadata", 12, mine="topics.name", topics=[])


@story("", server="sasl")
def a_client_authenticates_by_scram(k: Stage) -> None:
    """By either hash; the credentials were set by AlterUserScramCredentials."""
    set_password(k, "carol", "secret", *DIGESTS)
    for mechanism in DIGESTS:
        line = k.stranger(mechanism)
        scram(k, line, mechanism, "carol", "secret")
        line.call("metadata", 12, mine="topics.name", topics=[])


@story("", server="sasl")
def a_wrong_password_for_scram(k: Stage) -> None:
    """By either hash."""
    set_password(k, "carol", "secret", *DIGESTS)
    for mechanism in DIGESTS:
        line = k.stranger(mechanism)
        scram(k, line, mechanism, "carol", "wrong")
        line.ends()


@story("", server="sasl")
def an_unknown_user_for_scram(k: Stage) -> None:
    """One who does not exist, or has a credential for the other hash only. When it is refused is not written down: by
    Kafka with its first message, here with the second one."""
    set_password(k, "carol", "secret", "SCRAM-SHA-256")
    for user in ("nobody", "carol"):
        line = k.stranger(user)
        begin(line, "SCRAM-SHA-512")
        client = ScramClient("sha512", k.name(user), "secret")
        answer = line.quietly("sasl_authenticate", 2, auth_bytes=f"n,,{client.first}".encode())
        if answer.error_code == "NONE":
            answer = line.quietly("sasl_authenticate", 2, auth_bytes=client.final(answer.auth_bytes))
        k.events.append({"on": user, "is refused": answer.error_code, "because": answer.error_message})
        line.ends()


@story("", server="sasl")
def tokens_that_are_none_of_scram(k: Stage) -> None:
    """As the first message, and as the second one."""
    set_password(k, "carol", "secret", "SCRAM-SHA-256")
    carol = k.name("carol")
    first = {
        "nothing": b"",
        "noise": b"noise",
        "channel-binding": f"p=tls-unique,,n={carol},r=nonce".encode(),
        "no-nonce": f"n,,n={carol}".encode(),
        "for-bob": f"n,a={k.name('bob')},n={carol},r=nonce".encode(),
    }
    for name, token in first.items():
        line = k.stranger(name)
        begin(line, "SCRAM-SHA-256")
        say(line, token)
    for name, token in {"noise-2": b"noise", "no-proof": b"c=biws,r=nonce"}.items():
        line = k.stranger(name)
        begin(line, "SCRAM-SHA-256")
        say(line, f"n,,n={carol},r=nonce".encode())
        say(line, token)
    scram(k, k.stranger("nonce"), "SCRAM-SHA-256", "carol", "secret", nonces="another")


@story("", server="reauth")
def a_client_authenticates_again(k: Stage) -> None:
    """It is told how long that counts, and by when it must be back (KIP-368); the connection goes on."""
    line = k.stranger()
    log_in(k, line)
    log_in(k, line)
    line.call("metadata", 12, mine="topics.name", topics=[])


@story("", server="reauth")
def a_client_does_not_authenticate_again(k: Stage) -> None:
    """Its next request after that time ends the connection."""
    line = k.stranger()
    log_in(k, line)
    k.pause(2_300)
    line.send("metadata", 12, topics=[]).closed()


@story("", server="reauth")
def a_client_authenticates_again_as_somebody_else(k: Stage) -> None:
    """As another user, or with a wrong password: it may not, and is told why."""
    other = k.stranger("other")
    log_in(k, other)
    log_in(k, other, "bob")
    other.ends()
    wrong = k.stranger("wrong")
    log_in(k, wrong)
    begin(wrong, "PLAIN")
    say(wrong, plain(k.name("alice"), "wrong"))
    wrong.ends()


@story("", server="reauth")
def a_client_authenticates_again_by_another_mechanism(k: Stage) -> None:
    """By one that is enabled or not: it is let go, and is not told why."""
    for mechanism in ("SCRAM-SHA-256", "GSSAPI"):
        line = k.stranger(mechanism)
        log_in(k, line)
        quietly = line.wire.send("sasl_handshake", 1, {"mechanism": mechanism})
        k.pump.run(1_000, quietly)
        line.wire.send("sasl_authenticate", 2, {"auth_bytes": f"n,,n={k.name('alice')},r=nonce".encode()})
        line.ends()
