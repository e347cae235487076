"""List the broker's settings, or explain those that are named: value, default, unit, bounds, meaning.

With the same --set, --config and environment as muster serve, it shows the values that the server would use."""

import argparse
import json
from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli import fail
from coordinator.cli.parser import add_json_option
from coordinator.cli.settings import add_settings, read_settings
from coordinator.config import Config, find_setting
from coordinator.setting import ConfigError, Setting, Value, format_value

HIDDEN: Final = "[hidden]"  # instead of a secret
EXAMPLES: Final = """\
muster config
muster config group.max.size
muster config --config muster.toml --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", metavar="NAME", help="only these settings; all if none is named")
    add_settings(parser)
    add_json_option(parser, "print a JSON array of objects")


def run(args: argparse.Namespace) -> int:
    try:
        config = read_settings(args).config
        named = {find_setting(name).name: find_setting(name) for name in args.name}
    except ConfigError as error:
        return fail("config", error, 2)
    chosen = [(setting, config.lookup(name)) for name, setting in named.items()]
    chosen = chosen or [*config.items(), *config.items_of_listeners()]
    if args.json:
        print(json.dumps([_to_json(config, setting, value) for setting, value in chosen], indent=2))
    else:
        print("\n".join(line for setting, value in chosen for line in _lines(config, setting, value)))
    return 0


def _to_json(config: Config, setting: Setting, value: Value) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": setting.name,
        "value": HIDDEN if _is_hidden(config, setting) else value,
        "default": setting.default,
        "unit": setting.unit,
        "expected": setting.may_be,
        "set": config.is_set(setting.name),
        "source": config.source(setting.name) or None,
        "sentence": setting.sentence,
    }
    if setting.kafka_default is not None:
        facts |= {"kafka_default": setting.kafka_default, "why": setting.why}
    return facts


def _is_hidden(config: Config, setting: Setting) -> bool:
    return setting.is_secret and config.lookup(setting.name) != setting.default


def _lines(config: Config, setting: Setting, value: Value) -> Iterator[str]:
    unit = f" {setting.unit}" if setting.unit else ""
    note = ""
    if config.is_set(setting.name):
        default = f"{format_value(setting.default)}{unit}" if setting.default not in ("", ()) else "nothing"
        note = f"; set by {config.source(setting.name)}; the default is {default}"
    shown = HIDDEN if _is_hidden(config, setting) else format_value(value)
    yield f"{setting.name} = {shown}{unit}  ({setting.may_be}{note})"
    yield f"    {setting.sentence}"
    if setting.kafka_default is not None:
        yield f"    Kafka's default is {format_value(setting.kafka_default)}{unit}; ours differs because {setting.why}."
