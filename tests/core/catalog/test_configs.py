"""Settings of topics and of the broker: described with where they come from, changed as far as they can be."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.catalog import group_configs, topic_configs
from coordinator.core.catalog.alterations import APPEND, SET, SUBTRACT
from coordinator.core.catalog.catalog import BROKER, FORMATTED, GROUP, TOPIC, Catalog
from coordinator.core.catalog.records import (
    CatalogRecord,
    ConfigKey,
    ConfigValue,
    TopicKey,
    TopicValue,
    decode,
    encode,
)
from coordinator.core.catalog.settings import BrokerSetting, Settings
from coordinator.core.catalog.topic_configs import BOOLEAN, LONG, TopicConfig
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from protocol.bounds import TEXT_BYTES_MAX
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
from tests.requests import alter_configs

CALL = Call(1, 5_000, 4, "c", "/h", lambda: "")


def ask(catalog: Catalog, request: Any) -> Any:
    for outcome in decide_all("catalog", catalog, request, CALL):
        catalog.apply(outcome.records)
    return outcome.response


def change(catalog: Catalog, kind: int, name: str, key: str, value: str | None) -> str | None:
    """Change one setting. Returns what is wrong with that."""
    message: str | None = ask(catalog, alter_configs(kind, name, {key: value})).responses[0].error_message
    return message


def describe(catalog: Catalog, kind: int, name: str, *keys: str) -> dict[str, Any]:
    request = DescribeConfigsRequest((DescribeConfigsRequestResource(kind, name, keys or None),), True)
    return {entry.name: entry for entry in ask(catalog, request).results[0].configs}


@pytest.fixture
def catalog() -> Catalog:
    """It has a topic, and a broker whose file sets a retention."""
    retention = BrokerSetting("log.retention.ms", "777", LONG, "How long.", is_default=False, default="604800000")
    secret = BrokerSetting("ssl.key.password", "open sesame", LONG, "Which.", is_secret=True)
    catalog = Catalog(Settings(broker=(retention, secret, BrokerSetting("group.max.size", "5", LONG, "How many."))))
    catalog.replay(CatalogRecord(TopicKey("t"), TopicValue(b"t" * 16, 1, 1)))
    return catalog


def test_a_topics_value_is_its_own_else_the_brokers_else_the_default(catalog: Catalog) -> None:
    """The broker's: as it was set at run time, for itself or for all, or else in its file."""
    expected = [("log.retention.hours", "168", 5), ("log.retention.ms", "777", 4)]
    for kind, name, key, value, source in (
        (BROKER, "", "log.retention.ms", "888", 3),
        (BROKER, "0", "log.retention.ms", "999", 2),
        (TOPIC, "t", "retention.ms", "5", 1),
    ):
        assert change(catalog, kind, name, key, value) is None
        expected.append((key, value, source))
        entry = describe(catalog, TOPIC, "t", "retention.ms")["retention.ms"]
        assert [(one.name, one.value, one.source) for one in entry.synonyms] == expected[::-1]
        assert (entry.value, entry.config_source, entry.is_default) == (value, source, False)
        assert catalog.settings_of("t").retention_ms == int(value)
    change(catalog, TOPIC, "t", "retention.ms", None)
    assert catalog.settings_of("t").retention_ms == 999


def test_a_change_of_one_topic_is_worked_out_for_that_topic_alone(catalog: Catalog) -> None:
    catalog.replay(CatalogRecord(TopicKey("u"), TopicValue(b"u" * 16, 1, 1)))
    before = catalog.settings_of("u")
    change(catalog, TOPIC, "t", "retention.ms", "5")
    assert catalog.settings_of("u") is before
    change(catalog, BROKER, "", "log.retention.ms", "6")
    assert [catalog.settings_of(name).retention_ms for name in "tu"] == [5, 6]


def test_the_brokers_own_settings_are_described(catalog: Catalog) -> None:
    """Those behind topics' settings as well, whether it has them in its file or not."""
    found = {name: (entry.value, entry.is_default) for name, entry in describe(catalog, BROKER, "0").items()}
    expected = {
        "group.max.size": ("5", True),
        "log.retention.ms": ("777", False),
        "message.max.bytes": ("1048588", True),
    }
    assert expected.items() <= found.items()
    assert {name: entry.value for name, entry in describe(catalog, BROKER, "").items()} == {"min.insync.replicas": "1"}


def test_a_secret_is_not_told(catalog: Catalog) -> None:
    secret = describe(catalog, BROKER, "0")["ssl.key.password"]
    assert (secret.value, secret.is_sensitive) == (None, True)
    assert [(one.name, one.value, one.source) for one in secret.synonyms] == [("ssl.key.password", None, 5)]


def test_most_of_the_broker_cannot_change_while_it_runs(catalog: Catalog) -> None:
    refused = "Cannot update these configs dynamically: [group.max.size]"
    assert change(catalog, BROKER, "0", "group.max.size", "9") == refused
    assert "Not a number" in (change(catalog, BROKER, "0", "log.retention.ms", "x") or "")


WORDS = [[*some] for count in (1, 2) for some in product(("0:1", "0:10", "1:1"), repeat=count)]


@pytest.mark.parametrize("first", WORDS, ids=",".join)
def test_a_list_is_what_was_appended_to_it_and_not_subtracted_since(first: list[str]) -> None:
    name = "leader.replication.throttled.replicas"
    for appends, words in product((True, False), WORDS):
        catalog, expected = Catalog(Settings()), list(dict.fromkeys(first))
        catalog.replay(CatalogRecord(TopicKey("t"), TopicValue(b"t" * 16, 1, 1)))
        for operation, some in ((APPEND, first), (APPEND if appends else SUBTRACT, words)):
            config = IncrementalAlterConfigsRequestAlterableConfig(name, operation, ",".join(some))
            resource = IncrementalAlterConfigsRequestResource(TOPIC, "t", (config,))
            assert not ask(catalog, IncrementalAlterConfigsRequest((resource,))).responses[0].error_code
        if appends:
            expected += dict.fromkeys(word for word in words if word not in expected)
        else:
            expected = [word for word in expected if word not in words]
        assert catalog.configs[TOPIC, "t"][name] == ",".join(expected)


def test_a_list_grows_as_long_as_a_record_can_hold_it_and_is_left_alone_by_a_word_too_many(catalog: Catalog) -> None:
    """Words are shorter than a text may be, which only all of them together are not."""
    name, number = "leader.replication.throttled.replicas", 10_000_000

    def append(words: list[str]) -> Any:
        config = IncrementalAlterConfigsRequestAlterableConfig(name, APPEND, ",".join(words))
        resource = IncrementalAlterConfigsRequestResource(TOPIC, "t", (config,))
        return ask(catalog, IncrementalAlterConfigsRequest((resource,))).responses[0]

    count, rest = divmod(TEXT_BYTES_MAX, 11)  # a word takes 11 bytes with its comma
    words = [f"1:{number + at}" for at in range(count)]
    for some in (words[: count // 2], words[count // 2 :]):
        assert append(some).error_code == ErrorCode.NONE
    kept = ",".join(words)
    last = "2:" + "3" * (rest - 2)
    for word, is_held in ((last + "3", False), ("4:" + "3" * 99, False), (last, True), ("5:5", False)):
        answer = append([word])
        kept += f",{word}" * is_held
        assert answer.error_code == (ErrorCode.NONE if is_held else ErrorCode.INVALID_CONFIG)
        assert is_held or (name in answer.error_message and f"at most {TEXT_BYTES_MAX}" in answer.error_message)
        assert catalog.configs[TOPIC, "t"][name] == kept
        record = CatalogRecord(ConfigKey(TOPIC, "t", name), ConfigValue(kept))
        assert decode(*encode(record)) == record
    assert len(kept) == TEXT_BYTES_MAX


def test_what_is_appended_for_a_broker_is_beside_what_was_set_before(catalog: Catalog) -> None:
    for operation, word, expected in ((SET, "compact", "compact"), (APPEND, "delete", "compact,delete"),
                                      (SUBTRACT, "compact", "delete")):  # fmt: skip
        config = IncrementalAlterConfigsRequestAlterableConfig("log.cleanup.policy", operation, word)
        for name in ("0", ""):
            resource = IncrementalAlterConfigsRequestResource(BROKER, name, (config,))
            assert not ask(catalog, IncrementalAlterConfigsRequest((resource,))).responses[0].error_code
            assert describe(catalog, BROKER, name)["log.cleanup.policy"].value == expected


def test_the_old_way_replaces_all_settings(catalog: Catalog) -> None:
    change(catalog, TOPIC, "t", "max.message.bytes", "10")
    configs = (AlterConfigsRequestAlterableConfig("retention.ms", "2"),)
    request = AlterConfigsRequest((AlterConfigsRequestResource(TOPIC, "t", configs),))
    assert ask(catalog, request).responses[0].error_code == ErrorCode.NONE
    assert catalog.configs == {(TOPIC, "t"): {"retention.ms": "2"}, **FORMATTED}


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


@given(
    st.sampled_from(topic_configs.TOPIC_CONFIGS + group_configs.GROUP_CONFIGS), st.text(" \t", max_size=2), st.data()
)
def test_what_is_written_around_a_value_changes_nothing(config: TopicConfig, around: str, data: st.DataObject) -> None:
    """It is read as if it had been written plainly."""
    text = data.draw(st.sampled_from([config.default, *config.words]))
    loud = text.upper() if config.kind == BOOLEAN else text.rjust(20, "0") if text.isdecimal() else text
    wide = around + loud.replace(",", f"{around},{around}") + around
    assert config.reason_invalid(wide) is None
    assert config.plain(wide) == text


@pytest.mark.parametrize("around", ["", " "])
def test_a_word_counts_whatever_is_written_around_it(catalog: Catalog, around: str) -> None:
    """The time of the broker, and where and what a share group reads."""
    for kind, name, key, value in (
        (TOPIC, "t", "message.timestamp.type", "LogAppendTime"),
        (GROUP, "g", "share.isolation.level", "read_committed"),
        (GROUP, "g", "share.auto.offset.reset", "earliest"),
    ):
        assert change(catalog, kind, name, key, f"{around}{value}{around}") is None
        assert describe(catalog, kind, name, key)[key].value == value
        if kind == TOPIC:
            assert catalog.settings_of("t").is_log_append_time
    limits = group_configs.limits_with(Limits(), catalog.configs[GROUP, "g"], catalog.settings)
    assert limits.share_isolation_level == "read_committed"
