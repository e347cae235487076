"""The settings of a topic, each with its kind, default, bounds, and the broker's setting behind it.

One table, in Kafka's names. Some settings mean nothing to one node that keeps batches as they came (compression levels,
replication throttles): they are checked, stored and shown, so that tools which set them go on working.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final

from msgspec import Struct

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

# KIP-226's numbers for the kind of a value, as DescribeConfigs v3 and later tell it.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, PASSWORD = 1, 2, 3, 4, 5, 6, 7, 9


class TopicConfig(Struct, frozen=True):
    """One setting of a topic. `least` and `most` are inclusive; `words` are all that a STRING or LIST may hold.

    `reason` says why a value of the right kind cannot be; None where nothing else is asked of it.
    """

    name: str
    kind: int
    default: str
    broker: str | None  # the broker's setting that applies where the topic has none; None when there is no such thing
    doc: str
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    reason: Callable[[str], str | None] | None = None

    def reason_invalid(self, text: str) -> str | None:
        """Return why `text` cannot be this setting's value, or None when it can."""
        reason = _REASONS[self.kind](self, text) or (self.reason(text.strip()) if self.reason is not None else None)
        return None if reason is None else f"Invalid value {text} for configuration {self.name}: {reason}"

    def plain(self, text: str) -> str:
        """Return a value that this setting can have as Kafka reads and shows it, whatever a client wrote around it."""
        return _PLAIN[self.kind](self, text)


def _number(parse: Callable[[str], float], words: str) -> Callable[[TopicConfig, str], str | None]:
    def reason(config: TopicConfig, text: str) -> str | None:
        try:
            value = parse(text.strip())
        except ValueError:
            return f"Not a number of type {words}"
        if config.least is not None and not value >= config.least:  # as it is with NaN
            return f"Value must be at least {config.least}"
        if config.most is not None and value > config.most:
            return f"Value must be no more than {config.most}"
        return None

    return reason


def _whole(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.lstrip("+-").isdecimal() or not text.isascii():
            raise ValueError(text)  # int() would take "1_000" and other scripts' digits; Java does not
        value = int(text)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(text)
        return value

    return parse


_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?", re.ASCII)


def parse_double(text: str) -> float:
    """Parse a number as Java's `Double.parseDouble` does, but for hexadecimal ones. Raises ValueError."""
    if _DOUBLE.fullmatch(text.strip()) is None:
        raise ValueError(text)
    return float(text.strip().rstrip("fFdD"))


def _truth(_: TopicConfig, text: str) -> str | None:
    return None if text.strip().lower() in ("true", "false") else "Expected value to be either true or false"


def _word(config: TopicConfig, text: str) -> str | None:
    if not config.words or text.strip() in config.words:
        return None
    return f"String must be one of: {', '.join(config.words)}"


def _words(config: TopicConfig, text: str) -> str | None:
    if not text.strip():
        return None
    words = [part.strip() for part in text.split(",")]
    if "" in words:
        return "An entry of the list is empty"
    if config.words and not set(config.words).issuperset(words):
        return f"String must be one of: {', '.join(config.words)}"
    return None


def _refuse_zero(text: str) -> str | None:
    return "Value must be between 1 and 9, or -1" if int(text) == 0 else None


def _refuse_tiers(text: str) -> str | None:
    return "Tiered storage is disabled" if text.lower() == "true" else None


def _refuse_throttles(text: str) -> str | None:
    """Kafka: `ThrottledReplicaListValidator`."""
    is_right = text in ("", "*") or re.fullmatch(r"\d+:\d+(\s*,\s*\d+:\d+)*", text, re.ASCII)
    return None if is_right else "Must be the literal '*' or a list of replicas: partition:broker,..."


_REASONS: Final[Mapping[int, Callable[[TopicConfig, str], str | None]]] = {
    BOOLEAN: _truth,
    STRING: _word,
    INT: _number(_whole(32), "INT"),
    LONG: _number(_whole(64), "LONG"),
    DOUBLE: _number(parse_double, "DOUBLE"),
    LIST: _words,
}


def _plain_double(_: TopicConfig, text: str) -> str:
    """Return a number as Java's `Double.toString` writes it."""
    value = parse_double(text)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "no setting may be infinite"
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or 0}E{exponent + len(rest)}"


def _plain_list(config: TopicConfig, text: str) -> str:
    words = [part.strip() for part in text.split(",")]
    return ",".join(dict.fromkeys(words) if config.words else words)


_PLAIN: Final[Mapping[int, Callable[[TopicConfig, str], str]]] = {
    BOOLEAN: lambda _, text: text.strip().lower(),
    STRING: lambda _, text: text.strip(),
    INT: lambda _, text: str(int(text)),
    LONG: lambda _, text: str(int(text)),
    DOUBLE: _plain_double,
    LIST: _plain_list,
}

_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: Final[tuple[TopicConfig, ...]] = (
    TopicConfig("cleanup.policy", LIST, "delete", "log.cleanup.policy",
                "What becomes of old records: deleted, compacted to the latest of each key, or both.",
                words=("compact", "delete")),
    TopicConfig("compression.gzip.level", INT, "-1", "compression.gzip.level", "Kept; batches stay as they came.",
                least=-1, most=9, reason=_refuse_zero),
    TopicConfig("compression.lz4.level", INT, "9", "compression.lz4.level", "Kept; batches stay as they came.",
                least=1, most=17),
    TopicConfig("compression.type", STRING, "producer", "compression.type", "Kept; batches stay as they came.",
                words=_CODECS),
    TopicConfig("compression.zstd.level", INT, "3", "compression.zstd.level", "Kept; batches stay as they came.",
                least=-131072, most=22),
    TopicConfig("delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms",
                "How long a compacted topic keeps tombstones.", least=0),
    TopicConfig("file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms", "Kept; files go at once.",
                least=0),
    TopicConfig("flush.messages", LONG, str(LONG_MAX), "log.flush.interval.messages",
                "Kept; when a turn reaches the disk is the server's own setting.", least=1),
    TopicConfig("flush.ms", LONG, str(LONG_MAX), "log.flush.interval.ms",
                "Kept; when a turn reaches the disk is the server's own setting.", least=0),
    TopicConfig("follower.replication.throttled.replicas", LIST, "", None, "Kept; there is one copy.",
                reason=_refuse_throttles),
    TopicConfig("index.interval.bytes", INT, "4096", "log.index.interval.bytes", "Kept.", least=0),
    TopicConfig("leader.replication.throttled.replicas", LIST, "", None, "Kept; there is one copy.",
                reason=_refuse_throttles),
    TopicConfig("local.retention.bytes", LONG, "-2", "log.local.retention.bytes", "Kept; there are no tiers.",
                least=-2),
    TopicConfig("local.retention.ms", LONG, "-2", "log.local.retention.ms", "Kept; there are no tiers.", least=-2),
    TopicConfig("max.compaction.lag.ms", LONG, str(LONG_MAX), "log.cleaner.max.compaction.lag.ms", "Kept.", least=1),
    TopicConfig("max.message.bytes", INT, "1048588", "message.max.bytes", "The largest record batch that is taken.",
                least=0),
    TopicConfig("message.timestamp.after.max.ms", LONG, "3600000", "log.message.timestamp.after.max.ms",
                "How far in the future a record's own timestamp may lie.", least=0),
    TopicConfig("message.timestamp.before.max.ms", LONG, str(LONG_MAX), "log.message.timestamp.before.max.ms",
                "How far in the past a record's own timestamp may lie.", least=0),
    TopicConfig("message.timestamp.type", STRING, "CreateTime", "log.message.timestamp.type",
                "Whose clock stamps records, the producer's or the broker's.", words=("CreateTime", "LogAppendTime")),
    TopicConfig("min.cleanable.dirty.ratio", DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio",
                "The part of a log that must be dirty before it is compacted.", least=0, most=1),
    TopicConfig("min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms", "Kept.", least=0),
    TopicConfig("min.insync.replicas", INT, "1", "min.insync.replicas", "Kept; there is one copy.", least=1),
    TopicConfig("preallocate", BOOLEAN, "false", "log.preallocate", "Kept; files grow as they are written."),
    TopicConfig("remote.log.copy.disable", BOOLEAN, "false", None, "Kept; there are no tiers."),
    TopicConfig("remote.log.delete.on.disable", BOOLEAN, "false", None, "Kept; there are no tiers."),
    TopicConfig("remote.storage.enable", BOOLEAN, "false", None, "There are no tiers.", reason=_refuse_tiers),
    TopicConfig("retention.bytes", LONG, "-1", "log.retention.bytes", "How much of a partition is kept; -1 all."),
    TopicConfig("retention.ms", LONG, "604800000", "log.retention.ms", "How long records are kept; -1 for ever.",
                least=-1),
    TopicConfig("segment.bytes", INT, "1073741824", "log.segment.bytes", "The size at which a segment is closed.",
                least=1_048_576),
    TopicConfig("segment.index.bytes", INT, "10485760", "log.index.size.max.bytes", "Kept.", least=4),
    TopicConfig("segment.jitter.ms", LONG, "0", "log.roll.jitter.ms", "Kept.", least=0),
    TopicConfig("segment.ms", LONG, "604800000", "log.roll.ms",
                "How much later than its first record a segment's may be.", least=1),
    TopicConfig("unclean.leader.election.enable", BOOLEAN, "false", "unclean.leader.election.enable",
                "Kept; there is one copy."),
)  # fmt: skip

_COMPACTION_LAG: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")
BY_NAME: Final[Mapping[str, TopicConfig]] = {config.name: config for config in TOPIC_CONFIGS}
BY_BROKER_NAME: Final[Mapping[str, TopicConfig]] = {c.broker: c for c in TOPIC_CONFIGS if c.broker is not None}


def reason_invalid(settings: Mapping[str, str]) -> str | None:
    """Return why a topic cannot have these settings together, or None when it can."""
    for name, text in settings.items():
        config = BY_NAME.get(name)
        if config is None:
            return f"Unknown topic config name: {name}"
        if reason := config.reason_invalid(text):
            return reason
    least, most = (int(settings.get(name, BY_NAME[name].default)) for name in _COMPACTION_LAG)
    if least > most:
        return f"{_COMPACTION_LAG[0]} ({least}) is greater than {_COMPACTION_LAG[1]} ({most})"
    return None


def append_words(text: str, words: Iterable[str]) -> str:
    """Append to a LIST the words that it does not contain."""
    held = [word for word in text.split(",") if word]
    known = set(held)
    return ",".join([*held, *dict.fromkeys(word for word in words if word not in known)])


def subtract_words(text: str, words: Iterable[str]) -> str:
    """Remove words from a LIST."""
    gone = set(words)
    return ",".join(word for word in text.split(",") if word and word not in gone)
