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


def read_options(args: argparse.Namespace) -> Options:
    """Read the command line over the file over the defaults. Raises ConfigError."""
    from_file = read_settings(args)

    def choose(name: str, default: Any) -> Any:
        value = getattr(args, name.replace("-", "_"))
        return from_file.options.get(name, default) if value is None else value

    def source(name: str) -> str:
        """An option of the file is named with its place, so that an error leads there."""
        is_given = getattr(args, name.replace("-", "_")) is not None
        return f"--{name}" if is_given or name not in from_file.sources else f"{name} ({from_file.sources[name]})"

    if args.data_dir is not None and args.ephemeral is None:
        ephemeral = False
    else:
        ephemeral = choose("ephemeral", False)
    admin = choose("admin", "127.0.0.1:8092")
    listen = tuple(choose("listen", ["127.0.0.1:9092"]))
    advertise = _for_each(listen, tuple(choose("advertise", [])), source("advertise"))
    _check_addresses(source("listen"), listen)
    _check_addresses(source("advertise"), advertise)
    _check_addresses(source("admin"), (None if admin == "off" else admin,))
    return Options(
        config=from_file.config,
        ignored=from_file.ignored,
        listen=listen,
        advertise=advertise,
        admin=None if admin == "off" else admin,
        data_dir=None if ephemeral else choose("data-dir", "muster-data"),
        fsync=choose("fsync", False),
        topics=dict(_parse_topic(text, source("topic")) for text in choose("topic", [])),
        ready_file=choose("ready-file", None),
        compat=_check_choice(choose("compat", COMPAT[0]), source("compat"), COMPAT),
        seed=choose("seed", None),
        log_level=_check_choice(choose("log-level", "info"), source("log-level"), LOG_LEVELS),
        log_format=_check_choice(choose("log-format", "text"), source("log-format"), LOG_FORMATS),
        started=STARTED,
    )


def _for_each(listen: tuple[str, ...], advertise: tuple[str, ...], option: str) -> tuple[str | None, ...]:
    """The address to advertise for each listener: none, one for all, or as many as there are listeners."""
    if len(advertise) <= 1:
        return (advertise or (None,)) * len(listen)
    if len(advertise) != len(listen):
        raise ConfigError(f"invalid {option}: expected one address, or one for each of the {len(listen)} --listen")
    return advertise


def _check_addresses(option: str, addresses: tuple[str | None, ...]) -> None:
    for text in addresses:
        try:
            if text is not None:
                address(text)
        except ValueError as error:
            raise ConfigError(f"invalid {option} {text!r}: expected HOST:PORT{_reason(str(error))}") from None


def _reason(complaint: str) -> str:
    """What the listener says beyond `'x' is not HOST:PORT`."""
    _, _, reason = complaint.partition(": ")
    return f"; {reason}" if reason else ""


def _check_choice(text: str, option: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise ConfigError(f"invalid {option} {text!r}: expected {list_choices(choices)}{suggest(text, choices)}")
    return text


def _parse_topic(text: str, option: str) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon or not partitions.isdecimal() or not 1 <= int(partitions) <= 10_000:
        raise ConfigError(f"invalid {option} {text!r}: expected NAME:PARTITIONS with 1 to 10000 partitions")
    if reason_invalid(name):
        raise ConfigError(
            f"invalid {option} {text!r}: expected a name of 1 to 249 letters, digits, '.', '_' and '-', "
            f"other than '.' and '..'"
        )
    return name, int(partitions)
