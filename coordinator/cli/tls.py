"""Make keys and certificates for tests and development: an authority, a server's and clients'.

Never use them where it matters: the authority's key lies beside them. Certificates are valid for a year, and the
authority for ten; to make new ones of the same authority, call it again."""

import argparse
import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coordinator.cli import fail

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

EXAMPLES: Final = """\
muster tls dev certificates
muster tls dev certificates --host kafka --client alice
muster serve --listen SSL://127.0.0.1:9093 --set ssl.keystore.location=certificates/server.pem"""

HOSTS: Final = ("localhost", "127.0.0.1", "::1")
CLIENTS: Final = ("client",)
AUTHORITY: Final = "muster development CA"
DAYS: Final = 365
AUTHORITY_DAYS: Final = 10 * DAYS  # else the certificates that follow would not be trusted, or not for long

_CLIENT: Final = re.compile(r"[A-Za-z0-9_-]+")  # it is a file's name, and a common name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(dest="what", metavar="COMMAND", required=True, title="commands")
    dev = subparsers.add_parser("dev", help="write ca.pem, server.pem and a file for each client to a directory")
    dev.add_argument("directory", metavar="DIR", help="where the files are written; it is made if it does not exist")
    dev.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help=f"a name or address of the server, besides {', '.join(HOSTS)}; may be given again",
    )
    dev.add_argument(
        "--client", action="append", metavar="NAME", help="the name of a client (client); may be given again"
    )


def run(args: argparse.Namespace) -> int:
    try:
        import cryptography  # noqa: F401  # an extra: only this command needs it
    except ImportError:
        return fail(
            "tls", "the package cryptography is missing, of the extra `security`: pip install 'cryptography>=44,<60'"
        )
    directory, clients = Path(args.directory), args.client or CLIENTS
    wrong = next((name for name in clients if not _CLIENT.fullmatch(name) or name in ("ca", "server")), None)
    if wrong is not None:
        return fail(
            "tls", f"invalid --client {wrong!r}: expected letters, digits, '-' and '_', and not ca or server", 2
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return fail("tls", f"invalid DIR {args.directory!r}: expected a directory", 2)
    except OSError as error:
        return fail("tls", f"cannot write to {directory}: {error.strerror}")
    try:
        authority = Authority.of(directory)
        authority.issue(directory / "server.pem", "localhost", (*HOSTS, *args.host))
        for name in clients:
            authority.issue(directory / f"{name}.pem", name)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        return fail("tls", f"cannot write to {directory}: {reason}")
    print(_explanation(directory, clients))
    return 0


def _explanation(directory: Path, clients: Sequence[str]) -> str:
    files = ", ".join(f"{directory}/{name}.pem" for name in clients)
    return "\n".join((
        f"wrote {directory}/ca.pem: the authority, for clients and for ssl.truststore.location",
        f"wrote {directory}/server.pem: key and certificate of the server, for ssl.keystore.location",
        f"wrote {files}: key and certificate of a client",
    ))  # fmt: skip


class Authority:
    """A certificate authority whose key is in a file."""

    def __init__(self, key: "EllipticCurvePrivateKey", certificate: "x509.Certificate") -> None:
        self._key = key
        self.certificate = certificate

    @classmethod
    def of(cls, directory: Path) -> "Authority":
        """Return the authority of a directory, which is made where there is none. Raises OSError and ValueError."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

        key_file, file = directory / "ca.key", directory / "ca.pem"
        if key_file.exists() and file.exists():
            key = load_pem_private_key(key_file.read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey), "written below"
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
            if certificate.not_valid_after_utc <= datetime.now(UTC):
                raise ValueError("ca.pem has expired: remove it and ca.key, and give clients the new one")
            return cls(key, certificate)
        key = _new_key()
        name = _name(AUTHORITY)
        builder = _builder(name, name, key, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        signs = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = _sign(builder.add_extension(signs, critical=True).add_extension(identifier, critical=False), key)
        _write(key_file, _pem(key))
        file.write_bytes(certificate.public_bytes(Encoding.PEM))
        return cls(key, certificate)

    def issue(self, file: Path, common_name: str, hosts: Sequence[str] = ()) -> None:
        """Write a new key and its certificate to one file, as Kafka has it: for a server that is called so, else for
        a client."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(_name(common_name), self.certificate.subject, key, DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(host) for host in dict.fromkeys(hosts)]), critical=False
            )
        certificate = _sign(builder, self._key)
        _write(file, _pem(key) + certificate.public_bytes(Encoding.PEM))


def _new_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: "x509.Name", issuer: "x509.Name", key: "EllipticCurvePrivateKey", days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _sign(builder: "x509.CertificateBuilder", key: "EllipticCurvePrivateKey") -> "x509.Certificate":
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(file: Path, data: bytes) -> None:
    """Write a file that its owner alone can read, also where there was one that others could."""
    with open(file, "wb", opener=partial(os.open, mode=0o600)) as out:  # Path.open takes no opener
        os.fchmod(out.fileno(), 0o600)
        out.write(data)
