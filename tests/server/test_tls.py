"""TLS in the poller: who gets a connection, what a handshake may cost, and that not a byte is lost."""

import base64
import contextlib
import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from coordinator.config import Config, ConfigError
from coordinator.server.distinguished_name import subject_of
from coordinator.server.link import HANDSHAKE_BYTES_MAX, RECORD_BYTES, SecureLink
from coordinator.server.poller import SHAKES_MAX
from coordinator.server.tls import Tls
from protocol.codec import decode_response, encode_request
from protocol.framing import FrameBuffer
from protocol.messages.api_versions import ApiVersionsRequest
from tests.server.certificates import certificates, client_context, server_tls
from tests.server.listening import Listening, listening

Stream = trio.SSLStream[trio.SocketStream]


def question(number: int) -> bytes:
    return encode_request(18, 3, number, "test", ApiVersionsRequest("test", "1"))


async def connect(here: Listening, context: ssl.SSLContext | None = None) -> Stream:
    return trio.SSLStream(await here.connect(), context or client_context(), server_hostname="localhost")


async def answers(stream: trio.abc.ReceiveStream, count: int) -> list[int]:
    """The correlation ids of the next answers."""
    frames, found = FrameBuffer(1 << 24), list[int]()
    while len(found) < count:
        data = await stream.receive_some(65_536)
        assert data, "the server has closed the connection"
        frames.feed(bytes(data))
        found += [decode_response(18, 3, frame).correlation_id for frame in frames]
    return found


async def ask(stream: Stream) -> None:
    await stream.send_all(question(1))
    await answers(stream, 1)


async def is_closed(stream: trio.abc.ReceiveStream) -> bool:
    try:
        while await stream.receive_some():
            pass
    except trio.BrokenResourceError:
        pass
    return True


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_requests_are_answered_whatever_records_they_come_in(version: ssl.TLSVersion) -> None:
    async with listening(tls=server_tls()) as here:
        stream = await connect(here, client_context(highest=version))
        first = question(1)
        for byte in first:
            await stream.send_all(bytes((byte,)))
        assert await answers(stream, 1) == [1]
        await stream.send_all(b"".join(question(number) for number in range(2, 2_000)))
        assert await answers(stream, 1_998) == list(range(2, 2_000))
        (link,) = here.poller._links.values()
        assert not link.is_behind


async def test_all_records_that_arrive_together_are_read_together() -> None:
    """A selector does not tell of what is decrypted already, or waits to be."""
    async with listening(tls=server_tls()) as here:
        raw, incoming, outgoing = await here.connect(), ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                await raw.send_all(outgoing.read())
                incoming.write(await raw.receive_some())
        for number in range(1, 51):
            client.write(question(number))  # a record of its own
        await raw.send_all(outgoing.read())
        frames, found = FrameBuffer(1 << 20), list[int]()
        while len(found) < 50:
            incoming.write(await raw.receive_some())
            with contextlib.suppress(ssl.SSLWantReadError):
                while True:
                    frames.feed(client.read(65_536))
                    found += [decode_response(18, 3, frame).correlation_id for frame in frames]
        assert found == list(range(1, 51))


async def test_what_a_client_may_say_before_its_handshake_is_complete_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("coordinator.server.link.HANDSHAKE_BYTES_MAX", 100)
    async with listening(tls=server_tls()) as here:
        stream = await here.connect()
        await stream.send_all(client_hello())
        assert await is_closed(stream)
    assert "more than 100 bytes of a handshake" in caplog.text


async def test_what_a_slow_client_does_not_take_arrives_whole_and_in_order() -> None:
    async with listening(tls=server_tls()) as here, trio.open_nursery() as nursery:
        raw, link = await here.connect_narrowly()
        stream = trio.SSLStream(raw, client_context(), server_hostname="localhost")
        await stream.do_handshake()
        assert isinstance(link, SecureLink)
        numbers = range(1, 6_000)
        nursery.start_soon(stream.send_all, b"".join(question(number) for number in numbers))
        await until(lambda: link.is_behind and link.unsent)
        assert link._outgoing.pending + len(link._sealed) < 2 * RECORD_BYTES, "encrypted one record at a time"
        assert here.server.frontend.responses.total == link.held_bytes
        assert await answers(stream, len(numbers)) == list(numbers)
        await until(lambda: not link.is_behind)
        assert here.server.frontend.responses.total == 0


async def test_the_principal_is_the_name_in_the_clients_certificate() -> None:
    async with listening(tls=server_tls(ssl_client_auth="requested")) as here:
        for client, name in (("alice", "User:CN=alice"), (None, "User:ANONYMOUS")):
            stream = await connect(here, client_context(client))
            await stream.send_all(question(1))
            await answers(stream, 1)
            (link,) = here.poller._links.values()
            assert str(link.connection.principal) == name
            await stream.aclose()
            await until(lambda: not here.poller.connections)


@pytest.mark.parametrize("who", ["nobody", "a stranger"])
async def test_without_a_certificate_that_is_trusted_there_is_no_connection(
    who: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = client_context()
    if who == "a stranger":
        context.load_cert_chain(certificates() / "other" / "alice.pem")
    async with listening(tls=server_tls(ssl_client_auth="required")) as here:
        stream = await connect(here, context)
        with pytest.raises(trio.BrokenResourceError):  # TLS 1.3 tells the client behind the handshake
            await ask(stream)
        await until(lambda: not here.poller.connections)
        assert here.server.stats.connections_closed["TLS handshake"] == 1
    assert "the TLS handshake failed" in caplog.text


async def test_a_client_that_does_not_trust_the_server_leaves() -> None:
    async with listening(tls=server_tls()) as here:
        stream = await connect(here, ssl.create_default_context(cafile=str(certificates() / "other" / "ca.pem")))
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()
        await stream.transport_stream.aclose()
        await until(lambda: not here.poller.connections)


async def test_a_client_without_tls_is_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(tls=server_tls()) as here:
        stream = await here.connect()
        await stream.send_all(question(1))
        assert await is_closed(stream)
    assert "the client does not speak TLS" in caplog.text


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("share", [0, 1, 50, 10_000])
async def test_a_handshake_that_is_not_completed_is_swept(share: int) -> None:
    async with listening(tls=server_tls()) as here:
        stream = await here.connect()
        if share:
            await stream.send_all(client_hello()[:share])
        await until(lambda: here.poller.connections)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        here.sweep(29)
        assert here.poller.connections == 1
        here.sweep(2)
        assert here.poller.connections == 0
        assert here.server.stats.connections_closed["TLS handshake"] == 1
        assert await is_closed(stream)


async def test_a_handshake_byte_by_byte_is_completed_and_one_without_end_is_refused() -> None:
    async with listening(tls=server_tls()) as here:
        raw = await here.connect()
        for byte in client_hello():
            await raw.send_all(bytes((byte,)))
        assert await raw.receive_some(), "the server's part of the handshake"
        endless = await here.connect()
        record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16_380)
        try:
            for _ in range(HANDSHAKE_BYTES_MAX // len(record) + 8):
                await endless.send_all(record)
        except trio.BrokenResourceError:
            pass
        assert await is_closed(endless)


async def test_handshakes_are_bounded_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(tls=server_tls()) as here:
        steps, turns = 0, list[int]()
        shake, turn = SecureLink.shake, here.poller.turn

        def counted_shake(link: SecureLink) -> bytes | None:
            nonlocal steps
            steps += 1
            return shake(link)

        def counted_turn() -> bool:
            nonlocal steps
            steps = 0
            there_is_more = turn()
            turns.append(steps)
            return there_is_more

        monkeypatch.setattr(SecureLink, "shake", counted_shake)
        monkeypatch.setattr(here.poller, "turn", counted_turn)
        hello = client_hello()
        clients = [socket.create_connection(("127.0.0.1", here.listener.port)) for _ in range(20)]
        await until(lambda: here.poller.connections == 20)
        for client in clients:
            client.sendall(hello)  # all of them are there before the poller looks again
        await until(lambda: sum(turns) == 20)
        for client in clients:
            client.close()
        assert max(turns) == SHAKES_MAX, "as many as there may be"


async def test_new_connections_have_the_new_certificate_after_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    shutil.copy(certificates() / "server.pem", file)
    tls = server_tls(ssl_keystore_location=file)

    async def shown(here: Listening) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        stream = await connect(here, context)
        await stream.do_handshake()
        shown = stream.getpeercert(binary_form=True)
        await stream.aclose()
        assert isinstance(shown, bytes)
        return shown

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


def test_keys_may_stand_in_the_settings_themselves() -> None:
    text = (certificates() / "server.pem").read_text()
    key, separator, chain = text.partition("-----END PRIVATE KEY-----\n")
    for write in (str, lambda text: " ".join(text.split("\n"))):  # Kafka takes it in one line as well
        values = {"ssl.keystore.key": write(key + separator), "ssl.keystore.certificate.chain": write(chain)}
        assert Tls(Config(values), "SSL").context.cert_store_stats()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, r"invalid ssl\.keystore\.location '': expected a PEM file with a private key .* listener IN"),
        ({"ssl.keystore.location": "/nowhere"}, r"invalid ssl\.keystore\.location '/nowhere': .*No such file"),
        ({"ssl.keystore.location": "CA"}, r"invalid ssl\.keystore\.location .*expected a private key"),
        ({"listener.name.in.ssl.keystore.location": "/here"}, r"invalid listener\.name\.in\.ssl\.keystore\.location"),
        (
            {"ssl.keystore.location": "SERVER", "ssl.client.auth": "required"},
            r"invalid ssl\.truststore\.location '': expected the certificates of authorities",
        ),
        (
            {"ssl.keystore.location": "SERVER", "ssl.client.auth": "required", "ssl.truststore.certificates": "x"},
            r"invalid ssl\.truststore\.certificates '.*': expected certificates in PEM",
        ),
        (
            {"ssl.keystore.location": "SERVER", "ssl.enabled.protocols": ("SSLv3",)},
            r"invalid ssl\.enabled\.protocols 'SSLv3': expected any of TLSv1\.2, TLSv1\.3",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_named(values: dict[str, Any], complaint: str) -> None:
    files = {"CA": str(certificates() / "ca.pem"), "SERVER": str(certificates() / "server.pem")}
    settings = {name: value if isinstance(value, tuple) else files.get(value, value) for name, value in values.items()}
    with pytest.raises(ConfigError, match=complaint):
        Tls(Config(settings), "IN")


def test_the_password_of_a_key_is_used() -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    text = (certificates() / "server.pem").read_bytes()
    key = load_pem_private_key(text, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    chain = text.decode().partition("-----END PRIVATE KEY-----\n")[2]
    values = {"ssl.keystore.key": key.decode(), "ssl.keystore.certificate.chain": chain}
    Tls(Config({**values, "ssl.key.password": "secret"}), "SSL")
    with pytest.raises(ConfigError, match=r"invalid ssl\.keystore\.key"):
        Tls(Config({**values, "ssl.key.password": "wrong"}), "SSL")


# The names beside the certificates are what `X509Certificate.getSubjectX500Principal().getName()` of Java 17 prints.
SUBJECTS = Path(__file__).parent / "subjects.txt"


@pytest.mark.parametrize("line", SUBJECTS.read_text("utf-8").splitlines())
def test_names_are_those_that_java_prints(line: str) -> None:
    certificate, _, name = line.partition(" ")
    assert subject_of(base64.b64decode(certificate)) == name


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
