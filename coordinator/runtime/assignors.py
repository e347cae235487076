"""The assignors of the broker that the setting names: Kafka's two, and those that other packages have installed.

A package registers a function under the entry point group `muster.assignors`; `core/assignors/spec.py` says what it is:

    [project.entry-points."muster.assignors"]
    nearest = "my_package:assign"

The server does not start with a name that no package has registered: a group must not fail at its first heartbeat.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.config import assignor_names
from coordinator.core.assignors import BUILT_IN, ENTRY_POINTS
from coordinator.core.assignors.spec import Assignor
from coordinator.setting import ConfigError

SETTING: Final = "group.consumer.assignors"


def load_assignors(names: Sequence[str]) -> Mapping[str, Assignor]:
    """Load the assignors of these names, in their order. Raises ConfigError if one is missing or does not load."""
    if not names:
        raise ConfigError(f"invalid {SETTING}: expected {', '.join(BUILT_IN)} or an installed assignor")
    return {name: BUILT_IN.get(name) or _load_installed_assignor(name) for name in assignor_names(names)}


def _load_installed_assignor(name: str) -> Assignor:
    from importlib.metadata import entry_points  # it reads the metadata of every package

    registered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in registered:
        known = ", ".join(sorted({*BUILT_IN, *registered}))
        raise ConfigError(f"invalid {SETTING} {name!r}: expected one of {known}")
    try:
        assignor = registered[name].load()
    except Exception as error:  # a package of others may raise anything when it is imported
        raise ConfigError(f"invalid {SETTING} {name!r}: cannot load {registered[name].value}: {error!r}") from error
    if not callable(assignor):
        raise ConfigError(f"invalid {SETTING} {name!r}: {registered[name].value} is not a function")
    loaded: Assignor = assignor
    return loaded
