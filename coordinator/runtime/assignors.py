"""The server-side assignors that the settings name: Kafka's two, and what other packages have installed.

A package registers a function under the entry point group `muster.assignors`; `core/assignors/spec.py` says what it is:

    [project.entry-points."muster.assignors"]
    nearest = "my_package:assign"

A name that nobody has registered stops the server at its start, not a group at its first heartbeat.
"""

from collections.abc import Mapping, Sequence

from coordinator.config import ConfigError
from coordinator.core.assignors import BUILT_IN, ENTRY_POINTS
from coordinator.core.assignors.spec import Assignor

KNOB = "group.consumer.assignors"


def chosen(names: Sequence[str]) -> Mapping[str, Assignor]:
    """Name -> assignor, in the order of the setting. Raises ConfigError for what is missing or does not load."""
    if not names:
        raise ConfigError(f"{KNOB}: none is named; it may be {', '.join(BUILT_IN)}, or one that is installed")
    return {name: BUILT_IN.get(name) or _installed(name) for name in names}


def _installed(name: str) -> Assignor:
    from importlib.metadata import entry_points  # reads all that is installed: only an assignor of others needs it

    registered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in registered:
        there = ", ".join(sorted({*BUILT_IN, *registered}))
        raise ConfigError(f"{KNOB}: there is no assignor {name!r}; there are {there}")
    try:
        assignor = registered[name].load()
    except Exception as error:  # whatever a package of others does when it is imported
        raise ConfigError(f"{KNOB}: {name} ({registered[name].value}) cannot be loaded: {error!r}") from error
    if not callable(assignor):
        raise ConfigError(f"{KNOB}: {name} ({registered[name].value}) is no function")
    made: Assignor = assignor
    return made
