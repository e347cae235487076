"""Users with passwords, out of a file or out of Kafka's JAAS setting.

alice:secret          a line of `sasl.users.file`; what begins with # is a comment

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator.config import Config
from coordinator.core.scram import BY_NAME, ITERATIONS_MIN, Credential, derive_credential, hash_password
from coordinator.jaas import read_options
from coordinator.setting import ConfigError

USERS_MAX: Final = 1_000  # each takes some 4 ms at start, to derive its credentials
_USER: Final = "user_"


class Users:
    """Passwords by user, and the SCRAM credentials that are derived from them."""

    def __init__(self, passwords: Mapping[str, str], mechanisms: tuple[str, ...]) -> None:
        self._passwords = dict(passwords)
        self._credentials: dict[tuple[str, str], Credential] = {}
        for name in mechanisms:
            mechanism = BY_NAME.get(name)
            for user, password in passwords.items() if mechanism is not None else ():
                assert mechanism is not None, "the loop is empty without one"
                salt = secrets.token_bytes(16)
                salted = hash_password(mechanism, password, salt, ITERATIONS_MIN)
                self._credentials[user, name] = derive_credential(mechanism, salt, ITERATIONS_MIN, salted)

    def password(self, user: str) -> str | None:
        """Return the password of a user, None if there is no such user."""
        return self._passwords.get(user)

    def credential(self, user: str, mechanism: str) -> Credential | None:
        """Return the credential of a user, None if there is no such user."""
        return self._credentials.get((user, mechanism))

    @property
    def is_empty(self) -> bool:
        """Whether there is no user."""
        return not self._passwords


def read_users(config: Config, listener: str, mechanism: str) -> dict[str, str]:
    """Return the passwords of a listener's users for a mechanism. Raises ConfigError."""
    passwords: dict[str, str] = {}
    name = config.name_of_listener(listener, "sasl.users.file", mechanism)
    if file := config[name]:
        passwords |= _read_file(_say(config, name, file), file)
    name = config.name_of_listener(listener, "sasl.jaas.config", mechanism)
    if text := config[name]:
        passwords |= _read_jaas(_say(config, name), text)
    if len(passwords) > USERS_MAX:
        raise ConfigError(f"invalid {_say(config, name)}: expected at most {USERS_MAX} users")
    return passwords


def _say(config: Config, name: str, value: str = "") -> str:
    """Return the name of a setting for a message, with its value unless it is a secret, and where it comes from."""
    source = config.source(name)
    return f"{name}{f' {value!r}' if value else ''}{f' ({source})' if source else ''}"


def _read_file(setting: str, file: str) -> dict[str, str]:
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"invalid {setting}: cannot read it: {reason}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not colon or not user or not password:
            raise ConfigError(f"invalid {setting}: expected NAME:PASSWORD in its line {number}")
        found[user] = password
    return found


def _read_jaas(setting: str, text: str) -> dict[str, str]:
    try:
        options = read_options(text)
    except ValueError:
        raise ConfigError(f'invalid {setting}: expected MODULE required user_NAME="PASSWORD" ... ;') from None
    return {key.removeprefix(_USER): value for key, value in options.items() if key.startswith(_USER)}
