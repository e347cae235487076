"""Settings of groups, as Apache Kafka 4.3.1 was observed to keep and to show them."""

from typing import Any

import pytest

from coordinator.core.catalog import group_configs
from coordinator.core.catalog.catalog import GROUP, Catalog
from coordinator.core.catalog.settings import BrokerSetting, Settings
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.core.decide import decide_all

SESSION, BEAT, ASSIGN = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
SET, DELETE, APPEND = 0, 1, 2


def ask(catalog: Catalog, request: Any, version: int = 1) -> Any:
    call = Call(1, 0, version, "c", "/h", lambda: "id")
    for outcome in decide_all("catalog", catalog, request, call):
        catalog.apply(outcome.records)
    return outcome.response


def alter(
    catalog: Catalog, *changes: tuple[str, str | None, int], group: str = "g", validate_only: bool = False
) -> int:
    configs = tuple(IncrementalAlterConfigsRequestAlterableConfig(name, how, value) for name, value, how in changes)
    resources = (IncrementalAlterConfigsRequestResource(GROUP, group, configs),)
    error: int = ask(catalog, IncrementalAlterConfigsRequest(resources, validate_only)).responses[0].error_code
    return error


def described(catalog: Catalog, group: str = "g") -> dict[str, Any]:
    resources = (DescribeConfigsRequestResource(GROUP, group, None),)
    (result,) = ask(catalog, DescribeConfigsRequest(resources, include_synonyms=True), 4).results
    assert not result.error_code
    return {entry.name: entry for entry in result.configs}


@pytest.mark.rule("K-333 K-334 K-338 K-340")
def test_every_key_is_described_for_any_group() -> None:
    """K-333, K-334, K-338, K-340, T-27: 17 of them, with the broker's values and where they come from."""
    entries = described(Catalog(), "nobody has ever heard of it")
    assert len(entries) == 17 == len(group_configs.GROUP_CONFIGS)
    assert (entries[SESSION].value, entries[SESSION].config_source) == ("45000", 5)
    assert [(s.name, s.value, s.source) for s in entries[SESSION].synonyms] == [(f"group.{SESSION}", "45000", 5)]
    assert not entries[SESSION].read_only and not entries[SESSION].is_sensitive
    filed = Settings(broker=(BrokerSetting(f"group.{BEAT}", "7000", 3, "", is_default=False),))
    assert (described(Catalog(filed))[BEAT].value, described(Catalog(filed))[BEAT].config_source) == ("7000", 4)


@pytest.mark.rule("K-339 K-340 K-330")
def test_what_is_set_is_kept_shown_and_taken_back() -> None:
    """Deleting it brings the broker's value back; a number may have blanks around it."""
    catalog = Catalog()
    assert alter(catalog, (BEAT, " 7000 ", SET)) == ErrorCode.NONE
    entry = described(catalog)[BEAT]
    assert (entry.value, entry.config_source) == ("7000", 8)
    assert [(s.name, s.source) for s in entry.synonyms] == [(BEAT, 8), (f"group.{BEAT}", 5)]
    assert alter(catalog, (BEAT, None, DELETE), ("never.heard.of", None, DELETE)) == ErrorCode.NONE
    assert described(catalog)[BEAT].config_source == 5 and (GROUP, "g") not in catalog.configs


@pytest.mark.rule("K-337")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("no.such.key", "1", SET), ErrorCode.INVALID_CONFIG),
        (("consumer.assignor.offload.enable", "true", SET), ErrorCode.INVALID_CONFIG),
        ((BEAT, "soon", SET), ErrorCode.INVALID_CONFIG),
        ((BEAT, "1000", SET), ErrorCode.INVALID_CONFIG),
        ((BEAT, "15001", SET), ErrorCode.INVALID_CONFIG),
        ((SESSION, "44999", SET), ErrorCode.INVALID_CONFIG),
        ((SESSION, "60001", SET), ErrorCode.INVALID_CONFIG),
        ((ASSIGN, "-1", SET), ErrorCode.INVALID_CONFIG),
        ((ASSIGN, "15001", SET), ErrorCode.INVALID_CONFIG),
        ((BEAT, None, SET), ErrorCode.INVALID_REQUEST),
        ((BEAT, "5000", APPEND), ErrorCode.INVALID_CONFIG),
        ((BEAT, "5000", 9), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=lambda value: str(value),
)
def test_what_is_wrong_is_not_kept(change: tuple[str, str | None, int], error: ErrorCode) -> None:
    catalog = Catalog()
    assert alter(catalog, change) == error
    assert (GROUP, "g") not in catalog.configs


@pytest.mark.rule("K-337")
def test_a_session_must_be_longer_than_the_interval_after_any_change() -> None:
    """With what the broker says where the group does not; also after a DELETE."""
    wide = Settings(
        broker=(
            BrokerSetting("group.consumer.min.session.timeout.ms", "1000", 3, ""),
            BrokerSetting("group.consumer.min.heartbeat.interval.ms", "100", 3, ""),
        )
    )
    catalog = Catalog(wide)
    assert alter(catalog, (SESSION, "5000", SET)) == ErrorCode.INVALID_CONFIG
    assert alter(catalog, (SESSION, "5000", SET), (BEAT, "4000", SET)) == ErrorCode.NONE
    assert alter(catalog, (BEAT, None, DELETE)) == ErrorCode.INVALID_CONFIG
    assert catalog.configs[GROUP, "g"] == {SESSION: "5000", BEAT: "4000"}


@pytest.mark.rule("K-336")
def test_requests_that_are_wrong_as_such() -> None:
    """One key or resource twice."""
    catalog = Catalog()
    assert alter(catalog, (BEAT, "7000", SET), group="") == ErrorCode.INVALID_REQUEST
    assert alter(catalog, (BEAT, "7000", SET), (BEAT, "8000", SET)) == ErrorCode.INVALID_REQUEST
    resources = (DescribeConfigsRequestResource(GROUP, "", None),)
    assert ask(catalog, DescribeConfigsRequest(resources)).results[0].error_code == ErrorCode.INVALID_REQUEST
    assert alter(catalog, (BEAT, "7000", SET), validate_only=True) == ErrorCode.NONE
    assert (GROUP, "g") not in catalog.configs


@pytest.mark.rule("K-341 K-342")
def test_limits_of_a_group_are_its_own_within_the_broker_s_bounds() -> None:
    """Only what is set overrides, and what is out of bounds by now is moved into them."""
    stored = {BEAT: "7000", SESSION: "90000", "share.session.timeout.ms": "50000"}
    own = group_configs.limits_with(Limits(group_consumer_max_size=3), stored, Settings())
    assert own.group_consumer_heartbeat_interval_ms == 7_000
    assert own.group_consumer_session_timeout_ms == 60_000
    assert own.group_consumer_assignment_interval_ms == 1_000 and own.group_consumer_max_size == 3
    assert group_configs.limits_with(own, {}, Settings()) is own


@pytest.mark.rule("K-343")
def test_groups_with_settings_are_listed() -> None:
    """With v1, by type; v0 knows client metrics alone."""
    catalog = Catalog()
    alter(catalog, (BEAT, "7000", SET), group="b")
    alter(catalog, (BEAT, "7000", SET), group="a")
    listed = ask(catalog, ListConfigResourcesRequest((GROUP,)), 1).config_resources
    assert [(one.resource_name, one.resource_type) for one in listed] == [("a", GROUP), ("b", GROUP)]
    assert ("a", GROUP) in {
        (o.resource_name, o.resource_type) for o in ask(catalog, ListConfigResourcesRequest(), 1).config_resources
    }
    assert ask(catalog, ListConfigResourcesRequest(), 0).config_resources == ()
    assert ask(catalog, ListConfigResourcesRequest((99,)), 1).error_code == ErrorCode.UNSUPPORTED_VERSION
