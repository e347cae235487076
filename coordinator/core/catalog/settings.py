"""The facts that the catalog knows of its server, and the settings of a topic that the data plane reads."""

from collections.abc import Mapping

from msgspec import Struct

PARTITIONS_PER_REQUEST_MAX = 10_000  # Kafka's own bound: more in one request is a policy violation
PARTITIONS_MAX = 200_000  # of all topics together: a bound on what a client can make us keep


class BrokerSetting(Struct, frozen=True):
    """One setting of the broker as DescribeConfigs shows it."""

    name: str
    value: str
    kind: int  # KIP-226's number, as in `topic_configs`
    doc: str
    is_default: bool = True
    default: str | None = ""  # what Kafka has where nobody says otherwise; None: nothing
    is_secret: bool = False  # that there is a value is shown, and not which


class Settings(Struct, frozen=True):
    """The server, as far as the catalog must know it. `broker` holds all of the broker's own settings."""

    broker_ids: tuple[int, ...] = (0,)
    num_partitions: int = 1
    auto_create_topics: bool = True
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    partitions_max: int = PARTITIONS_MAX
    held_max: Mapping[str, int] = {}  # bytes of memory that a kind of state may take, by `prices.Kind`
    broker: tuple[BrokerSetting, ...] = ()


class TopicSettings(Struct, frozen=True):
    """The settings that govern a topic's records, resolved from its own, the broker's and the defaults."""

    max_message_bytes: int
    is_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    is_compacted: bool
    is_deleted: bool  # whether old records go, by age and size
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
