"""`--command-config`: commands connect by TLS and SASL, as Kafka's tools are told to; and what they say of mistakes."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.client import Client
from coordinator.client.command_config import CommandConfig
from coordinator.client.sasl import scram
from coordinator.core.scram import SHA_256
from coordinator.setting import ConfigError
from protocol.messages.metadata import MetadataRequest
from tests.commands import Shell, shell_fixture
from tests.live import Muster, wait_until
from tests.members import ClassicMember
from tests.requests import share
from tests.server.certificates import certificates
from tests.server.secured import secured_server

PACKAGE = "org.apache.kafka.common.security"
PLAIN = f'sasl.jaas.config={PACKAGE}.plain.PlainLoginModule required username="alice" password="secret";'
SCRAM = f'sasl.jaas.config={PACKAGE}.scram.ScramLoginModule required username="alice" \\\n  password="secret";'
BEARER = f"sasl.jaas.config={PACKAGE}.oauthbearer.OAuthBearerLoginModule required clientId=carol clientSecret=any ;"
TRUST = "ssl.truststore.type=PEM\nssl.truststore.location=CA"
MUTUAL = "ssl.keystore.type=PEM\nssl.keystore.location=ALICE"

WAYS = {
    "SSL": ("SSL", f"security.protocol=SSL\n{TRUST}"),
    "mTLS": ("MTLS", f"security.protocol = SSL\n{TRUST}\n{MUTUAL}"),
    "PLAIN": ("SASL_PLAINTEXT", f"security.protocol: sasl_plaintext\nsasl.mechanism=PLAIN\n{PLAIN}"),
    "SCRAM-SHA-256": ("SASL_PLAINTEXT", f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n{SCRAM}"),
    "SCRAM-SHA-512": (
        "SASL_SSL",
        f"# as of librdkafka\nsecurity.protocol=SASL_SSL\n{TRUST}\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.username=alice\nsasl.password=secret",
    ),
    "OAUTHBEARER": (
        "SASL_PLAINTEXT",
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=ISSUER\n{BEARER}",
    ),
}


shell = shell_fixture()


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with secured_server(tmp_path_factory.mktemp("command-config")) as server:
        yield server


@pytest.fixture
def write(muster: Muster, tmp_path: Path) -> Callable[[str], str]:
    """Write a file of settings, with the names of files and addresses put in. Returns the file's."""

    def write(text: str) -> str:
        folder = certificates()
        places = {
            "CA": folder / "ca.pem",
            "OTHER": folder / "other" / "ca.pem",
            "ALICE": folder / "alice.pem",
            "ISSUER": f"{muster.ready['admin']}/oauth/token",
        }
        for name, place in places.items():
            text = text.replace(f"={name}", f"={place}")
        file = tmp_path / "client.properties"
        file.write_text(text + "\n")
        return str(file)

    return write


@pytest.mark.parametrize("way", WAYS)
def test_commands_get_in_by_every_way(way: str, muster: Muster, write: Callable[[str], str], shell: Shell) -> None:
    """`describe` goes by the bootstrap address, and by the one that Metadata and FindCoordinator tell."""
    listener, text = WAYS[way]
    where = ("--bootstrap-server", muster.address_of(listener), "--command-config", write(text))
    shell(0, "offsets", "set", f"shop-{listener}", "orders:0=0", *where)
    assert "orders" in shell(0, "groups", "describe", f"shop-{listener}", *where)


@pytest.mark.parametrize("way", WAYS)
def test_the_log_of_the_groups_is_read_by_every_way(
    way: str, muster: Muster, write: Callable[[str], str], shell: Shell, tmp_path: Path
) -> None:
    """`why` and the pipeline: the bootstrap address for the metadata, the leader's for what lies in the log."""
    listener, text = WAYS[way]
    group, config = f"read-{way}", ("--command-config", write(text))
    with Client.to(muster.kafka, client_id="till") as client:
        member = ClassicMember(client, group)
        assert member.join().error_code == 0
        assert member.sync(share(member.member_id, {"orders": (0, 1)})).error_code == 0
    address = muster.address_of(listener)
    told = shell(0, "why", group, "--inferred", "--bootstrap-server", address, *config)
    assert 'member joined: "till"' in told
    found = shell.json(0, "pipeline", "ingest", f"kafka://{address}", "--out", tmp_path / "tables", *config)
    plain = shell.json(0, "pipeline", "ingest", f"kafka://{muster.kafka}", "--out", tmp_path / "plain")
    assert found["rows"]["group_records"] > 0
    assert (found["rows"], found["problems"]) == (plain["rows"], 0)
    refused = shell(1, "why", group, "--inferred", "--bootstrap-server", address) if listener != "PLAINTEXT" else ""
    assert refused.count("\n") == 1


def test_offsets_move_by_files_of_settings_and_the_environment(
    muster: Muster, write: Callable[[str], str], shell: Shell, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    listener, text = WAYS["SCRAM-SHA-512"]
    monkeypatch.setenv("MUSTER_COMMAND_CONFIG", write(text))
    monkeypatch.setenv("MUSTER_BOOTSTRAP", muster.address_of(listener))
    shell(0, "offsets", "set", "moving", "orders:1=0")
    exported = tmp_path / "offsets.json"
    exported.write_text(shell(0, "offsets", "export", "moving"))
    shell(0, "offsets", "import", exported, "--dry-run")


MISTAKES = [
    ("SASL_PLAINTEXT", WAYS["PLAIN"][1].replace('"secret"', '"wrong"'), 1, "SASL_AUTHENTICATION_FAILED: Authentication failed: Invalid username or password"),
    ("SASL_PLAINTEXT", WAYS["SCRAM-SHA-256"][1].replace('"secret"', '"wrong"'), 1, "invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ("SASL_PLAINTEXT", WAYS["OAUTHBEARER"][1].replace("=ISSUER", "=http://127.0.0.1:1/token"), 1, "cannot authenticate by OAUTHBEARER: "),
    ("SASL_PLAINTEXT", WAYS["PLAIN"][1].replace("=PLAIN", "=GSSAPI"), 2, "line 2): expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    ("SASL_PLAINTEXT", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", 2, "invalid sasl.jaas.config ''"),
    ("SASL_PLAINTEXT", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=secret", 2, "invalid sasl.jaas.config [hidden] (FILE, line 3)"),
    ("SASL_PLAINTEXT", "security.protocol=SASL", 2, "invalid security.protocol 'SASL' (FILE, line 1): expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ("SASL_PLAINTEXT", "=x", 2, "invalid FILE, line 1: expected NAME=VALUE"),
    ("SSL", "security.protocol=SSL", 1, "its certificate is not trusted: "),
    ("SSL", "security.protocol=SSL\nssl.truststore.location=OTHER", 1, "its certificate is not trusted: "),
    ("SSL", "security.protocol=SSL\nssl.truststore.location=/nowhere", 2, "invalid ssl.truststore.location '/nowhere' (FILE, line 2): expected certificates in PEM: No such file"),
    ("SSL", "security.protocol=SSL\nssl.truststore.type=JKS", 2, "invalid ssl.truststore.type 'JKS' (FILE, line 2): expected one of PEM, PKCS12"),
    ("MTLS", WAYS["SSL"][1], 1, "certificate required"),
    ("SASL_PLAINTEXT", WAYS["SSL"][1], 1, "TLS: "),
]  # fmt: skip


@pytest.mark.parametrize(("listener", "text", "code", "said"), MISTAKES)
def test_mistakes_are_one_line(
    listener: str, text: str, code: int, said: str, muster: Muster, write: Callable[[str], str],
    shell: Shell,
) -> None:  # fmt: skip
    file = write(text)
    where = ("--bootstrap-server", muster.address_of(listener), "--command-config", file)
    complaint = shell(code, "groups", "list", *where)
    assert said.replace("FILE", file) in complaint
    assert complaint.count("\n") == 1


def test_an_address_that_is_not_in_the_certificate_is_refused_unless_that_is_switched_off(
    muster: Muster, write: Callable[[str], str]
) -> None:
    text = WAYS["SSL"][1]
    strict = CommandConfig(write(text), 10)
    lax = CommandConfig(write(f"{text}\nssl.endpoint.identification.algorithm="), 10)
    host, _, port = muster.address_of("SSL").rpartition(":")
    with socket.create_connection((host, int(port))) as sock, pytest.raises(ConnectionError, match="Hostname mismatch"):
        strict.secure(sock, "kafka.example")
    with socket.create_connection((host, int(port))) as sock:
        lax.secure(sock, "kafka.example").close()


def test_a_connection_authenticates_again_in_time(tmp_path: Path, write: Callable[[str], str]) -> None:
    """KIP-368: the broker closes a connection that does not."""
    users = tmp_path / "users"
    users.write_text("alice:secret\n")
    options = ("--ephemeral", "--set", f"sasl.users.file={users}", "--set", "connections.max.reauth.ms=1500")
    security = CommandConfig(write(WAYS["SCRAM-SHA-256"][1]), 10)
    with (
        Muster(tmp_path, *options, "--listen", "SASL_PLAINTEXT://127.0.0.1:0", has_listen=False) as server,
        Client.to(server.kafka, security=security) as client,
    ):
        end_s = time.monotonic() + 3.2

        def is_over() -> bool:
            assert client.ask(MetadataRequest()).brokers
            return time.monotonic() > end_s

        wait_until("the authentication has expired twice", is_over)


def test_a_store_in_pem_has_no_password(write: Callable[[str], str]) -> None:
    file = write(f"{WAYS['mTLS'][1]}\nssl.keystore.password=secret")
    with pytest.raises(ConfigError, match=r"invalid ssl\.keystore\.password \[hidden\] .*expected nothing with PEM"):
        CommandConfig(file, 10)


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    """SCRAM: whoever answers in place of the server must prove that it knows the user."""
    exchange = scram(SHA_256, "alice", "secret")
    nonce = next(exchange).decode().rpartition("r=")[2]
    for challenge, said in (
        ("r=mine,s=c2FsdA==,i=4096", "none of SCRAM"),
        (f"r={nonce}x,s=c2FsdA==,i=1", "1 iterations"),
        (f"r={nonce}x,s=c2FsdA==,i=999999999", "999999999 iterations"),
    ):
        other = scram(SHA_256, "alice", "secret")
        own = next(other).decode().rpartition("r=")[2]
        with pytest.raises(ValueError, match=said):
            other.send(challenge.replace(nonce, own).encode())
    exchange.send(f"r={nonce}x,s=c2FsdA==,i=4096".encode())
    with pytest.raises(ValueError, match="does not prove"):
        exchange.send(b"v=AAAA")
