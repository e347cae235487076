"""The settings of a group (resource type GROUP, KIP-848), each with the broker's setting behind it and its bounds.

The group need not exist, and its settings outlive it.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from coordinator.core.catalog.settings import Settings
from coordinator.core.catalog.topic_configs import BOOLEAN, INT, INT_MAX, STRING, TopicConfig
from coordinator.core.durations import parse_duration_ms
from coordinator.core.limits import Limits

Values = Mapping[str, str]


def _int(name: str, default: int, least: int, doc: str) -> TopicConfig:
    return TopicConfig(name, INT, str(default), f"group.{name}", doc, least, INT_MAX)


def _reason_no_reset(text: str) -> str | None:
    """Return why a share group cannot begin there. Kafka: `ShareGroupAutoOffsetResetStrategy.Validator`."""
    name, _, duration = text.partition(":")
    if text in ("earliest", "latest"):
        return None
    if name == "by_duration" and (ms := parse_duration_ms(duration)) is not None and ms >= 0:
        return None
    return (
        f"Invalid value `{text}` for configuration share.auto.offset.reset. The value must be either 'earliest',"
        " 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


GROUP_CONFIGS: Final = (
    _int("consumer.session.timeout.ms", 45_000, 1, "How long a member of the group may be silent."),
    _int("consumer.heartbeat.interval.ms", 5_000, 1, "How often members of the group are told to heartbeat."),
    _int("consumer.assignment.interval.ms", 1_000, 0, "The least time between two target assignments of the group."),
    _int("share.session.timeout.ms", 45_000, 1, "How long a member of the share group may be silent."),
    _int("share.heartbeat.interval.ms", 5_000, 1, "How often members of the share group are told to heartbeat."),
    _int(
        "share.record.lock.duration.ms", 30_000, 1_000, "How long a record is locked for the member that acquired it."
    ),
    _int("share.delivery.count.limit", 5, 2, "How often a record is delivered to the share group at most."),
    _int("share.partition.max.record.locks", 2_000, 100, "How many records of a partition may be locked at once."),
    TopicConfig(
        "share.auto.offset.reset",
        STRING,
        "latest",
        None,
        "Where a share group begins a partition: earliest, latest, or by_duration:PnDTnHnMn.nS before now.",
        reason=_reason_no_reset,
    ),
    TopicConfig(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        None,
        "Which records of transactions a share group reads.",
        words=("read_committed", "read_uncommitted"),
    ),
    TopicConfig(
        "share.renew.acknowledge.enable", BOOLEAN, "true", None, "Whether members of a share group may renew a lock."
    ),
    _int("share.assignment.interval.ms", 1_000, 0, "The least time between two assignments of the share group."),
    _int("streams.session.timeout.ms", 45_000, 1, "How long a member of the streams group may be silent."),
    _int("streams.heartbeat.interval.ms", 5_000, 1, "How often members of the streams group are told to heartbeat."),
    _int("streams.num.standby.replicas", 0, 0, "How many standby replicas each task has."),
    _int("streams.initial.rebalance.delay.ms", 3_000, 0, "How long an empty streams group waits for more members."),
    _int("streams.assignment.interval.ms", 1_000, 0, "The least time between two assignments of the streams group."),
)
BY_NAME: Final[Mapping[str, TopicConfig]] = {config.name: config for config in GROUP_CONFIGS}

# The least and the most that the broker's own bounds let a group set, where the broker does not say otherwise.
_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "consumer.session.timeout.ms": (45_000, 60_000),
    "consumer.heartbeat.interval.ms": (5_000, 15_000),
    "consumer.assignment.interval.ms": (0, 15_000),
    "share.session.timeout.ms": (45_000, 60_000),
    "share.heartbeat.interval.ms": (5_000, 15_000),
    "share.record.lock.duration.ms": (15_000, 60_000),
    "share.delivery.count.limit": (2, 10),
    "share.partition.max.record.locks": (100, 4_000),
    "share.assignment.interval.ms": (0, 15_000),
    "streams.session.timeout.ms": (45_000, 60_000),
    "streams.heartbeat.interval.ms": (5_000, 15_000),
    "streams.num.standby.replicas": (0, 2),
    "streams.assignment.interval.ms": (0, 15_000),
}
_PAIRS: Final = tuple(
    (name, f"{kind}.heartbeat.interval.ms")
    for name in BY_NAME
    for kind, _, what in [name.partition(".")]
    if what == "session.timeout.ms"
)


def reason_invalid(wanted: Values, settings: Settings) -> str | None:
    """Return why a group cannot have exactly these settings, or None when it can."""
    for name, text in wanted.items():
        config = BY_NAME.get(name)
        if config is None:
            return f"Unknown group config name: {name}"
        if reason := config.reason_invalid(text) or _out_of_bounds(name, text, settings):
            return reason
    for session, heartbeat in _PAIRS:
        if _number(session, wanted, settings) <= _number(heartbeat, wanted, settings):
            return f"{session} must be greater than {heartbeat}"
    return None


def limits_with(limits: Limits, stored: Values, settings: Settings) -> Limits:
    """Return the limits of a group with settings of its own. What is out of bounds by now is moved into them
    (KIP-1240)."""
    own: dict[str, int | str | bool] = {}
    for name, text in stored.items():
        if (field := f"group_{name.replace('.', '_')}") in Limits.__struct_fields__:
            own[field] = _clamp(name, int(text), settings)
        elif (field := name.replace(".", "_")) in Limits.__struct_fields__:  # the broker has none
            config = BY_NAME[name]
            own[field] = config.plain(text) == "true" if config.kind == BOOLEAN else config.plain(text)
    return replace(limits, **own) if own else limits


def broker_value(config: TopicConfig, settings: Settings) -> str:
    """Return the value that applies to groups without their own."""
    return next((setting.value for setting in settings.broker if setting.name == config.broker), config.default)


def _out_of_bounds(name: str, text: str, settings: Settings) -> str | None:
    if name not in _BOUNDS:
        return None
    least, most = _bounds(name, settings)
    if int(text) < least:
        return f"{name} must be greater than or equal to {_bound_name(name, 'min')}"
    if int(text) > most:
        return f"{name} must be less than or equal to {_bound_name(name, 'max')}"
    return None


def _bounds(name: str, settings: Settings) -> tuple[int, int]:
    told = {setting.name: int(setting.value) for setting in settings.broker if setting.name in _bound_names(name)}
    least, most = _BOUNDS[name]
    return told.get(_bound_name(name, "min"), least), told.get(_bound_name(name, "max"), most)


def _bound_names(name: str) -> tuple[str, str]:
    return _bound_name(name, "min"), _bound_name(name, "max")


def _bound_name(name: str, bound: str) -> str:
    """`consumer.session.timeout.ms` is bounded by `group.consumer.min.session.timeout.ms`."""
    kind, rest = name.split(".", 1)
    if name == "streams.num.standby.replicas":
        rest = "standby.replicas"
    return f"group.{kind}.{bound}.{rest}"


def _clamp(name: str, value: int, settings: Settings) -> int:
    if name not in _BOUNDS:
        return value
    least, most = _bounds(name, settings)
    return min(max(value, least), most)


def _number(name: str, wanted: Values, settings: Settings) -> int:
    return int(wanted[name]) if name in wanted else int(broker_value(BY_NAME[name], settings))
