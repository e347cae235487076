"""Lists every setting of the broker: its name, value, default, unit, bounds, and what it does.

With the same --set, --config and environment as `muster serve`, it shows what the server would run with.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from coordinator.cli import fail
from coordinator.cli.settings import add_settings, settings
from coordinator.config import Config, ConfigError, Knob, Value, shown

HELP = "list every setting: name, default, unit, bounds, sentence"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="for programs: one array of objects")


def run(args: argparse.Namespace) -> int:
    try:
        config = settings(args).config
    except ConfigError as error:
        return fail("config", error, 2)
    if args.json:
        print(json.dumps([_facts(config, knob, value) for knob, value in config.items()], indent=2))
    else:
        print("\n".join(_lines(config)))
    return 0


def _facts(config: Config, knob: Knob, value: Value) -> dict[str, Any]:
    facts = {"name": knob.name, "value": value, "default": knob.default, "unit": knob.unit, "may_be": knob.may_be}
    if knob.kafka_default is not None:
        facts |= {"kafka_default": knob.kafka_default, "why": knob.why}
    return facts | {"set": config.is_set(knob.name), "sentence": knob.sentence}


def _lines(config: Config) -> Iterator[str]:
    for knob, value in config.items():
        unit = f" {knob.unit}" if knob.unit else ""
        note = f", the default is {shown(knob.default)}{unit}" if config.is_set(knob.name) else ""
        yield f"{knob.name} = {shown(value)}{unit}  ({knob.may_be}{note})"
        yield f"    {knob.sentence}"
        if knob.kafka_default is not None:
            yield f"    Kafka's default is {shown(knob.kafka_default)}{unit}; ours differs because {knob.why}."
