"""Where the values of settings come from: a file, the environment, and the command line, one layer each.

They reach `Config` from a file, then the environment the way Kafka's image reads it, then the command line; the later
ones win. A setting that cannot be used is a `ConfigError` that names the setting, its source, and what is expected. A
setting of Kafka that has no effect here is accepted, and reported as ignored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.config import BY_NAME, OF_LISTENER, PER_LISTENER, behind_listener, find_setting, is_kafkas
from coordinator.setting import ConfigError, Value

NEAR: Final = 0.9  # KAFKA_GRUOP_MAX_SIZE; Kafka's own KAFKA_JVM_PERFORMANCE_OPTS and the like are near nothing


class Layer(Struct, frozen=True):
    """The settings of one source: a file, the environment, or the command line."""

    values: dict[str, Value] = {}
    sources: dict[str, str] = {}  # of each value: `--set`, a variable, or a file and its line
    ignored: dict[str, str] = {}  # settings of Kafka that have no effect here, with their sources
    suspects: dict[str, str] = {}  # variables that are no setting, each with one whose name is nearly the same

    def over(self, lower: "Layer") -> "Layer":
        """Return both layers in one; where both have a setting, this layer's value counts."""
        return Layer(
            lower.values | self.values,
            lower.sources | self.sources,
            lower.ignored | self.ignored,
            lower.suspects | self.suspects,
        )


def read_pairs(pairs: Iterable[str], source: str = "--set") -> Layer:
    """Return the settings of `NAME=VALUE` words, as `--set` takes them. Raises ConfigError."""
    layer = Layer({}, {}, {})
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"invalid {source} {pair!r}: expected NAME=VALUE")
        _put(layer, name.strip(), text, source)
    return layer


def read_environment(environment: Mapping[str, str]) -> Layer:
    """Return the settings of variables as Kafka's image reads them: KAFKA_ and the name in capitals, `_` for `.`.

    Other variables are left alone: an image's environment has many, and KAFKA_HEAP_OPTS is not a setting.
    """
    variables = [variable for variable in environment if variable.startswith("KAFKA_")]
    if not variables:
        return Layer({}, {}, {}, {})
    from coordinator.kafka_settings import NAMES

    by_variable = {"KAFKA_" + name.upper().replace(".", "_"): name for name in (*NAMES, *BY_NAME)}
    layer = Layer({}, {}, {}, {})
    for variable in variables:
        if variable in by_variable:
            _put(layer, by_variable[variable], environment[variable], variable)
        elif (name := _name_of_listener_variable(variable)) is not None:
            _put(layer, name, environment[variable], variable)
        elif near := _find_near(variable, by_variable):
            layer.suspects[variable] = near
    return layer


def _find_near(variable: str, known: Iterable[str]) -> str:
    """Return the known variable whose name is nearly the same, "" if there is none."""
    import difflib  # only a variable that is no setting needs it

    return next(iter(difflib.get_close_matches(variable, known, n=1, cutoff=NEAR)), "")


def _name_of_listener_variable(variable: str) -> str | None:
    """Return the setting of a listener that a variable gives: `__` stands for an underscore, `___` for a dash."""
    prefix = "KAFKA_" + OF_LISTENER.upper().replace(".", "_")
    rest = variable.removeprefix(prefix)
    for known in PER_LISTENER if variable.startswith(prefix) else ():
        suffix = "_" + known.upper().replace(".", "_")
        listener = rest.removesuffix(suffix)
        if rest.endswith(suffix) and listener:
            for written, meant in (("___", "-"), ("__", "\0"), ("_", "."), ("\0", "_")):
                listener = listener.replace(written, meant)
            return f"{OF_LISTENER}{listener.lower()}.{known}"
    return None


def read_table(table: Mapping[str, Any], source: Callable[[str], str] = lambda name: "") -> Layer:
    """Return the settings of a parsed TOML table; `group.max.size = 5` and `"group.max.size" = 5` mean the same.

    `source` says where the table has a name, for messages. Raises ConfigError.
    """
    layer = Layer({}, {}, {})
    for count, (name, value) in enumerate(_flatten(table), 1):
        _put(layer, name, tuple(value) if isinstance(value, list) else value, source(name))
        if len(layer.sources) + len(layer.ignored) < count:
            raise ConfigError(
                f"invalid {name} ({source(name)}): expected one value, and there is another, dotted or quoted"
            )
    return layer


def _put(layer: Layer, name: str, value: object, source: str) -> None:
    """Put a setting into a layer: among the values, or among the ignored ones. Raises ConfigError."""
    if name.startswith(OF_LISTENER):
        name = name.lower()  # listeners' names are in lower case there, as in Kafka
    if name not in BY_NAME and behind_listener(name) is None and is_kafkas(name):
        layer.ignored[name] = source
        return
    found = find_setting(name, source)
    layer.values[name] = found.parse(value, source) if isinstance(value, str) else found.check(value, source)
    layer.sources[name] = source


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
