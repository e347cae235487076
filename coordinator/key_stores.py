"""Keys and certificates as Kafka's settings have them, into a context of TLS: PEM files, PEM in the settings, PKCS12.

`value` is what a setting such as `ssl.keystore.location` is: of a listener, or of the connections of a command.
"""

import re
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from coordinator.config import FROM_JKS

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PEM, PKCS12 = "PEM", "PKCS12"
TYPES: Final = (PEM, PKCS12)
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JKS: Final = b"\xfe\xed\xfe\xed"  # how a file of Java's own format begins
_DER: Final = b"\x30"  # ... and one of PKCS12, or a certificate that is not PEM

Value = Callable[[str], str]


class StoreError(Exception):
    """A key store or a trust store cannot be used: the setting that says where it is, and what is expected of it."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(expected)
        self.name = name
        self.expected = expected


def load_key(context: ssl.SSLContext, value: Value) -> None:
    """Load the private key and its certificates. Raises StoreError."""
    location, chain, key = (value(f"ssl.keystore.{part}") for part in ("location", "certificate.chain", "key"))
    kind, password = value("ssl.keystore.type"), value("ssl.key.password")
    name = "ssl.keystore.location" if location or kind == PKCS12 else "ssl.keystore.key"
    _check_password("keystore", kind, value)
    try:
        if kind == PKCS12:
            chain, key = _read_pkcs12_key(Path(location), value("ssl.keystore.password"))
            _load_pem(context, chain, key, "")
        elif location:
            context.load_cert_chain(location, password=lambda: password)
        else:
            _load_pem(context, _restore_lines(chain), _restore_lines(key), password)
    except ssl.SSLError as error:
        expected = f"a private key that fits the first certificate, in {kind}: {_explain(error, location, kind)}"
        raise StoreError(name, expected) from None
    except (OSError, ValueError) as error:
        raise StoreError(name, f"a readable {kind} file: {_explain(error, location, kind)}") from None


def load_trust(context: ssl.SSLContext, value: Value) -> None:
    """Load the certificates of the authorities that are trusted. Raises StoreError."""
    location, certificates = (value(f"ssl.truststore.{part}") for part in ("location", "certificates"))
    kind = value("ssl.truststore.type")
    name = "ssl.truststore.location" if location or kind == PKCS12 else "ssl.truststore.certificates"
    _check_password("truststore", kind, value)
    try:
        if kind == PKCS12:
            context.load_verify_locations(cadata=_read_pkcs12_trust(Path(location), value("ssl.truststore.password")))
        elif location:
            context.load_verify_locations(location)
        else:
            context.load_verify_locations(cadata=_restore_lines(certificates))
    except (OSError, ValueError) as error:
        raise StoreError(name, f"certificates in {kind}: {_explain(error, location, kind)}") from None


def _check_password(store: str, kind: str, value: Value) -> None:
    """Refuse the password of a store that cannot have one, as Kafka does."""
    name = f"ssl.{store}.password"
    if kind == PEM and value(name):
        expected = "nothing with PEM; ssl.key.password is the password of a key" if store == "keystore" else ""
        raise StoreError(name, expected or "nothing with PEM")


def _load_pem(context: ssl.SSLContext, chain: str, key: str, password: str) -> None:
    """Load a key that is no file: `ssl` reads files only, so it is one that nobody else can read, for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key.pem"
        file.touch(0o600)
        file.write_text(key + chain, "ascii")
        context.load_cert_chain(file, password=lambda: password)


def _read_pkcs12_key(file: Path, password: str) -> tuple[str, str]:
    """Return the certificates and the private key of a PKCS12 file in PEM. Raises OSError, ValueError."""
    _require_cryptography()
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    key, certificate, others = load_key_and_certificates(file.read_bytes(), password.encode() or None)
    if key is None or certificate is None:
        raise ValueError("there is no private key with a certificate in it")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return _to_pem(_order_chain(certificate, others)), text


def _read_pkcs12_trust(file: Path, password: str) -> str:
    """Return the certificates of a PKCS12 file in PEM. Raises OSError, ValueError."""
    _require_cryptography()
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    store = load_pkcs12(file.read_bytes(), password.encode() or None)
    found = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
    if not found:
        raise ValueError("there is no certificate in it")
    return _to_pem(found)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401  # an extra: PEM needs none
    except ImportError:
        raise ValueError(
            "the package cryptography is missing, of the extra `security`: pip install 'cryptography>=44,<60'"
        ) from None


def _order_chain(certificate: "Certificate", others: Sequence["Certificate"]) -> list["Certificate"]:
    """Return the certificates from the first one on, each signed by the next, whatever order the file has them in."""
    chain, left = [certificate], list(others)
    while issuer := next((one for one in left if one.subject == chain[-1].issuer), None):
        chain.append(issuer)
        left.remove(issuer)
    return chain


def _to_pem(certificates: Sequence["Certificate"]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def _restore_lines(text: str) -> str:
    """PEM as it must be; Kafka also takes it in one line, with spaces for the ends of lines."""
    found = []
    for match in _PEM.finditer(text):
        kind, body = match.groups()
        if ":" in body:  # headers of an encrypted key of the older kind
            return text
        found.append(
            f"-----BEGIN {kind}-----\n" + "\n".join(wrap("".join(body.split()), 64)) + f"\n-----END {kind}-----\n"
        )
    return "".join(found) or text


def _explain(error: Exception, location: str, kind: str) -> str:
    """Say what is wrong with a store, and which setting or tool helps if it is one of another format."""
    start = _read_start(location)
    if start == _JKS:
        return f"{FROM_JKS}, and the type PKCS12 reads it"
    if kind == PEM and start.startswith(_DER):
        return "it is not PEM; the type PKCS12 reads the stores of Java and OpenSSL"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "there is none in it").replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _read_start(location: str) -> bytes:
    """Return the first bytes of a file, none if it cannot be read."""
    try:
        with Path(location).open("rb") as file:
            return file.read(len(_JKS))
    except OSError:
        return b""
