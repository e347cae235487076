"""An authority and certificates of it, made once in a run: keys for a server, clients `alice` and `bob`, a stranger."""

import contextlib
import functools
import ssl
import tempfile
from pathlib import Path

from coordinator.cli.tls import Authority
from coordinator.config import Config
from coordinator.server.tls import Tls

_folder = tempfile.TemporaryDirectory(prefix="muster-certificates-")


@functools.cache
def certificates() -> Path:
    """The folder with ca.pem, server.pem, alice.pem, bob.pem, and `other/` of an authority that nobody trusts."""
    folder = Path(_folder.name)
    for place in (folder, folder / "other"):
        place.mkdir(exist_ok=True)
        authority = Authority.of(place)
        authority.issue(place / "server.pem", "localhost", ("localhost", "127.0.0.1"))
        for name in ("alice", "bob"):
            authority.issue(place / f"{name}.pem", name)
    return folder


def server_tls(**values: object) -> Tls:
    """A listener's TLS; `values` are settings with `_` for `.`."""
    folder = certificates()
    settings = {"ssl.keystore.location": str(folder / "server.pem"), "ssl.truststore.location": str(folder / "ca.pem")}
    settings |= {name.replace("_", "."): str(value) for name, value in values.items()}
    return Tls(Config(dict(settings)), "SSL")


def client_context(client: str | None = None, *, highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """A client's side, which trusts the authority."""
    context = ssl.create_default_context(cafile=str(certificates() / "ca.pem"))
    context.maximum_version = highest
    if client is not None:
        context.load_cert_chain(certificates() / f"{client}.pem")
    return context


def client_hello() -> bytes:
    """A client's first message of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()
