"""Where settings come from: a TOML file, then the environment, then the command line. Not a subcommand.

listen = ["127.0.0.1:9092"]        # the options of `muster serve`, by their long names
data-dir = "muster-data"
topic = ["orders:4"]
[set]                              # the broker's settings, by Kafka's names
group.max.size = 100
"""

import argparse
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from coordinator.config import Config, ConfigError, from_environment, from_pairs, from_table

FILE_VARIABLE: Final = "MUSTER_CONFIG"  # of the environment: the file where --config names none
OPTIONS: Final[Mapping[str, type]] = {
    "listen": list,
    "advertise": str,
    "admin": str,
    "data-dir": str,
    "ephemeral": bool,
    "fsync": bool,
    "topic": list,
    "ready-file": str,
    "compat": str,
    "seed": int,
    "log-level": str,
    "log-format": str,
}


class Settings(Struct, frozen=True):
    """The broker's settings, and what the file says of the command's options."""

    config: Config
    options: Mapping[str, Any]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The two options that settings come from."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting, by Kafka's name"
    )
    parser.add_argument(
        "--config", metavar="FILE.toml", help=f"options and, under [set], broker settings (${FILE_VARIABLE}, or none)"
    )


def settings(args: argparse.Namespace) -> Settings:
    """What is set, the command line over the environment over the file. Raises ConfigError."""
    if args.config:
        said_by, file = "--config", args.config
    else:
        said_by, file = FILE_VARIABLE, os.environ.get(FILE_VARIABLE, "")
    table = _read(said_by, file) if file else {}
    values = from_table(table.pop("set", {})) | from_environment(os.environ) | from_pairs(args.set)
    return Settings(Config(values), {name: _option(f"{said_by}: {file}", name, value) for name, value in table.items()})


def _read(said_by: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(name).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{said_by}: cannot read {name}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{said_by}: {name} is not TOML: {error}") from None


def _option(where: str, name: str, value: Any) -> Any:
    kind = OPTIONS.get(name)
    if kind is None:
        raise ConfigError(f"{where}: {name} is no option; it may be [set] or one of {', '.join(OPTIONS)}")
    if kind is list and isinstance(value, str):
        return [value]
    if type(value) is not kind or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
        words = {list: "a list of strings", str: "a string", bool: "true or false", int: "a whole number"}
        raise ConfigError(f"{where}: {name}: {value!r} will not do; it may be {words[kind]}")
    return value
