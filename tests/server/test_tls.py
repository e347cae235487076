"""TLS in the poller: who gets a connection, what a handshake may cost, and that not a byte is lost."""

import base64
import contextlib
import shutil
import socket
import ssl
import subprocess
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config import Config
from coordinator.config_layers import read_pairs
from coordinator.key_stores import _order_chain
from coordinator.server import tls
from coordinator.server.distinguished_name import UnreadableSubjectError, subject_of
from coordinator.server.link import EMPTY_BYTES_MAX, RECORD_BYTES, SecureLink
from coordinator.server.poller import HANDSHAKE_STEPS_MAX
from coordinator.server.tls import Tls
from coordinator.setting import ConfigError
from tests.log_lines import log_lines
from tests.server import openssl
from tests.server.certificates import certificates, client_context, client_hello, server_tls
from tests.server.in_memory import Dialogue
from tests.server.listening import VERSIONS, Listening, listening, until

KEY_END = "-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_are_answered_whatever_records_they_come_in(version: ssl.TLSVersion) -> None:
    """However few bytes a record has, it is not empty."""
    async with listening(tls=server_tls()) as here:
        client = await here.connect(client_context(highest=version))
        for byte in client.chunk(*[VERSIONS] * 60):
            await client.stream.send_all(bytes((byte,)))
        await client.read(60)
        await client.send(*[VERSIONS] * 5_000)
        assert await client.read(5_060) == list(range(1, 5_061))
        assert here.link._empty_bytes == 0
        assert not here.link.is_behind


async def test_all_records_that_arrive_together_are_read_together() -> None:
    """A selector does not tell of what is decrypted already, or waits to be."""
    async with listening(tls=server_tls()) as here:
        client, incoming, outgoing = await here.connect(), ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await client.stream.send_all(outgoing.read())
                incoming.write(await client.stream.receive_some())
        for _ in range(50):
            tls.write(client.chunk(VERSIONS))  # a record of its own
        await client.stream.send_all(outgoing.read())
        while len(client.answers) < 50:
            incoming.write(await client.stream.receive_some())
            with contextlib.suppress(ssl.SSLWantReadError):
                while True:
                    client.receive(tls.read(65_536))


async def test_what_a_client_may_say_before_its_handshake_is_complete_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("coordinator.server.link.HANDSHAKE_BYTES_MAX", 100)
    async with listening(tls=server_tls()) as here:
        client = await here.connect()
        await client.stream.send_all(client_hello())
        assert await client.is_closed()
    assert refused_handshakes(caplog) == ["more than 100 bytes of a handshake"]


async def test_what_a_slow_client_does_not_take_arrives_whole_and_in_order() -> None:
    async with listening(tls=server_tls()) as here, trio.open_nursery() as nursery:
        client, link = await here.connect_narrowly(client_context())
        await client.stream.do_handshake()
        nursery.start_soon(client.send, *[VERSIONS] * 6_000)
        await until(lambda: link.is_behind and link.unsent)
        assert link._outgoing.pending + len(link._sealed) < 2 * RECORD_BYTES, "encrypted one record at a time"
        assert here.unsent_bytes == link.held_bytes
        assert await client.read(6_000) == list(range(1, 6_001))
        await until(lambda: not link.is_behind)
        assert here.unsent_bytes == 0


async def test_the_principal_is_the_name_in_the_clients_certificate() -> None:
    async with listening(tls=server_tls(ssl_client_auth="requested")) as here:
        for client, name in (("alice", "User:CN=alice"), (None, "User:ANONYMOUS")):
            caller = await here.connect(client_context(client))
            await caller.ask()
            assert str(here.link.connection.principal) == name
            await caller.stream.aclose()
            await until(lambda: not here.poller.connections)


async def test_the_principal_is_made_of_that_name_by_rules(caplog: pytest.LogCaptureFixture) -> None:
    """Alice is known by a rule, and bob by none."""
    tls = server_tls(ssl_client_auth="requested", ssl_principal_mapping_rules="RULE:^CN=(a.*)$/$1@example/U")
    async with listening(tls=tls) as here:
        alice = await here.connect(client_context("alice"))
        await alice.ask()
        assert str(here.link.connection.principal) == "User:ALICE@EXAMPLE"
        bob = await here.connect(client_context("bob"))
        await bob.send(VERSIONS)
        assert await bob.is_closed()
        assert here.poller.connections == 1
        assert here.server.stats.connections_closed["TLS handshake"] == 1
    assert "no rule of ssl.principal.mapping.rules applies" in caplog.text


@pytest.mark.parametrize("who", ["nobody", "a stranger"])
async def test_without_a_certificate_that_is_trusted_there_is_no_connection(
    who: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = client_context()
    if who == "a stranger":
        context.load_cert_chain(certificates() / "other" / "alice.pem")
    async with listening(tls=server_tls(ssl_client_auth="required")) as here:
        client = await here.connect(context)
        with pytest.raises(trio.BrokenResourceError):  # TLS 1.3 tells the client behind the handshake
            await client.ask()
        await until(lambda: not here.poller.connections)
        assert here.server.stats.connections_closed["TLS handshake"] == 1
    assert "the TLS handshake failed" in caplog.text


async def test_a_client_that_does_not_trust_the_server_leaves() -> None:
    async with listening(tls=server_tls()) as here:
        stranger = ssl.create_default_context(cafile=str(certificates() / "other" / "ca.pem"))
        stream = (await here.connect(stranger)).stream
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()
        await stream.transport_stream.aclose()
        await until(lambda: not here.poller.connections)


async def test_a_client_without_tls_is_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(tls=server_tls()) as here:
        client = await here.connect()
        await client.send(VERSIONS)
        assert await client.is_closed()
    assert refused_handshakes(caplog) == ["the client does not speak TLS"]


def refused_handshakes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why clients got no connection."""
    lines = log_lines(caplog, "muster.server")
    assert all(fields == {"client": "/127.0.0.1", "listener": "PLAINTEXT"} for _, fields in lines), lines
    return [message.removeprefix("connection closed: the TLS handshake failed: ") for message, _ in lines]


@pytest.mark.parametrize("share", [0, 1, 50, 10_000])
async def test_a_handshake_that_is_not_completed_is_swept(share: int) -> None:
    async with listening(tls=server_tls()) as here:
        client = await here.connect()
        if share:
            await client.stream.send_all(client_hello()[:share])
        await until(lambda: here.poller.connections)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        here.sweep(29)
        assert here.poller.connections == 1
        here.sweep(2)
        assert here.poller.connections == 0
        assert here.server.stats.connections_closed["TLS handshake"] == 1
        assert await client.is_closed()


async def test_a_handshake_may_come_byte_by_byte() -> None:
    async with listening(tls=server_tls()) as here:
        stream = (await here.connect()).stream
        for byte in client_hello():
            await stream.send_all(bytes((byte,)))
        assert await stream.receive_some(), "the server's part of the handshake"


async def test_handshakes_are_bounded_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(tls=server_tls()) as here:
        steps, turns = 0, list[int]()
        continue_handshake, turn = SecureLink.continue_handshake, here.poller.turn

        def counted_continue(link: SecureLink) -> bytes | None:
            nonlocal steps
            steps += 1
            return continue_handshake(link)

        def counted_turn() -> bool:
            nonlocal steps
            steps = 0
            there_is_more = turn()
            turns.append(steps)
            return there_is_more

        monkeypatch.setattr(SecureLink, "continue_handshake", counted_continue)
        monkeypatch.setattr(here.poller, "turn", counted_turn)
        hello = client_hello()
        clients = [await here.connect() for _ in range(20)]
        await until(lambda: here.poller.connections == 20)
        for client in clients:
            client.stream.socket._sock.sendall(hello)  # all of them are there before the poller looks again
        await until(lambda: sum(turns) == 20)
        assert max(turns) == HANDSHAKE_STEPS_MAX, "as many as there may be"


async def test_new_connections_have_the_new_certificate_after_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    shutil.copy(certificates() / "server.pem", file)
    tls = server_tls(ssl_keystore_location=file)

    async def shown(here: Listening) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        stream = (await here.connect(context)).stream
        await stream.do_handshake()
        shown = stream.getpeercert(binary_form=True)
        await stream.aclose()
        return bytes(shown)

    async with listening(tls=tls) as here:
        before = await shown(here)
        shutil.copy(certificates() / "other" / "server.pem", file)
        assert await shown(here) == before, "until it is read again"
        tls.reload()
        after = await shown(here)
        assert after != before
        file.write_text("no key")
        with pytest.raises(ConfigError, match=r"invalid ssl\.keystore\.location"):
            tls.reload()
        assert await shown(here) == after


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the program openssl")
async def test_a_client_cannot_begin_a_handshake_anew() -> None:
    """CVE-2011-1473: a renegotiation costs the server many times what it costs the client."""
    async with listening(tls=server_tls()) as here:
        where = f"127.0.0.1:{here.listener.port}"
        command = ["openssl", "s_client", "-tls1_2", "-connect", where, "-CAfile", str(certificates() / "ca.pem")]
        done = await trio.run_process(command, stdin=b"R\n", capture_stdout=True, capture_stderr=True, check=False)
    assert b"RENEGOTIATING" in done.stdout + done.stderr
    assert b"no renegotiation" in done.stderr


@pytest.mark.skipif(not openssl.has_library(), reason="needs the library libssl")
@pytest.mark.parametrize("whose", [openssl.NOT_REQUESTED, openssl.REQUESTED])
async def test_a_client_cannot_update_its_keys_for_ever(whose: int, caplog: pytest.LogCaptureFixture) -> None:
    """TLS 1.3 has updates of keys in place of renegotiation. Some between requests are as they should be."""

    question = Dialogue().chunk(VERSIONS)

    def update(sock: socket.socket) -> int:
        client, count = openssl.Client(sock), 0
        try:
            for _ in range(900):
                client.update_keys(whose)
                client.write(question)
                assert client.read(65_536), "the server has closed the connection"
            while client.update_keys(whose) and count < 20_000:
                count += 1
        finally:
            client.close()
        return count

    async with listening(tls=server_tls()) as here:
        sock = socket.create_connection(("127.0.0.1", here.listener.port))
        assert await trio.to_thread.run_sync(update, sock) < 20_000
        await until(lambda: not here.poller.connections)
        assert here.server.stats.connections_closed["TLS without requests"] == 1
    assert f"more than {EMPTY_BYTES_MAX} bytes of TLS without a request" in caplog.text


def test_keys_may_stand_in_the_settings_themselves() -> None:
    key, separator, chain = (certificates() / "server.pem").read_text().partition(KEY_END)
    for write in (str, lambda text: " ".join(text.split("\n"))):  # Kafka takes it in one line as well
        values = {"ssl.keystore.key": write(key + separator), "ssl.keystore.certificate.chain": write(chain)}
        assert Tls(Config(values), "SSL").context.cert_store_stats()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {"ssl.keystore.location": ""},
            r"invalid ssl\.keystore\.location '': expected a file with a private key .* listener IN",
        ),
        ({"ssl.keystore.location": "/nowhere"}, r"invalid ssl\.keystore\.location '/nowhere': .*No such file"),
        ({"ssl.keystore.location": "CA"}, r"invalid ssl\.keystore\.location .*expected a private key"),
        ({"listener.name.in.ssl.keystore.location": "/here"}, r"invalid listener\.name\.in\.ssl\.keystore\.location"),
        (
            {"ssl.client.auth": "required"},
            r"invalid ssl\.truststore\.location '': expected the certificates of authorities",
        ),
        (
            {"ssl.client.auth": "required", "ssl.truststore.certificates": "x"},
            r"invalid ssl\.truststore\.certificates '.*': expected certificates in PEM",
        ),
        (
            {"ssl.principal.mapping.rules": "RULE:(/x/"},
            r"invalid ssl\.principal\.mapping\.rules 'RULE:\(/x/': expected rules as .* or DEFAULT: .*missing \)",
        ),
        ({"ssl.keystore.location": "JKS"}, r"invalid ssl\.keystore\.location .*expected a .* PEM.*keytool"),
        ({"ssl.keystore.location": "JKS", "ssl.keystore.type": "PKCS12"}, r"PKCS12 file: `keytool -importkeystore"),
        ({"ssl.keystore.location": "P12"}, r"invalid ssl\.keystore\.location .*it is not PEM; the type PKCS12 reads"),
        ({"ssl.keystore.location": "P12", "ssl.keystore.type": "PKCS12"}, r"ssl\.keystore\.location .*readable PKCS12"),
        (
            {"ssl.keystore.password": "secret"},
            r"invalid ssl\.keystore\.password '\[hidden\]': expected nothing with PEM; ssl\.key\.password",
        ),
        (
            {"ssl.enabled.protocols": ("SSLv3",)},
            r"invalid ssl\.enabled\.protocols 'SSLv3': expected any of TLSv1\.2, TLSv1\.3",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_named(values: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    files = {"CA": str(certificates() / "ca.pem")}
    for name, start in (("JKS", b"\xfe\xed\xfe\xed"), ("P12", b"\x30\x82")):
        (tmp_path / name).write_bytes(start + bytes(60))
        files[name] = str(tmp_path / name)
    settings = {"ssl.keystore.location": str(certificates() / "server.pem")}
    settings |= {name: files.get(value, value) for name, value in values.items()}
    with pytest.raises(ConfigError, match=complaint):
        Tls(Config(settings), "IN")


@pytest.mark.parametrize("words", [("TLSv1.2",), ("TLSv1.3",), ("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.2")])
def test_versions_may_be_given_in_any_order(words: tuple[str, ...]) -> None:
    settings = {"ssl.keystore.location": str(certificates() / "server.pem"), "ssl.enabled.protocols": words}
    context = Tls(Config(settings), "SSL").context
    names = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    allowed = {name for name, version in names.items() if context.minimum_version <= version <= context.maximum_version}
    assert allowed == set(words)


def test_the_password_of_a_key_is_used() -> None:
    text = (certificates() / "server.pem").read_bytes()
    key = load_pem_private_key(text, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    values = {"ssl.keystore.key": key.decode(), "ssl.keystore.certificate.chain": text.decode().partition(KEY_END)[2]}
    Tls(Config({**values, "ssl.key.password": "secret"}), "SSL")
    with pytest.raises(ConfigError, match=r"invalid ssl\.keystore\.key"):
        Tls(Config({**values, "ssl.key.password": "wrong"}), "SSL")


def pkcs12(file: Path, name: str, *, password: str = "secret") -> dict[str, str]:
    """Write a key, its certificate and the authority's to a PKCS12 file. Returns the settings of that key store."""
    text = (certificates() / f"{name}.pem").read_bytes()
    key, own = load_pem_private_key(text, None), load_pem_x509_certificate(text)
    authority = load_pem_x509_certificate((certificates() / "ca.pem").read_bytes())
    data = serialize_key_and_certificates(b"key", key, own, [authority], BestAvailableEncryption(password.encode()))
    file.write_bytes(data)
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(file),
        "ssl.keystore.password": password,
    }


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_chain_is_put_in_order(order: tuple[int, ...]) -> None:
    """Whatever order the file has its certificates in, up to one that signs itself; those of others are left out."""
    names = (("server", "middle"), ("middle", "root"), ("root", "root"), ("stranger", "root"), ("other", "stranger"))
    own, *others = [SimpleNamespace(subject=subject, issuer=issuer) for subject, issuer in names]
    assert _order_chain(own, [others[at] for at in order]) == [own, *others[:2]]
    assert _order_chain(own, [others[at] for at in order if at]) == [own]


def keytool(*words: str) -> None:
    command = ["keytool", "-noprompt", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


async def test_keys_and_authorities_may_be_in_pkcs12(tmp_path: Path) -> None:
    """The trust store is one that Java's keytool has made, where there is one."""
    trust = tmp_path / "trust.p12"
    if shutil.which("keytool"):
        authority = str(certificates() / "ca.pem")
        keytool("-importcert", "-alias", "ca", "-file", authority, "-keystore", str(trust), "-storepass", "changeit")
    else:
        pkcs12(trust, "alice", password="changeit")
    settings = pkcs12(tmp_path / "server.p12", "server") | {
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": "changeit",
    }
    async with listening(tls=Tls(Config(dict(settings)), "IN")) as here:
        await (await here.connect(client_context("alice"))).ask()
        assert str(here.link.connection.principal) == "User:CN=alice"
    for name, other in (("ssl.keystore.password", "wrong"), ("ssl.truststore.password", "wrong")):
        with pytest.raises(ConfigError, match=rf"invalid {name.replace('password', 'location')} .*password"):
            Tls(Config(settings | {name: other}), "IN")


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs Java's keytool")
def test_a_key_store_of_java_is_told_apart_and_one_that_keytool_converts_is_read(tmp_path: Path) -> None:
    settings = pkcs12(tmp_path / "server.p12", "server")
    jks, new = str(tmp_path / "server.jks"), str(tmp_path / "new.p12")
    passwords = ("-srcstorepass", "secret", "-deststorepass", "secret")

    def convert(source: str, target: str, kind: str) -> None:
        keytool("-importkeystore", "-srckeystore", source, "-destkeystore", target, "-deststoretype", kind, *passwords)

    convert(settings["ssl.keystore.location"], jks, "JKS")
    with pytest.raises(ConfigError, match="keytool -importkeystore -srckeystore FILE"):
        Tls(Config({"ssl.keystore.location": jks}), "IN")
    convert(jks, new, "PKCS12")
    Tls(Config(settings | {"ssl.keystore.location": new}), "IN")


def test_a_type_of_key_stores_that_is_not_read_is_refused_with_what_helps() -> None:
    with pytest.raises(
        ConfigError, match=r"invalid ssl\.keystore\.type 'JKS' .*: expected one of PEM, PKCS12; `keytool"
    ):
        read_pairs(["ssl.keystore.type=JKS"])


# The names beside the certificates are what `X509Certificate.getSubjectX500Principal().getName()` of Java 17 prints.
SUBJECTS = Path(__file__).parent / "subjects.txt"


@pytest.mark.parametrize("line", SUBJECTS.read_text("utf-8").splitlines())
def test_names_are_those_that_java_prints(line: str) -> None:
    certificate, _, name = line.partition(" ")
    assert subject_of(base64.b64decode(certificate)) == name


@given(st.data())
def test_a_certificate_that_is_no_der_has_no_subject_and_ends_nothing(data: st.DataObject) -> None:
    """Any byte of a certificate may be another one: such as 0x80, a length that is not told."""
    line = data.draw(st.sampled_from(SUBJECTS.read_text("utf-8").splitlines()))
    changed = bytearray(base64.b64decode(line.partition(" ")[0]))
    for at in data.draw(st.lists(st.integers(0, len(changed) - 1), max_size=4)):
        changed[at] = data.draw(st.integers(0, 255))
    del changed[data.draw(st.integers(0, len(changed))) :]
    with contextlib.suppress(UnreadableSubjectError):
        subject_of(bytes(changed))


async def test_a_client_whose_subject_cannot_be_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL takes certificates that are not read here; none of them is at hand."""
    monkeypatch.setattr(tls, "subject_of", lambda certificate: subject_of(certificate[:40]))
    async with listening(tls=server_tls(ssl_client_auth="required")) as here:
        alice = await here.connect(client_context("alice"))
        await alice.send(VERSIONS)
        assert await alice.is_closed()
        assert here.server.stats.connections_closed["TLS handshake"] == 1
    assert "the subject of the client's certificate cannot be read" in caplog.text


def test_with_sasl_clients_are_asked_for_certificates_only_where_that_is_set_for_the_listener() -> None:
    """KIP-684."""
    values = {
        "ssl.keystore.location": str(certificates() / "server.pem"),
        "ssl.truststore.location": str(certificates() / "ca.pem"),
        "ssl.client.auth": "required",
    }
    assert Tls(Config(dict(values)), "IN").context.verify_mode is ssl.CERT_REQUIRED
    assert Tls(Config(dict(values)), "IN", is_sasl=True).context.verify_mode is ssl.CERT_NONE
    own = values | {"listener.name.in.ssl.client.auth": "requested"}
    assert Tls(Config(dict(own)), "IN", is_sasl=True).context.verify_mode is ssl.CERT_OPTIONAL


def test_a_file_without_a_key_is_told_without_words_of_openssl(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    file.write_text("admin:secret\n")
    with pytest.raises(ConfigError, match=r"expected a private key that fits .*, in PEM: there is none in it$"):
        Tls(Config({"ssl.keystore.location": str(file)}), "SSL")
