"""Settings of groups, as Apache Kafka 4.3.1 was observed to keep and to show them."""

import pytest

from coordinator.core.catalog import group_configs
from coordinator.core.catalog.catalog import GROUP, Catalog
from coordinator.core.catalog.settings import BrokerSetting, Settings
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from tests.core.decide import decide_all

SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.mark.rule("K-333 K-334 K-338 K-340")
def test_a_setting_of_the_brokers_file_is_each_group_s() -> None:
    filed = Settings(broker=(BrokerSetting(f"group.{BEAT}", "7000", 3, "", is_default=False, default="5000"),))
    resource = DescribeConfigsRequestResource(GROUP, "nobody has ever heard of it", (BEAT,))
    request = DescribeConfigsRequest((resource,), include_synonyms=True)
    (outcome,) = decide_all("catalog", Catalog(filed), request, Call(1, 0, 4, "c", "/h", lambda: "id"))
    (entry,) = outcome.response.results[0].configs
    assert (entry.value, entry.config_source, entry.read_only, entry.is_sensitive) == ("7000", 4, False, False)
    assert [(one.name, one.value, one.source) for one in entry.synonyms] == [
        (f"group.{BEAT}", "7000", 4),
        (f"group.{BEAT}", "5000", 5),
    ], "set in the file, and built in"


@pytest.mark.rule("K-341 K-342")
def test_limits_of_a_group_are_its_own_within_the_broker_s_bounds() -> None:
    """Only what is set overrides, and what is out of bounds by now is moved into them."""
    stored = {BEAT: "7000", SESSION: "90000", "share.session.timeout.ms": "50000"}
    own = group_configs.limits_with(Limits(group_consumer_max_size=3), stored, Settings())
    assert own.group_consumer_heartbeat_interval_ms == 7_000
    assert own.group_consumer_session_timeout_ms == 60_000
    assert own.group_consumer_assignment_interval_ms == 1_000 and own.group_consumer_max_size == 3
    assert group_configs.limits_with(own, {}, Settings()) is own


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_is_longer_than_the_interval_of_its_heartbeats_whoever_has_set_it(kind: str) -> None:
    """Both by the group, or one of them by the broker's file."""
    names = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    bounds = [BrokerSetting(f"group.{kind}.{bound}.{name.partition('.')[2]}", value, 3, "")
              for name in names for bound, value in (("min", "1"), ("max", "100000"))]  # fmt: skip
    for session, heartbeat in ((7_000, 6_999), (7_000, 7_000), (7_000, 7_001)):
        for by_broker in ((), names[:1], names[1:]):
            values = dict(zip(names, (session, heartbeat), strict=True))
            filed = tuple(
                BrokerSetting(f"group.{name}", str(values[name]), 3, "", is_default=False) for name in by_broker
            )
            own = {name: str(value) for name, value in values.items() if name not in by_broker}
            reason = group_configs.reason_invalid(own, Settings(broker=(*bounds, *filed)))
            assert (reason is None) == (session > heartbeat), (by_broker, heartbeat, reason)


def test_limits_of_a_share_group_are_its_own_within_the_broker_s_bounds() -> None:
    stored = {
        "share.record.lock.duration.ms": "1000",
        "share.delivery.count.limit": " 3 ",
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "FALSE",
    }
    own = group_configs.limits_with(Limits(), stored, Settings())
    assert (own.group_share_record_lock_duration_ms, own.group_share_delivery_count_limit) == (15_000, 3)
    assert (own.share_auto_offset_reset, own.share_isolation_level) == ("by_duration:PT1H", "read_committed")
    assert own.share_renew_acknowledge_enable is False


def test_limits_of_a_streams_group_are_its_own_within_the_broker_s_bounds() -> None:
    stored = {
        "streams.session.timeout.ms": "70000",
        "streams.num.standby.replicas": "5",
        "streams.initial.rebalance.delay.ms": "0",
        "streams.assignment.interval.ms": "7",
    }
    own = group_configs.limits_with(Limits(), stored, Settings())
    assert (own.group_streams_session_timeout_ms, own.group_streams_num_standby_replicas) == (60_000, 2)
    assert (own.group_streams_initial_rebalance_delay_ms, own.group_streams_assignment_interval_ms) == (0, 7)
    assert own.group_streams_heartbeat_interval_ms == 5_000


@pytest.mark.parametrize(
    "value", ["none", "Earliest", "by_duration", "by_duration:", "by_duration:1h", "by_duration:-PT1H"]
)
def test_where_a_share_group_begins_is_one_of_three_forms(value: str) -> None:
    reason = group_configs.reason_invalid({"share.auto.offset.reset": value}, Settings())
    assert reason is not None and reason.startswith(
        f"Invalid value {value} for configuration share.auto.offset.reset: "
    )
    assert group_configs.reason_invalid({"share.auto.offset.reset": "by_duration:PT0S"}, Settings()) is None
