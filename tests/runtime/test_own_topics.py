"""The topics of the coordinator are made as Kafka makes them, and what is changed of their settings stays changed."""

import pytest

from coordinator.config import Config
from coordinator.core.catalog.catalog import TOPIC, Catalog
from coordinator.core.catalog.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.catalog.records import CatalogRecord, ConfigKey, ConfigValue, TopicKey, TopicValue
from coordinator.runtime.own_topics import add_missing_settings, make_topic

CONFIG = Config({"offsets.topic.segment.bytes": 2_048, "share.coordinator.state.topic.segment.bytes": 4_096})
KAFKAS = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "2048"},
    SHARE_STATE_TOPIC: {
        "cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1", "segment.bytes": "4096",
    },
    "orders": {},
}  # fmt: skip


@pytest.mark.parametrize("name", KAFKAS)
def test_a_topic_is_made_with_the_settings_that_kafka_gives_it(name: str) -> None:
    catalog = Catalog()
    catalog.apply(make_topic(name, TopicValue(bytes(16), 3), CONFIG))
    assert catalog.topics_by_name[name].partitions == 3
    assert catalog.configs.get((TOPIC, name), {}) == KAFKAS[name]
    assert not add_missing_settings(catalog, CONFIG), "nothing is missing of what was made"


@pytest.mark.parametrize("own", [{}, {"segment.bytes": "9999"}, {"retention.ms": "5"}])
def test_a_catalog_of_an_earlier_version_gets_what_is_missing_once(own: dict[str, str]) -> None:
    catalog = Catalog()
    assert not add_missing_settings(catalog, CONFIG), "there is no such topic"
    catalog.replay(CatalogRecord(TopicKey(OFFSETS_TOPIC), TopicValue(bytes(16), 3)))
    for name, value in own.items():
        catalog.replay(CatalogRecord(ConfigKey(TOPIC, OFFSETS_TOPIC, name), ConfigValue(value)))
    catalog.apply(add_missing_settings(catalog, CONFIG))
    assert catalog.configs[TOPIC, OFFSETS_TOPIC] == KAFKAS[OFFSETS_TOPIC] | own
    catalog.replay(CatalogRecord(ConfigKey(TOPIC, OFFSETS_TOPIC, "compression.type"), None))
    assert not add_missing_settings(catalog, CONFIG), "what was removed stays so"
