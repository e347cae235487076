"""Links over a socket that takes as little as it likes: what was sent arrives, whole and in order, by TLS as well."""

import ssl
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.server.link import Link, SecureLink
from tests.server.certificates import certificates


class StubbornSocket:
    """A socket that takes some bytes, or none. `room` is what it takes before it blocks."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self.room = 1 << 30
        self.arriving = b""
        self.taken = bytearray()

    def recv(self, most: int) -> bytes:
        chunk, self.arriving = self.arriving[:most], self.arriving[most:]
        return chunk

    def send(self, data: bytes | memoryview) -> int:
        if not self.room:
            raise BlockingIOError
        count = min(len(data), self.room, self._dice.choice((1, 5, 100, 20_000, 1 << 20)))
        self.taken += data[:count]
        self.room -= count
        return count

    def close(self) -> None:
        self.room = 0


class PlainClient:
    """What arrives at the other end."""

    def __init__(self, dice: Random) -> None:
        self.sock: Any = StubbornSocket(dice)
        nobody: Any = SimpleNamespace()
        self.link = Link(self.sock, nobody)

    def read(self) -> bytes:
        found = bytes(self.sock.taken)
        self.sock.taken.clear()
        return found


class SecureClient(PlainClient):
    """The same behind a handshake of TLS."""

    def __init__(self, dice: Random) -> None:
        super().__init__(dice)
        pem = certificates()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem / "server.pem")
        connection: Any = SimpleNamespace(listener=SimpleNamespace(tls=SimpleNamespace(context=context)))
        self.link = SecureLink(self.sock, connection)
        self._incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        trust = ssl.create_default_context(cafile=str(pem / "ca.pem"))
        trust.check_hostname = False
        self._tls = trust.wrap_bio(self._incoming, outgoing)
        while self.link.is_handshaking:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
            self.sock.arriving += outgoing.read()
            self.link.continue_handshake()
            while self.link.is_behind:
                self.link.send_kept(1 << 20)
            self._incoming.write(super().read())

    def read(self) -> bytes:
        self._incoming.write(super().read())
        found = b""
        while True:
            try:
                found += self._tls.read(1 << 20)
            except ssl.SSLWantReadError:
                return found


@pytest.mark.parametrize("kind", [PlainClient, SecureClient])
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_what_is_sent_arrives_once_the_socket_takes_it_and_until_then_the_link_is_behind(
    kind: type[PlainClient], first: int
) -> None:
    for seed in range(first, first + 10):
        dice = Random(seed)
        client = kind(dice)
        link, sent, arrived = client.link, b"", client.read()
        client.sock.room = 0
        for _ in range(30):
            client.sock.room += dice.choice((0, 0, 1, 100, 16_384, 50_000))
            if dice.random() < 0.5:
                piece = dice.randbytes(dice.choice((1, 50, 16_384, 16_385, 40_000)))
                sent += piece
                taken = 0
                if not link.is_behind:
                    try:
                        taken = link.send(piece)
                    except BlockingIOError:
                        taken = 0
                if taken < len(piece):
                    link.keep(piece, taken)
            else:
                link.send_kept(dice.choice((1, 1_000, 1 << 20)))
            arrived += client.read()
            assert sent.startswith(arrived), seed
            assert link.is_behind == bool(link.held_bytes) == (arrived != sent), seed
        client.sock.room = 1 << 30
        while link.is_behind:
            link.send_kept(1 << 20)
        assert arrived + client.read() == sent, seed
        assert not link.held_bytes
