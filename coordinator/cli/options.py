"""The options of `muster serve`, from the command line and the file, checked. Not a subcommand."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from coordinator.cli import STARTED
from coordinator.cli.parser import list_choices, suggest
from coordinator.cli.settings import read_settings
from coordinator.config import Config, ConfigError
from coordinator.core.catalog.names import reason_invalid
from coordinator.runtime.router import COMPAT
from coordinator.server.listener import address

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")


class Options(Struct, frozen=True):
    """What to serve, and where."""

    config: Config
    ignored: Mapping[str, str]  # settings of Kafka that have no effect, with their sources
    listen: tuple[str, ...]
    advertise: tuple[str | None, ...]  # for each of `listen`
    admin: str | None
    data_dir: str | None  # None: keep nothing
    fsync: bool
    topics: Mapping[str, int]
    ready_file: str | None
    compat: str
    seed: int | None
    log_level: str
    log_format: str
    started: float  # by time.monotonic()


class Origin(Struct, frozen=True):
    """Where the value of an option comes from: the command line, or a line of the file."""

    name: str
    source: str = ""

    def complaint(self, value: object, expected: str) -> ConfigError:
        """The error about a value that the option cannot have."""
        came_from = f" ({self.source})" if self.source else ""
        return ConfigError(f"invalid {self.name} {value!r}{came_from}: expected {expected}")


def read_options(args: argparse.Namespace) -> Options:
    """Read the command line over the file over the defaults. Raises ConfigError."""
    from_file = read_settings(args)

    def choose(name: str, default: Any) -> Any:
        value = getattr(args, name.replace("-", "_"))
        return from_file.options.get(name, default) if value is None else value

    def origin(name: str) -> Origin:
        is_given = getattr(args, name.replace("-", "_")) is not None
        return Origin(f"--{name}") if is_given else Origin(name, from_file.sources.get(name, ""))

    if args.data_dir is not None and args.ephemeral is None:
        ephemeral = False
    else:
        ephemeral = choose("ephemeral", False)
    admin = choose("admin", "127.0.0.1:8092")
    listen = tuple(choose("listen", ["127.0.0.1:9092"]))
    advertise = _for_each(listen, tuple(choose("advertise", [])), origin("advertise"))
    _check_addresses(origin("listen"), listen)
    _check_addresses(origin("advertise"), advertise)
    _check_addresses(origin("admin"), (None if admin == "off" else admin,))
    return Options(
        config=from_file.config,
        ignored=from_file.ignored,
        listen=listen,
        advertise=advertise,
        admin=None if admin == "off" else admin,
        data_dir=None if ephemeral else choose("data-dir", "muster-data"),
        fsync=choose("fsync", False),
        topics=dict(_parse_topic(text, origin("topic")) for text in choose("topic", [])),
        ready_file=choose("ready-file", None),
        compat=_check_choice(choose("compat", COMPAT[0]), origin("compat"), COMPAT),
        seed=choose("seed", None),
        log_level=_check_choice(choose("log-level", "info"), origin("log-level"), LOG_LEVELS),
        log_format=_check_choice(choose("log-format", "text"), origin("log-format"), LOG_FORMATS),
        started=STARTED,
    )


def _for_each(listen: tuple[str, ...], advertise: tuple[str, ...], origin: Origin) -> tuple[str | None, ...]:
    """The address to advertise for each listener: none, one for all, or as many as there are listeners."""
    if len(advertise) <= 1:
        return (advertise or (None,)) * len(listen)
    if len(advertise) != len(listen):
        raise origin.complaint(
            ",".join(advertise), f"one address, or one for each of the {len(listen)} addresses of --listen"
        )
    return advertise


def _check_addresses(origin: Origin, addresses: Sequence[str | None]) -> None:
    for text in addresses:
        try:
            if text is not None:
                address(text)
        except ValueError as error:
            raise origin.complaint(text, f"HOST:PORT{_reason(str(error))}") from None


def _reason(complaint: str) -> str:
    """What the listener says beyond `'x' is not HOST:PORT`."""
    _, _, reason = complaint.partition(": ")
    return f"; {reason}" if reason else ""


def _check_choice(text: str, origin: Origin, choices: Sequence[str]) -> str:
    if text not in choices:
        raise origin.complaint(text, list_choices(choices) + suggest(text, choices))
    return text


def _parse_topic(text: str, origin: Origin) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon or not partitions.isdecimal() or not 1 <= int(partitions) <= 10_000:
        raise origin.complaint(text, "NAME:PARTITIONS with 1 to 10000 partitions")
    if reason_invalid(name):
        raise origin.complaint(text, "a name of 1 to 249 letters, digits, '.', '_' and '-', other than '.' and '..'")
    return name, int(partitions)
