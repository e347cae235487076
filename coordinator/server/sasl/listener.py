"""SASL of one listener: its mechanisms, its users, and how long a client stays authenticated."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from coordinator.config import Config
from coordinator.core.scram import BY_NAME, Credential
from coordinator.server.sasl.oauthbearer import OAuthBearer, Rules, Verifier
from coordinator.server.sasl.outcome import Machine, Success
from coordinator.server.sasl.plain import Plain
from coordinator.server.sasl.scram import Scram
from coordinator.server.sasl.users import Users, read_users
from coordinator.setting import ConfigError

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *BY_NAME, OAUTHBEARER)

StoredCredentials = Callable[[str, int], Credential | None]
"""The credentials that clients have set: by user and Kafka's number of the mechanism."""


class Sasl:
    """What a listener authenticates its clients by. It can be read again."""

    def __init__(self, config: Config, listener: str, issuer_keys: Sequence[Mapping[str, Any]] = ()) -> None:
        """`issuer_keys` are those of the issuer in this process, in the form of JWKS. Raises ConfigError."""
        self._config = config
        self._listener = listener
        self._issuer_keys = issuer_keys
        self.frame_bytes_max: int = config.of_listener(listener, "sasl.server.max.receive.size")
        self.mechanisms: tuple[str, ...] = self._read_mechanisms()
        self._users, self._verifier = self._read()

    def reload(self) -> None:
        """Read users and keys again. Raises ConfigError, and then changes nothing."""
        self._users, self._verifier = self._read()

    def begin(self, mechanism: str, stored: StoredCredentials) -> Machine:
        """Begin an exchange of a mechanism that is enabled."""
        users = self._users[mechanism]
        if mechanism == PLAIN:
            return Plain(users.password)
        if mechanism == OAUTHBEARER:
            return OAuthBearer(self._verify)
        scram = BY_NAME[mechanism]

        def credential_of(user: str) -> Credential | None:
            return stored(user, scram.number) or users.credential(user, mechanism)

        return Scram(scram, credential_of)

    @property
    def has_users(self) -> bool:
        """Whether the settings name somebody who can authenticate here; clients may have made others."""
        return OAUTHBEARER in self.mechanisms or not all(users.is_empty for users in self._users.values())

    def max_reauth_ms(self, mechanism: str) -> int:
        """Return how long a client stays authenticated; 0 is for ever."""
        found: int = self._config.of_listener(self._listener, "connections.max.reauth.ms", mechanism)
        return found

    def _verify(self, token: str) -> Success:
        assert self._verifier is not None, "OAUTHBEARER is enabled only with keys"
        return self._verifier.verify(token)

    def _read_mechanisms(self) -> tuple[str, ...]:
        name = "sasl.enabled.mechanisms"
        words = [word.upper() for word in self._config.of_listener(self._listener, name)]
        if self._issuer_keys:
            words.append(OAUTHBEARER)
        if not words or not set(words) <= set(MECHANISMS):
            raise self._complaint(name, ",".join(words), f"any of {', '.join(MECHANISMS)}")
        return tuple(dict.fromkeys(words))

    def _read(self) -> tuple[dict[str, Users], Verifier | None]:
        by_passwords: dict[tuple[tuple[str, str], ...], Users] = {}
        users = {}
        for mechanism in self.mechanisms:
            passwords = read_users(self._config, self._listener, mechanism)
            key = tuple(sorted(passwords.items()))
            if key not in by_passwords:  # most listeners have the same users for all mechanisms
                by_passwords[key] = Users(passwords, self.mechanisms)
            users[mechanism] = by_passwords[key]
        return users, self._read_verifier() if OAUTHBEARER in self.mechanisms else None

    def _read_verifier(self) -> Verifier:
        keys = [*self._issuer_keys]
        name = "sasl.oauthbearer.jwks.endpoint.url"
        url = self._config.of_listener(self._listener, name)
        if not (url or keys):
            raise self._complaint(name, url, "the keys of tokens as file:///PATH, for OAUTHBEARER; or use --oauth-dev")
        value = self._value
        rules = Rules(
            value("expected.issuer"),
            tuple(value("expected.audience")),
            value("clock.skew.seconds"),
            value("sub.claim.name"),
        )
        try:
            return Verifier([*keys, *(_read_keys(url) if url else ())], rules)
        except ImportError:
            raise ConfigError(
                "OAUTHBEARER needs the package joserfc, of the extra `security`: pip install 'joserfc>=1.4,<2'"
            ) from None
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise self._complaint(name, url, f"keys in the form of JWKS: {reason}") from None

    def _value(self, name: str) -> Any:
        return self._config.of_listener(self._listener, f"sasl.oauthbearer.{name}", OAUTHBEARER)

    def _complaint(self, name: str, value: str, expected: str) -> ConfigError:
        name = self._config.name_of_listener(self._listener, name)
        source = self._config.source(name)
        return ConfigError(f"invalid {name} {value!r}{f' ({source})' if source else ''}: expected {expected}")


def _read_keys(url: str) -> list[Mapping[str, Any]]:
    """Read a file of keys. Raises OSError and ValueError."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise ValueError("only file:///PATH is read")
    found = json.loads(Path(unquote(parts.path)).read_text("utf-8"))
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ValueError('there is no list "keys"')
    keys: list[Mapping[str, Any]] = found["keys"]
    return keys
