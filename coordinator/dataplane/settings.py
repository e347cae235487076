"""Derive the settings of the catalog, and of the coordinator's own logs, from the configuration."""

from collections.abc import Sequence
from typing import Final

from coordinator.config import Config
from coordinator.core.catalog.settings import BrokerSetting, Settings
from coordinator.core.catalog.topic_configs import BOOLEAN, DOUBLE, INT, INT_MAX, LIST, LONG, PASSWORD, STRING
from coordinator.core.prices import BOUNDED
from coordinator.setting import Setting, format_value
from storage.log import LogConfig

_KINDS: Final[dict[type, int]] = {bool: BOOLEAN, float: DOUBLE, str: STRING, tuple: LIST}


def catalog_settings(config: Config, broker_ids: Sequence[int]) -> Settings:
    """Return the catalog's settings. Each of the broker's own is among them, to be described to who asks."""
    return Settings(
        broker_ids=tuple(broker_ids),
        num_partitions=config["num.partitions"],
        auto_create_topics=config["auto.create.topics.enable"],
        transaction_max_timeout_ms=config["transaction.max.timeout.ms"],
        transactional_id_expiration_ms=config["transactional.id.expiration.ms"],
        held_max={kind.value: config[kind.setting] for kind in BOUNDED},
        broker=tuple(
            BrokerSetting(
                name=setting.name,
                value=format_value(value),
                kind=_kind(setting),
                doc=setting.sentence,
                is_secret=setting.is_secret,
                is_default=not config.is_set(setting.name),
                default=_default(setting),
            )
            for setting, value in config.items()
        ),
    )


def _kind(setting: Setting) -> int:
    if setting.is_secret:
        return PASSWORD
    return _KINDS.get(setting.kind) or (INT if (setting.most or 0) <= INT_MAX else LONG)


def _default(setting: Setting) -> str | None:
    """Return Kafka's default; None where it is no word, and none of its choices is the empty one."""
    default = setting.default if setting.kafka_default is None else setting.kafka_default
    return None if default == "" and not setting.choices else format_value(default)


def own_log_config(config: Config) -> LogConfig:
    """Return the settings of the logs of groups, offsets and the catalog."""
    return LogConfig(
        segment_bytes=config["offsets.topic.segment.bytes"],
        delete_retention_ms=config["log.cleaner.delete.retention.ms"],
        min_cleanable_dirty_ratio=config["log.cleaner.min.cleanable.ratio"],
        compaction_bytes_min=config["offsets.topic.min.dirty.bytes"],
    )
