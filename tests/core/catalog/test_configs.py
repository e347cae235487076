"""Settings of topics and of the broker: described with where they come from, changed as far as they can be."""

from typing import Any

import pytest

from coordinator.core.catalog.catalog import BROKER, FORMATTED, TOPIC, Catalog
from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from coordinator.core.catalog.settings import BrokerSetting, Settings
from coordinator.core.catalog.topic_configs import BY_NAME, LONG
from coordinator.core.result import Call
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestResource,
)
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from tests.core.decide import decide_all

CALL = Call(1, 5_000, 4, "c", "/h", lambda: "")
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def catalog() -> Catalog:
    broker = (
        BrokerSetting("log.retention.ms", "777", LONG, "How long.", is_default=False, default="604800000"),
        BrokerSetting("group.max.size", "5", LONG, "How many."),
    )
    catalog = Catalog(Settings(broker=broker))
    catalog.replay(CatalogRecord(TopicKey("t"), TopicValue(b"t" * 16, 1, 1)))
    return catalog


def ask(catalog: Catalog, request: Any) -> Any:
    for outcome in decide_all("catalog", catalog, request, CALL):
        for record in outcome.records:
            catalog.replay(record)
    return outcome.response


def change(catalog: Catalog, kind: int, name: str, *changes: tuple[str, int, str | None], **fields: Any) -> ErrorCode:
    configs = tuple(IncrementalAlterConfigsRequestAlterableConfig(*one) for one in changes)
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsRequestResource(kind, name, configs),), **fields)
    return ErrorCode(ask(catalog, request).responses[0].error_code)


def describe(catalog: Catalog, kind: int, name: str, *keys: str) -> dict[str, tuple[str | None, int]]:
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(kind, name, keys or None),), True, True)
    (result,) = ask(catalog, request).results
    assert result.error_code == 0, result
    return {entry.name: (entry.value, entry.config_source) for entry in result.configs}


def test_a_topics_value_is_its_own_else_the_brokers_else_the_default(catalog: Catalog) -> None:
    assert describe(catalog, TOPIC, "t", "retention.ms", "segment.bytes") == {
        "retention.ms": ("777", 4),
        "segment.bytes": ("1073741824", 5),
    }
    assert change(catalog, BROKER, "", ("log.retention.ms", SET, "888")) == ErrorCode.NONE
    assert describe(catalog, TOPIC, "t", "retention.ms") == {"retention.ms": ("888", 3)}
    assert change(catalog, BROKER, "0", ("log.retention.ms", SET, "999")) == ErrorCode.NONE
    assert describe(catalog, TOPIC, "t", "retention.ms") == {"retention.ms": ("999", 2)}
    assert change(catalog, TOPIC, "t", ("retention.ms", SET, "5")) == ErrorCode.NONE
    assert describe(catalog, TOPIC, "t", "retention.ms") == {"retention.ms": ("5", 1)}
    assert catalog.governing("t").retention_ms == 5
    assert change(catalog, TOPIC, "t", ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert catalog.governing("t").retention_ms == 999


def test_synonyms_name_every_value_that_there_is(catalog: Catalog) -> None:
    change(catalog, BROKER, "", ("log.retention.ms", SET, "888"))
    change(catalog, TOPIC, "t", ("retention.ms", SET, "5"))
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(TOPIC, "t", ("retention.ms",)),), True)
    (entry,) = ask(catalog, request).results[0].configs
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "888", 3),
        ("log.retention.ms", "777", 4),
        ("log.retention.ms", "604800000", 5),
    ]
    assert (entry.config_type, entry.documentation, entry.is_default) == (LONG, None, False)
    without = DescribeConfigsRequest((DescribeConfigsRequestResource(TOPIC, "t", ("retention.ms",)),))
    assert ask(catalog, without).results[0].configs[0].synonyms == ()


def test_the_brokers_own_settings_are_described(catalog: Catalog) -> None:
    found = describe(catalog, BROKER, "0")
    assert found["group.max.size"] == ("5", 5)
    assert found["log.retention.ms"] == ("777", 4)
    assert found["message.max.bytes"] == ("1048588", 5)
    assert describe(catalog, BROKER, "") == {"min.insync.replicas": ("1", 3)}


def test_what_is_asked_of_a_resource_happens_as_a_whole_or_not(catalog: Catalog) -> None:
    changes = ("retention.ms", SET, "1"), ("segment.bytes", SET, "1")
    assert change(catalog, TOPIC, "t", *changes) == ErrorCode.INVALID_CONFIG
    assert catalog.configs == FORMATTED


def test_most_of_the_broker_cannot_change_while_it_runs(catalog: Catalog) -> None:
    assert change(catalog, BROKER, "0", ("group.max.size", SET, "9")) == ErrorCode.INVALID_REQUEST
    assert change(catalog, BROKER, "0", ("log.retention.ms", SET, "x")) == ErrorCode.INVALID_REQUEST


def test_the_old_way_replaces_all_settings(catalog: Catalog) -> None:
    change(catalog, TOPIC, "t", ("retention.ms", SET, "1"), ("max.message.bytes", SET, "10"))
    one = AlterConfigsRequestAlterableConfig
    request = AlterConfigsRequest((AlterConfigsRequestResource(TOPIC, "t", (one("retention.ms", "2"),)),))
    assert ask(catalog, request).responses[0].error_code == 0
    assert catalog.configs == {(TOPIC, "t"): {"retention.ms": "2"}, **FORMATTED}
    twice = AlterConfigsRequest((AlterConfigsRequestResource(TOPIC, "t"),) * 2)
    assert {one.error_code for one in ask(catalog, twice).responses} == {ErrorCode.INVALID_REQUEST}
    bad = AlterConfigsRequest((AlterConfigsRequestResource(TOPIC, "t", (one("retention.ms", None),)),))
    assert ask(catalog, bad).responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_bound_is_told_in_full() -> None:
    assert BY_NAME["segment.bytes"].reason_invalid("10000") == (
        "Invalid value 10000 for configuration segment.bytes: Value must be at least 1048576"
    )


@pytest.mark.parametrize(
    ("name", "is_known"),
    [("0", True), ("000", True), *((name, False) for name in ("1" * 5_000, "-1", "٠", "0x0", "1"))],
)
def test_a_broker_is_known_by_its_number_however_long_that_is(name: str, is_known: bool) -> None:
    """CPython does not read a number of 5,000 digits."""
    catalog = Catalog(Settings(broker_ids=(0,)))
    resource = DescribeConfigsRequestResource(BROKER, name)
    (result,) = ask(catalog, DescribeConfigsRequest((resource,))).results
    assert result.error_code == (ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST)
