"""Where settings come from: a TOML file, then the environment, then the command line. Not a subcommand.

listen = ["127.0.0.1:9092"]        # the options of `muster serve`, by their long names
data-dir = "muster-data"
topic = ["orders:4"]
[set]                              # the broker's settings, by Kafka's names
group.max.size = 100
"""

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from coordinator.cli.parser import suggest
from coordinator.config import Config
from coordinator.config_layers import read_environment, read_pairs, read_table
from coordinator.setting import ConfigError, complain

FILE_VARIABLE: Final = "MUSTER_CONFIG"  # the file if there is no --config
OPTIONS: Final[Mapping[str, type]] = {
    "listen": list,
    "advertise": list,
    "brokers": int,
    "admin": str,
    "admin-token-file": str,
    "admin-public": bool,
    "data-dir": str,
    "ephemeral": bool,
    "fast": bool,
    "fsync": bool,
    "exit-with-stdin": bool,
    "topic": list,
    "ready-file": str,
    "compat": str,
    "oauth-dev": bool,
    "seed": int,
    "log-level": str,
    "log-format": str,
}


class Origin(Struct, frozen=True):
    """Where the value of an option comes from: the command line, or a line of the file."""

    name: str
    source: str = ""

    def complaint(self, value: object, expected: str) -> ConfigError:
        """Return the error about a value that the option cannot have."""
        return complain(self.name, value, self.source, expected)


class Settings(Struct, frozen=True):
    """The broker's settings, the file's options for the command, and the settings of Kafka that have no effect."""

    config: Config
    options: Mapping[str, Any]
    sources: Mapping[str, str]  # of the options
    ignored: Mapping[str, str]  # settings with their sources
    suspects: Mapping[str, str] = {}  # variables that are no setting, with the one that is nearly the same


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the two options that settings come from."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the broker, by Kafka's name; may be given again",
    )
    parser.add_argument(
        "--config",
        metavar="FILE.toml",
        help=f"a file with options and, under [set], settings of the broker (${FILE_VARIABLE})",
    )


def read_settings(args: argparse.Namespace) -> Settings:
    """Read the file, the environment and the command line; later ones win. Raises ConfigError."""
    if args.config is not None:
        given_by, file = "--config", args.config
    else:
        given_by, file = FILE_VARIABLE, os.environ.get(FILE_VARIABLE, "")
    text = _read(given_by, file) if file or given_by == "--config" else ""
    table = _parse(file, text) if text else {}

    def source(name: str) -> str:
        line = find_line(text, name)
        return f"{file}, line {line}" if line else str(file)

    chosen = table.pop("set", {})
    if not isinstance(chosen, dict):
        raise ConfigError(f"invalid set ({source('set')}): expected a table, [set]")
    layer = read_pairs(args.set).over(read_environment(os.environ)).over(read_table(chosen, source))
    options = {name: _check_option(name, value, source(name)) for name, value in table.items()}
    return Settings(
        Config(layer.values, layer.sources),
        options,
        {name: source(name) for name in options},
        layer.ignored,
        layer.suspects,
    )


def _read(given_by: str, name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"invalid {given_by} {name}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"invalid {given_by} {name}: expected TOML in UTF-8: {error}") from None


def _parse(file: str, text: str) -> dict[str, Any]:
    import tomllib  # only a file of settings needs it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"invalid {file}: expected TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"invalid {file}: expected TOML that is nested less deeply") from None


def find_line(text: str, name: str) -> int:
    """Return the line of a TOML text, counted from 1, that sets `name`; 0 if none does. For messages only."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = header[1]
        elif key := re.match(r"\s*([^=#]+?)\s*=", line):
            path = re.sub(r"[\"'\s]", "", f"{table}.{key[1]}" if table else key[1])
            if path.removeprefix("set.") == name:
                return number
    return 0


def _check_option(name: str, value: Any, source: str) -> Any:
    """Return an option of the file if it exists and is of the right type. Raises ConfigError."""
    kind = OPTIONS.get(name)
    if kind is None:
        hint = suggest(name, OPTIONS) or f"; expected [set] or one of {', '.join(OPTIONS)}"
        raise ConfigError(f"unknown option {name} ({source}){hint}")
    if kind is list and isinstance(value, str):
        return [value]
    if type(value) is not kind or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
        words = {list: "a list of strings", str: "a string", bool: "true or false", int: "a whole number"}
        raise complain(name, value, source, words[kind])
    return value
