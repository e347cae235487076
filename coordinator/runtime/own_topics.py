"""The topics in which the coordinator keeps what it knows, and the settings that they are made with.

Shown by tests/runtime/test_own_topics.py.
"""

from collections.abc import Mapping

from coordinator.config import Config
from coordinator.core.catalog.catalog import TOPIC, Catalog
from coordinator.core.catalog.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.catalog.records import CatalogRecord, ConfigKey, ConfigValue, TopicKey, TopicValue


def make_topic(name: str, topic: TopicValue, config: Config) -> tuple[CatalogRecord, ...]:
    """Return the records that make a topic. One of the coordinator's has settings."""
    return (CatalogRecord(TopicKey(name), topic), *_set(name, _settings(name, config)))


def add_missing_settings(catalog: Catalog, config: Config) -> tuple[CatalogRecord, ...]:
    """Return the settings of `__consumer_offsets` that a catalog of an earlier version has not written down.

    One that has knows the policy, which nobody can remove.
    """
    known = catalog.configs.get((TOPIC, OFFSETS_TOPIC), {})
    if OFFSETS_TOPIC not in catalog.topics_by_name or "cleanup.policy" in known:
        return ()
    wanted = _settings(OFFSETS_TOPIC, config)
    return _set(OFFSETS_TOPIC, {key: value for key, value in wanted.items() if key not in known})


def _settings(name: str, config: Config) -> Mapping[str, str]:
    """Return what Kafka sets when it creates these topics. Tools see it as set, and not as a default."""
    if name == OFFSETS_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        }
    if name == SHARE_STATE_TOPIC:
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "retention.ms": "-1",
            "segment.bytes": str(config["share.coordinator.state.topic.segment.bytes"]),
        }
    return {}


def _set(name: str, settings: Mapping[str, str]) -> tuple[CatalogRecord, ...]:
    return tuple([CatalogRecord(ConfigKey(TOPIC, name, key), ConfigValue(value)) for key, value in settings.items()])
