"""TLS as the settings have it: key, certificates, who is asked for a certificate. Read anew without a restart."""

import ssl
from typing import Any, Final

from coordinator.config import Config, find_setting
from coordinator.core.principal import USER, Principal
from coordinator.key_stores import VERSIONS, StoreError, load_key, load_trust
from coordinator.server.distinguished_name import subject_of
from coordinator.server.principal_mapping import MappingRules
from coordinator.setting import ConfigError

_CLIENTS: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


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
        self._rules = self._read_rules()

    def principal_of(self, certificate: bytes) -> Principal:
        """Return the principal of a client by its certificate in DER. Raises NoRuleError and UnreadableSubjectError."""
        name = subject_of(certificate)
        return Principal(USER, name if self._rules is None else self._rules.apply(name))

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
        if not words or not set(words) <= VERSIONS.keys():
            raise self._complaint("ssl.enabled.protocols", ",".join(words), f"any of {', '.join(VERSIONS)}")
        versions = [VERSIONS[word] for word in words]
        return min(versions), max(versions)

    def _load_key(self, context: ssl.SSLContext) -> None:
        location, chain, key = (
            self._value(f"ssl.keystore.{part}") for part in ("location", "certificate.chain", "key")
        )
        if not location and not (chain and key):
            raise self._complaint(
                "ssl.keystore.location",
                location,
                f"a file with a private key and certificates for the listener {self._listener};"
                " `muster tls dev DIR` makes one",
            )
        try:
            load_key(context, self._value)
        except StoreError as error:
            raise self._complain_of_store(error) from None

    def _load_trust(self, context: ssl.SSLContext) -> None:
        location = self._value("ssl.truststore.location")
        if not location and not self._value("ssl.truststore.certificates"):
            expected = "the certificates of authorities, because ssl.client.auth asks clients for theirs"
            raise self._complaint("ssl.truststore.location", location, expected)
        try:
            load_trust(context, self._value)
        except StoreError as error:
            raise self._complain_of_store(error) from None

    def _read_rules(self) -> MappingRules | None:
        text = self._value("ssl.principal.mapping.rules")
        if self._is_sasl or text.strip() == "DEFAULT":
            return None
        try:
            return MappingRules(text)
        except ValueError as error:
            expected = f"rules as RULE:PATTERN/REPLACEMENT/, RULE:PATTERN/REPLACEMENT/L, .../U or DEFAULT: {error}"
            raise self._complaint("ssl.principal.mapping.rules", text, expected) from None

    def _value(self, name: str) -> Any:
        return self._config.of_listener(self._listener, name)

    def _complain_of_store(self, error: StoreError) -> ConfigError:
        is_secret = find_setting(error.name).is_secret
        return self._complaint(error.name, "[hidden]" if is_secret else self._value(error.name), error.expected)

    def _complaint(self, name: str, value: str, expected: str) -> ConfigError:
        name = self._config.name_of_listener(self._listener, name)
        source = self._config.source(name)
        return ConfigError(f"invalid {name} {value!r}{f' ({source})' if source else ''}: expected {expected}")
