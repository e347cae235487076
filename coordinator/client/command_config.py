"""Settings for a command's connections, by the names of Kafka's clients (`--command-config`).

security.protocol=SASL_SSL
ssl.truststore.location=certificates/ca.pem
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";

Settings of Kafka's clients that are not about security have no effect.
"""

import math
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Final

from coordinator.client import Client
from coordinator.client.connection import AuthenticationError
from coordinator.client.explanations import name_of
from coordinator.client.properties import read_properties
from coordinator.client.sasl import Exchange, oauthbearer, plain, request_token, scram
from coordinator.core.scram import BY_NAME
from coordinator.jaas import read_options
from coordinator.key_stores import PEM, TYPES, VERSIONS, StoreError, load_key, load_trust
from coordinator.setting import ConfigError
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", *BY_NAME, "OAUTHBEARER")
DEFAULTS: Final[Mapping[str, str]] = {
    "security.protocol": "PLAINTEXT",
    "sasl.oauthbearer.header.urlencode": "false",
    "ssl.keystore.type": PEM,
    "ssl.truststore.type": PEM,
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
}
_SECRET: Final = re.compile(r"password|secret|jaas|\.key$")


class CommandConfig:
    """How the connections of a command are encrypted and authenticated. It is the `security` of a client."""

    def __init__(self, file: str, timeout: float) -> None:
        """Read a file. `timeout` bounds the wait for a token, in seconds. Raises ConfigError."""
        self._file = file
        self._timeout = timeout
        self._properties = read_properties(file, "--command-config")
        protocol = self._choice("security.protocol", PROTOCOLS)
        self._context = self._read_tls() if protocol.endswith("SSL") else None
        self._mechanism = ""
        if protocol.startswith("SASL"):
            self._mechanism = self._choice("sasl.mechanism", MECHANISMS)
            self._begin = self._read_sasl(self._mechanism)

    def secure(self, sock: socket.socket, host: str) -> socket.socket:
        if self._context is None:
            return sock
        try:
            return self._context.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise ConnectionError(f"its certificate is not trusted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise ConnectionError(f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}") from None

    def authenticate(self, client: Client) -> float:
        if not self._mechanism:
            return math.inf
        response = client.ask(SaslHandshakeRequest(self._mechanism))
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms)
            raise AuthenticationError(f"cannot authenticate by {self._mechanism}: the broker has enabled {enabled}")
        is_without = response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        _check(response.error_code, "this port of the broker has no SASL" if is_without else None)
        try:
            return self._exchange(client, self._begin())
        except (OSError, ValueError, HTTPException) as error:
            raise AuthenticationError(f"cannot authenticate by {self._mechanism}: {error}") from None

    @staticmethod
    def _exchange(client: Client, exchange: Exchange) -> float:
        lifetime_ms, token = 0, next(exchange)
        while True:
            response = client.ask(SaslAuthenticateRequest(token))
            _check(response.error_code, response.error_message)
            lifetime_ms = response.session_lifetime_ms
            try:
                token = exchange.send(response.auth_bytes)
            except StopIteration:
                return lifetime_ms / 1000 if lifetime_ms > 0 else math.inf

    def _read_tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        words = [word.strip() for word in self._value("ssl.enabled.protocols").split(",")]
        if not set(words) <= VERSIONS.keys():
            raise self._complaint("ssl.enabled.protocols", f"any of {', '.join(VERSIONS)}")
        versions = [VERSIONS[word] for word in words]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        context.check_hostname = bool(self._choice("ssl.endpoint.identification.algorithm", ("https", "")))
        for store in ("keystore", "truststore"):
            self._choice(f"ssl.{store}.type", TYPES)
        try:
            if self._value("ssl.truststore.location") or self._value("ssl.truststore.certificates"):
                load_trust(context, self._value)
            else:
                context.load_default_certs()
            if self._value("ssl.keystore.location") or self._value("ssl.keystore.key"):
                load_key(context, self._value)
        except StoreError as error:
            raise self._complaint(error.name, error.expected) from None
        return context

    def _read_sasl(self, mechanism: str) -> Callable[[], Exchange]:
        options = self._read_jaas()
        if mechanism == "OAUTHBEARER":
            return self._read_issuer(options)
        user = self._value("sasl.username") or options.get("username", "")
        password = self._value("sasl.password") or options.get("password", "")
        if not (user and password):
            expected = 'MODULE required username="USER" password="PASSWORD"; or sasl.username and sasl.password'
            raise self._complaint("sasl.jaas.config", expected)
        if mechanism == "PLAIN":
            return lambda: plain(user, password)
        return lambda: scram(BY_NAME[mechanism], user, password)

    def _read_issuer(self, options: Mapping[str, str]) -> Callable[[], Exchange]:
        prefix = "sasl.oauthbearer"
        url = self._value(f"{prefix}.token.endpoint.url")
        if not url.startswith(("http://", "https://")):
            raise self._complaint(f"{prefix}.token.endpoint.url", "the address of an issuer, as http:// or https://")
        client_id = self._value(f"{prefix}.client.credentials.client.id") or options.get("clientId", "")
        secret = self._value(f"{prefix}.client.credentials.client.secret") or options.get("clientSecret", "")
        scope = self._value(f"{prefix}.scope") or options.get("scope", "")
        if not client_id:
            raise self._complaint(f"{prefix}.client.credentials.client.id", "the name that the issuer knows")
        urlencodes = self._choice(f"{prefix}.header.urlencode", ("true", "false")) == "true"
        return lambda: oauthbearer(
            lambda: request_token(url, client_id, secret, scope, self._timeout, urlencodes=urlencodes)
        )

    def _read_jaas(self) -> dict[str, str]:
        text = self._value("sasl.jaas.config")
        try:
            return read_options(text) if text else {}
        except ValueError:
            raise self._complaint("sasl.jaas.config", 'MODULE required NAME="VALUE" ... ;') from None

    def _value(self, name: str) -> str:
        found = self._properties.get(name)
        return DEFAULTS.get(name, "") if found is None else found.value

    def _choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self._value(name)
        for choice in choices:
            if choice.lower() == value.lower():
                return choice
        raise self._complaint(name, f"one of {', '.join(choice or 'nothing' for choice in choices)}")

    def _complaint(self, name: str, expected: str) -> ConfigError:
        found = self._properties.get(name)
        where = self._file if found is None else f"{self._file}, line {found.line}"
        shown = "[hidden]" if found and _SECRET.search(name) else repr(self._value(name))
        return ConfigError(f"invalid {name} {shown} ({where}): expected {expected}")


def _check(code: int, message: str | None) -> None:
    if code:
        raise AuthenticationError(f"cannot authenticate: {name_of(code)}" + (f": {message}" if message else ""))
