"""TLS as the settings have it: key, certificates, who is asked for a certificate. Read anew without a restart."""

import re
import ssl
import tempfile
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from coordinator.config import Config, ConfigError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENTS: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class Tls:
    """The key and the certificates of a listener. `context` is for the connections that come from now on."""

    def __init__(self, config: Config, listener: str, *, is_sasl: bool = False) -> None:
        """Read them. Raises ConfigError.

        Where SASL says who a client is, `ssl.client.auth` counts only if it is set for this listener (KIP-684).
        """
        self._config = config
        self._listener = listener
        self._is_sasl = is_sasl
        self.context = self._read()

    def reload(self) -> None:
        """Read them again. Connections that exist keep what they have. Raises ConfigError, and then changes nothing."""
        self.context = self._read()

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.minimum_version, context.maximum_version = self._versions()
        self._load_key(context)
        asks = "ssl.client.auth"
        is_of_all = self._config.name_of_listener(self._listener, asks) == asks
        context.verify_mode = ssl.CERT_NONE if self._is_sasl and is_of_all else _CLIENTS[self._value(asks)]
        if context.verify_mode is not ssl.CERT_NONE:
            self._load_trust(context)
        return context

    def _versions(self) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
        words = self._value("ssl.enabled.protocols")
        if not words or not set(words) <= _VERSIONS.keys():
            raise self._complaint("ssl.enabled.protocols", ",".join(words), f"any of {', '.join(_VERSIONS)}")
        versions = [_VERSIONS[word] for word in words]
        return min(versions), max(versions)

    def _load_key(self, context: ssl.SSLContext) -> None:
        location, chain, key = (
            self._value(f"ssl.keystore.{part}") for part in ("location", "certificate.chain", "key")
        )
        password = self._value("ssl.key.password")
        name = "ssl.keystore.location" if location else "ssl.keystore.key"
        if not location and not (chain and key):
            raise self._complaint(
                "ssl.keystore.location",
                location,
                f"a PEM file with a private key and certificates for the listener {self._listener};"
                " `muster tls dev DIR` makes one",
            )
        try:
            if location:
                context.load_cert_chain(location, password=lambda: password)
            else:
                _load_pem(context, chain, key, password)
        except ssl.SSLError as error:
            expected = f"a private key that fits the first certificate, in PEM: {_shown(error)}"
            raise self._complaint(name, location, expected) from None
        except (OSError, ValueError) as error:
            raise self._complaint(name, location, f"a readable PEM file: {_shown(error)}") from None

    def _load_trust(self, context: ssl.SSLContext) -> None:
        location, certificates = (self._value(f"ssl.truststore.{part}") for part in ("location", "certificates"))
        name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
        if not location and not certificates:
            expected = "the certificates of authorities in PEM, because ssl.client.auth asks clients for theirs"
            raise self._complaint("ssl.truststore.location", location, expected)
        try:
            if location:
                context.load_verify_locations(location)
            else:
                context.load_verify_locations(cadata=_lines(certificates))
        except (OSError, ValueError) as error:
            raise self._complaint(name, location or certificates, f"certificates in PEM: {_shown(error)}") from None

    def _value(self, name: str) -> Any:
        return self._config.of_listener(self._listener, name)

    def _complaint(self, name: str, value: str, expected: str) -> ConfigError:
        name = self._config.name_of_listener(self._listener, name)
        source = self._config.source(name)
        return ConfigError(f"invalid {name} {value!r}{f' ({source})' if source else ''}: expected {expected}")


def _load_pem(context: ssl.SSLContext, chain: str, key: str, password: str) -> None:
    """Load a key that is no file: `ssl` reads files only, so it is one that nobody else can read, for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key.pem"
        file.touch(0o600)
        file.write_text(_lines(key) + _lines(chain), "ascii")
        context.load_cert_chain(file, password=lambda: password)


def _lines(text: str) -> str:
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


def _shown(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
