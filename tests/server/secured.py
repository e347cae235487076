"""A server that can be reached in every way that is encrypted or authenticated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live import Muster
from tests.server.certificates import certificates


@contextmanager
def secured_server(folder: Path, *options: str) -> Iterator[Muster]:
    """A server with a listener for each way to connect, first by neither TLS nor SASL; `alice` has the password `secret`.

    Metrics tell of the connections to all of them.
    """
    users = folder / "users"
    users.write_text("alice:secret\n")
    pem = certificates()
    settings = {
        "listener.security.protocol.map": "MTLS:SSL",
        "sasl.users.file": users,
        "ssl.keystore.location": pem / "server.pem",
        "ssl.truststore.location": pem / "ca.pem",
        "listener.name.mtls.ssl.client.auth": "required",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    names = ("PLAINTEXT", "SSL", "MTLS", "SASL_PLAINTEXT", "SASL_SSL")
    words += [word for name in names for word in ("--listen", f"{name}://127.0.0.1:0")]
    words += ["--ephemeral", "--topic", "orders:2", "--oauth-dev", *options]
    with Muster(folder, *words, has_listen=False) as server:
        yield server
