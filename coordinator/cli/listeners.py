"""Listeners as an operator writes them: `HOST:PORT`, or `NAME://HOST:PORT` as in Kafka. Not a subcommand.

    --listen INTERNAL://0.0.0.0:9092 --listen EXTERNAL://0.0.0.0:19092     or `listeners`
    --advertise INTERNAL://kafka:9092 --advertise EXTERNAL://localhost:19092   or `advertised.listeners`

Every listener has a name: a client that came by it is told its advertised address.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from coordinator.cli.parser import list_choices, suggest
from coordinator.cli.settings import Origin
from coordinator.server.listener import address, format_address

EXPECTED: Final = "HOST:PORT or NAME://HOST:PORT"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ENCRYPTED: Final = frozenset({"SSL", "SASL_SSL"})
AUTHENTICATED: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})  # by SASL
CONTROLLER: Final = "CONTROLLER"  # the name that Kafka's images give, where `controller.listener.names` has none

MAP: Final = "listener.security.protocol.map"

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_UNNAMED: Final = re.compile(r"PLAINTEXT-[0-9]+")  # what further listeners without a name are called


class OptionWords(Struct, frozen=True):
    """The words of an option or a setting, and where they come from."""

    words: tuple[str, ...]
    origin: Origin


class Endpoint(Struct, frozen=True):
    """One listener: its name, its security protocol, where it is bound, and what clients are told (None: that)."""

    name: str
    protocol: str
    bind: str
    advertised: str | None = None


class Endpoints(Struct, frozen=True):
    """The listeners of a broker, and those of a controller, which are not bound: there is no controller to reach."""

    brokers: tuple[Endpoint, ...]
    controllers: tuple[str, ...] = ()


def read_endpoints(
    listen: OptionWords, advertise: OptionWords, protocols: Mapping[str, str], controllers: Iterable[str] = ()
) -> Endpoints:
    """Read what to listen on, and what to advertise for each. `protocols` are by name. Raises ConfigError."""
    controller_names = {name.upper() for name in controllers} or {CONTROLLER}
    split = _name_all(listen)
    bound = {name: where for name, where in split.items() if name not in controller_names}
    if not bound:
        raise listen.origin.complaint(",".join(listen.words), "a listener that is not a controller's")
    told = _match(advertise, tuple(bound), controller_names)
    endpoints = [
        Endpoint(name, _find_protocol(name, protocols, listen), where, told.get(name)) for name, where in bound.items()
    ]
    return Endpoints(tuple(endpoints), tuple(name for name in split if name in controller_names))


def shift_ports(endpoints: Iterable[Endpoint], number: int) -> tuple[Endpoint, ...]:
    """Return the listeners of the broker that comes so many after the first: every port is that much higher.

    Port 0 stays: it takes a free one, or stands for the one that is bound.
    """
    return tuple(
        Endpoint(one.name, one.protocol, _shift(one.bind, number), one.advertised and _shift(one.advertised, number))
        for one in endpoints
    )


def check_ports(endpoints: Sequence[Endpoint], brokers: int, origin: Origin) -> None:
    """Refuse listeners whose ports are not enough for so many brokers, or are those of another one. Raises
    ConfigError."""
    taken: dict[tuple[str, int], str] = {}
    for number in range(brokers if brokers > 1 else 0):
        for one in shift_ports(endpoints, number):
            try:
                host, port = address(one.bind)
                address(one.advertised or one.bind)
            except ValueError:
                raise origin.complaint(brokers, f"as many ports as brokers for listener {one.name}") from None
            if port and taken.setdefault((host, port), one.name) != one.name:
                other = taken[host, port]
                raise origin.complaint(brokers, f"{other} and {one.name} to have ports that are {brokers} apart")


def _shift(where: str, number: int) -> str:
    host, _, port = where.rpartition(":")
    return f"{host}:{int(port) + number}" if int(port) else where


def read_protocols(given: OptionWords) -> dict[str, str]:
    """Read the setting MAP: protocols by the names of listeners. Raises ConfigError."""
    found = {}
    for word in given.words:
        name, colon, protocol = map(str.strip, word.upper().rpartition(":"))
        if not colon or protocol not in PROTOCOLS:
            raise given.origin.complaint(word, f"NAME:PROTOCOL, the protocol {list_choices(PROTOCOLS)}")
        found[name] = protocol
    return found


def _name_all(listen: OptionWords) -> dict[str, str]:
    """Return the addresses to bind by their listeners' names. A plain one is PLAINTEXT, the next one PLAINTEXT-2."""
    found: dict[str, str] = {}
    for number, word in enumerate(listen.words, 1):
        name, where = _split(word, listen.origin)
        name = name or (f"PLAINTEXT-{number}" if "PLAINTEXT" in found else "PLAINTEXT")
        if name in found:
            raise listen.origin.complaint(word, "one listener of each name")
        found[name] = where
    return found


def _match(advertise: OptionWords, names: Sequence[str], controllers: Iterable[str]) -> dict[str, str]:
    """Return the advertised addresses by listener: by name, or plain ones, one for all or in the listeners' order."""
    told = [(*_split(word, advertise.origin), word) for word in advertise.words]
    if not any(name for name, _, _ in told):
        return _match_in_order(advertise, names)
    found: dict[str, str] = {}
    for name, where, word in told:
        if name not in names and name not in controllers:
            hint = suggest(name, names) if name else ""
            expected = f"NAME://HOST:PORT, the name that of a listener: {', '.join(names)}"
            raise advertise.origin.complaint(word, expected + hint)
        if name in found:
            raise advertise.origin.complaint(word, "one address for each listener")
        found[name] = where
    return found


def _match_in_order(advertise: OptionWords, names: Sequence[str]) -> dict[str, str]:
    words = advertise.words * len(names) if len(advertise.words) == 1 else advertise.words
    if words and len(words) != len(names):
        expected = "one address" + (f", or one for each of the {len(names)} listeners" if len(names) > 1 else "")
        raise advertise.origin.complaint(",".join(words), expected)
    return dict(zip(names, words, strict=bool(words)))


def _split(word: str, origin: Origin) -> tuple[str, str]:
    """Return the name in capitals, as Kafka has it, and HOST:PORT; the name is empty where the word has none."""
    name, separator, where = word.strip().rpartition("://")
    if separator and not _NAME.fullmatch(name):
        raise origin.complaint(word, EXPECTED)
    try:
        host, port = address(where)
    except ValueError as error:
        _, _, reason = str(error).partition(": ")
        raise origin.complaint(word, f"{EXPECTED}{reason and f'; {reason}'}") from None
    return name.upper(), format_address(host, port)


def _find_protocol(name: str, protocols: Mapping[str, str], listen: OptionWords) -> str:
    """Return a listener's protocol: as it is mapped, or the one it is named for. Raises ConfigError.

    A name without a protocol is refused, as in Kafka: taken for PLAINTEXT, a misspelled SASL_SSL would be an open door.
    """
    if protocol := protocols.get(name) or (name if name in PROTOCOLS else None):
        return protocol
    if _UNNAMED.fullmatch(name):
        return "PLAINTEXT"
    word = next(word for word in listen.words if word.strip().upper().startswith(f"{name}://"))
    known = (*protocols, *PROTOCOLS)
    hint = suggest(name, known) or f", as in {MAP}={name}:PLAINTEXT"
    raise listen.origin.complaint(word, f"a name that is a protocol's, or has one in {MAP}{hint}")
