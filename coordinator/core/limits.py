"""Every bound and delay that the core needs, as one value.

The fields are Kafka's settings with `_` for `.` and with Kafka's defaults (but for the initial delay: a server that is
often a test's double must not wait). `coordinator/config.py` has the sentences about them, and makes the value.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000  # not a setting in Kafka either: how long a first join may take in all

_INT_MAX: Final = 2**31 - 1


class MigrationPolicy(StrEnum):
    """The groups that may change between the classic and the consumer protocol while they have members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class Limits(Struct, frozen=True):
    """Bounds and delays. Times in milliseconds unless the name says otherwise."""

    # classic groups
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = _INT_MAX
    # consumer groups (KIP-848); the first three may be set for a group of its own
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = _INT_MAX
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_consumer_regex_refresh_interval_ms: int = 600_000
    # share groups (KIP-932); the first six, and what no broker has a setting for, may be set for a group of its own
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_record_lock_duration_ms: int = 30_000
    group_share_delivery_count_limit: int = 5
    group_share_partition_max_record_locks: int = 2_000
    group_share_initialize_retry_interval_ms: int = 30_000
    group_share_max_size: int = 200
    share_auto_offset_reset: str = "latest"  # or "earliest", or "by_duration:" and an ISO 8601 duration
    share_isolation_level: str = "read_uncommitted"  # or "read_committed"
    share_renew_acknowledge_enable: bool = True
    # streams groups (KIP-1071); all but the last may be set for a group of its own
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_num_standby_replicas: int = 0
    group_streams_max_size: int = _INT_MAX
    # offsets
    offset_metadata_max_bytes: int = 4_096  # counted in UTF-16 code units, as Kafka does despite the name
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000
