"""The settings of `--fast`: groups rebalance in milliseconds. Not a subcommand.

Members of the newer protocols learn of a rebalance with their next heartbeat, and the broker says how often that is:
every 5 s, as in Kafka. That suits a cluster, and is most of the time of a test. A test does not depend on it, so
`--ephemeral` implies `--fast`.
"""

import re
from collections.abc import Iterator
from typing import Final

from coordinator.config import BY_NAME, Config

SOURCE: Final = "--fast"
_OF_A_KIND: Final = {
    "heartbeat.interval.ms": 100,
    "min.heartbeat.interval.ms": 100,
    "assignment.interval.ms": 0,
    "initial.rebalance.delay.ms": 0,
}
_SETTING: Final = re.compile(r"group\.(consumer|share|streams)\.(.+)")


def hasten(config: Config) -> Config:
    """Return the configuration with fast groups. What is set stays; so do intervals whose bounds are."""
    return config.preset({name: value for name, value in fast_settings() if not _is_bound(config, name)}, SOURCE)


def fast_settings() -> Iterator[tuple[str, int]]:
    """Yield the settings of every kind of group that has them, with their values."""
    for name in BY_NAME:
        if (found := _SETTING.fullmatch(name)) and found[2] in _OF_A_KIND:
            yield name, _OF_A_KIND[found[2]]


def _is_bound(config: Config, name: str) -> bool:
    """Return whether somebody has set this interval, or a bound of it, which the fast one might contradict."""
    if not name.endswith("heartbeat.interval.ms"):
        return False
    kind = name.split(".")[1]
    return any(config.is_set(f"group.{kind}.{bound}heartbeat.interval.ms") for bound in ("", "min.", "max."))
