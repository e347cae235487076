"""What `muster serve` is told, from the command line and the file, checked. Not a subcommand."""

import argparse
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from coordinator.cli import STARTED
from coordinator.cli.settings import settings
from coordinator.config import Config, ConfigError
from coordinator.core.catalog.names import reason_invalid
from coordinator.runtime.router import COMPAT
from coordinator.server.listener import address


class Options(Struct, frozen=True):
    """What to serve, and where."""

    config: Config
    listen: tuple[str, ...]
    advertise: str | None
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


def options(args: argparse.Namespace) -> Options:
    """The command line over the file over the defaults. Raises ConfigError with a line that names the option."""
    from_file = settings(args)

    def said(name: str, otherwise: Any) -> Any:
        value = getattr(args, name.replace("-", "_"))
        return from_file.options.get(name, otherwise) if value is None else value

    if args.data_dir is not None and args.ephemeral is None:
        ephemeral = False
    else:
        ephemeral = said("ephemeral", False)
    admin = said("admin", "127.0.0.1:8092")
    listen = tuple(said("listen", ["127.0.0.1:9092"]))
    advertise = said("advertise", None)
    for option, addresses in (("--listen", listen), ("--advertise", (advertise,)), ("--admin", (admin,))):
        _check_addresses(option, addresses)
    return Options(
        config=from_file.config,
        listen=listen,
        advertise=advertise,
        admin=None if admin == "off" else admin,
        data_dir=None if ephemeral else said("data-dir", "muster-data"),
        fsync=said("fsync", False),
        topics=dict(_topic(text) for text in said("topic", [])),
        ready_file=said("ready-file", None),
        compat=_compat(said("compat", COMPAT[0])),
        seed=said("seed", None),
        log_level=said("log-level", "info"),
        log_format=said("log-format", "text"),
        started=STARTED,
    )


def _check_addresses(option: str, addresses: tuple[str | None, ...]) -> None:
    for one in addresses:
        if one is not None and not (one == "off" and option == "--admin"):
            try:
                address(one)
            except ValueError as error:
                raise ConfigError(f"{option}: {error}") from None


def _compat(text: str) -> str:
    if text not in COMPAT:
        raise ConfigError(f"--compat: {text!r} will not do; it may be one of {', '.join(COMPAT)}")
    return text


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon or not partitions.isdigit() or not 1 <= int(partitions) <= 10_000:
        raise ConfigError(f"--topic: {text!r} will not do; it may be NAME:PARTITIONS with 1 to 10000 partitions")
    if reason_invalid(name):
        raise ConfigError(
            f"--topic: {name!r} will not do; it may be 1 to 249 letters, digits, '.', '_' and '-', and not '.' or '..'"
        )
    return name, int(partitions)
