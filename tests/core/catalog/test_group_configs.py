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


@pytest.mark.rule("K-341 K-342")
def test_limits_of_a_group_are_its_own_within_the_broker_s_bounds() -> None:
    """Only what is set overrides, and what is out of bounds by now is moved into them."""
    stored = {BEAT: "7000", SESSION: "90000", "share.session.timeout.ms": "50000"}
    own = group_configs.limits_with(Limits(group_consumer_max_size=3), stored, Settings())
    assert own.group_consumer_heartbeat_interval_ms == 7_000
    assert own.group_consumer_session_timeout_ms == 60_000
    assert own.group_consumer_assignment_interval_ms == 1_000 and own.group_consumer_max_size == 3
    assert group_configs.limits_with(own, {}, Settings()) is own


@pytest.mark.rule("K-337")
def test_what_is_wrong_is_not_kept() -> None:
    catalog = Catalog()
    for change in (("consumer.assignor.offload.enable", "true", SET), (BEAT, "1000", SET)):
        assert alter(catalog, change) == ErrorCode.INVALID_CONFIG
    assert (GROUP, "g") not in catalog.configs
