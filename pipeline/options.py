"""The options of `format("kafkalog")`, validated when the reader is made."""

from collections.abc import Mapping

import msgspec

from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from pipeline.decode import rows
from pipeline.decode.files import with_command_config
from pipeline.decode.layout import TOPIC, TOPICS
from pipeline.decode.logs import Position
from pipeline.decode.schema import TABLES
from pipeline.errors import UsageError

BY_FILTER = ("groups", "log_partitions")  # fields that only filters set
CHOICES = (
    ("table", (*TABLES, "latest_offsets")),
    ("reduce", ("none", "latest")),
    ("on_error", ("record", "salvage", "fail")),
)
REDUCED = ("offset_commits", "latest_offsets")  # the tables of which `reduce` makes one row a key
POSITIVE = ("num_partitions", "split_bytes", "max_bytes_per_trigger")
_positions = msgspec.json.Decoder(dict[str, tuple[int, int, int]])


class SourceOptions(msgspec.Struct, frozen=True):
    """`path` may hold several paths, one a line."""

    path: str
    table: str = "offset_commits"
    topic: str = ""  # that of the table; with `sink` those of all tables
    reduce: str = "none"  # latest: only the last effective commit of every key
    sink: str = "none"  # parquet:<directory>: workers write the raw tables, rows say which files
    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    num_partitions: int | None = None  # of the topic; with `group` only that group's log is read
    on_error: str = "record"
    split_bytes: int = 32 << 20
    max_bytes_per_trigger: int | None = None
    pushdown: bool = False
    groups: tuple[str, ...] | None = None  # only these; from filters, as the next
    log_partitions: tuple[int, ...] | None = None
    command_config: str = ""  # of clusters: a file with the settings of Kafka's clients
    starting: str = ""  # where to begin, as JSON {log: [next offset, segment, byte]}: what a manifest says

    @property
    def paths(self) -> list[str]:
        """The paths that were given."""
        return with_command_config([line for line in self.path.split("\n") if line], self.command_config)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose logs are read."""
        if self.topic:
            return (self.topic,)
        if self.sink != "none":
            return TOPICS
        return (SHARE_STATE_TOPIC,) if self.table == "share_records" else (TOPIC,)

    @property
    def starts(self) -> dict[str, Position]:
        """Where reading of each log begins; one that is missing here is read from its beginning."""
        return {name: Position(*at) for name, at in _positions.decode(self.starting).items()} if self.starting else {}

    @property
    def wanted_groups(self) -> frozenset[str] | None:
        """The groups to read, None for all: the option `group` and the filters hold together."""
        named = None if self.group is None else frozenset({self.group})
        filtered = None if self.groups is None else frozenset(self.groups)
        return filtered if named is None else named if filtered is None else named & filtered

    @property
    def is_reduced(self) -> bool:
        """Whether only the last effective commit of every key is wanted."""
        return self.reduce == "latest" or self.table == "latest_offsets"

    def decoder_options(self, tables: frozenset[str]) -> rows.Options:
        """Return the same for the decoder."""
        return rows.Options(
            tables=tables,
            on_error=self.on_error,
            groups=self.wanted_groups,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
        )


def parse(given: Mapping[str, str]) -> SourceOptions:
    """Read options as Spark hands them over: strings by names in any case. Raises UsageError for a wrong one."""
    known = {field.name: field for field in msgspec.structs.fields(SourceOptions)}
    for name in BY_FILTER:
        del known[name]
    values = {name.lower(): value for name, value in given.items()}
    if "paths" in values:  # of `.load([...])`
        values["path"] = "\n".join(msgspec.json.decode(values.pop("paths"), type=list[str]))
    if not values.get("path"):
        raise UsageError("missing option path: expected .load(<directory>)")
    if unknown := values.keys() - known.keys():
        raise UsageError(f"unknown option {sorted(unknown)[0]}: expected one of {', '.join(sorted(known))}")
    try:
        options = msgspec.convert(values, SourceOptions, strict=False)
    except msgspec.ValidationError as error:
        what, _, name = str(error).rpartition(" - at `$.")
        name = name.rstrip("`")
        raise UsageError(f"invalid option {name}={values[name]!r}: {what[0].lower()}{what[1:]}") from None
    _check(options)
    return options


def _check(options: SourceOptions) -> None:
    for name, allowed in CHOICES:
        if (chosen := getattr(options, name)) not in allowed:
            raise UsageError(f"invalid option {name}={chosen!r}: expected one of {', '.join(allowed)}")
    for name in POSITIVE:
        if (number := getattr(options, name)) is not None and number < 1:
            raise UsageError(f"invalid option {name}={number}: expected a number from 1 on")
    if options.reduce != "none" and options.table not in REDUCED:
        raise UsageError(f"invalid option reduce={options.reduce!r}: expected none with table={options.table!r}")
    if options.sink != "none" and not options.sink.startswith("parquet:"):
        raise UsageError(f"invalid option sink={options.sink!r}: expected none or parquet:<directory>")
    try:
        _ = options.starts
    except msgspec.DecodeError:
        form = "JSON {log: [next offset, segment, byte]}"
        raise UsageError(f"invalid option starting={options.starting!r}: expected {form}") from None
