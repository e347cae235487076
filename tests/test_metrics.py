"""The metrics that a scrape reads are what was counted: every series with its labels and its value."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import coordinator.core.dispatch  # noqa: F401  # registers the kinds of groups, of which events tell
from coordinator import metrics
from coordinator.core.events import Cause, Event
from coordinator.core.share_partitions.tally import DeliveryTally
from coordinator.metrics import GROUPS_MAX, LATENCY_SECONDS, GroupOffset, Latency, Snapshot, Stats, exposition
from protocol.errors import ErrorCode
from tests.steps import finish

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Traffic(NamedTuple):
    records_in: int
    bytes_in: int
    records_out: int
    bytes_out: int


def read(stats: Stats, now: Snapshot) -> Series:
    """Return all series of the server's own by name and labels."""
    text, media_type = finish(exposition(stats, now, "api-{}".format))
    assert media_type.startswith("text/plain")
    return list_series(text_string_to_metric_families(text.decode()))


def read_counters(stats: Stats) -> Series:
    """Return those that are counted on the way of a request, without the text. To read them changes none."""
    found = list_series(metrics._counters(stats, "api-{}".format))
    assert list_series(metrics._counters(stats, "api-{}".format)) == found
    return found


def list_series(families: Iterable[Any]) -> Series:
    found: Series = {}
    for sample in (one for family in families for one in family.samples):
        key = sample.name, tuple(sorted(sample.labels.items()))
        assert key not in found
        found[key] = sample.value
    return {key: value for key, value in found.items() if key[0].startswith("muster_")}


def histogram(name: str, seconds: list[float], **labels: str) -> Series:
    """Return the series of a histogram that has observed these."""
    own = tuple(sorted(labels.items()))
    found: Series = {(f"{name}_count", own): len(seconds), (f"{name}_sum", own): pytest.approx(sum(seconds))}
    for bound in (*LATENCY_SECONDS, float("inf")):
        says = "+Inf" if bound == float("inf") else str(bound)
        found[f"{name}_bucket", tuple(sorted({**labels, "le": says}.items()))] = sum(one <= bound for one in seconds)
    return found


def snapshot(**fields: Any) -> Snapshot:
    """Return a snapshot whose numbers are all different."""
    number = count(101)

    def draw(*keys: Any) -> dict[Any, int]:
        return {key: next(number) for key in keys}

    syncs = Latency()
    syncs.observe(0.003)
    syncs.observe(7.0)
    facts: dict[str, Any] = {
        "groups": draw(("classic", "Empty"), ("consumer", "Stable")), "members": draw("classic", "consumer"),
        "group_members": draw("g", "h"), "group_generation": draw("g", "h"), "offsets": next(number),
        "offset_commits": next(number), "offset_expirations": next(number), "offset_deletions": next(number),
        "deliveries": DeliveryTally(*(next(number) for _ in range(6))), "records_in_flight": next(number),
        "partitions": draw("loading", "active"),
        "group_offsets": [GroupOffset("g", "t", 3, 7, -2), GroupOffset("g", "u", 0, 8, None), GroupOffset("h", "t", 1, 9, 0)],
        "traffic": {"t": Traffic(*(next(number) for _ in range(4))), "u": Traffic(*(next(number) for _ in range(4)))},
        "syncs": syncs, "disk": (next(number), next(number)), "memory_limit": next(number),
        "partitions_closed": [("u", 1), ("t", 10), ("t", 9)], "log_bytes": draw("t", "u"), "connections": draw("A", "B"),
        "held_bytes": draw("offsets", "members"), "log_lines_dropped": next(number), "recovery_seconds": 1.25,
        "internal_errors": draw("timer"), "started_seconds": 1_700_000_000.5, "version": "1.2.3",
    }  # fmt: skip
    return Snapshot(**facts | fields)


def test_what_is_counted_at_a_scrape_is_in_the_series_of_its_name() -> None:
    now = snapshot()
    by_topic = ("records_in", "bytes_in", "records_out", "bytes_out")
    tally = ("acquired", "redelivered", "accepted", "released", "expired", "archived")
    plain = {
        "muster_offsets": now.offsets, "muster_offset_commits_total": now.offset_commits,
        "muster_offset_expirations_total": now.offset_expirations, "muster_offset_deletions_total": now.offset_deletions,
        "muster_share_records_in_flight": now.records_in_flight, "muster_topic_partitions_closed": 3,
        "muster_disk_bytes": now.disk[0], "muster_disk_free_bytes": now.disk[1],
        "muster_memory_limit_bytes": now.memory_limit, "muster_recovery_seconds": 1.25,
        "muster_start_time_seconds": 1_700_000_000.5, "muster_group_offsets_unlisted": now.offsets - 3,
        "muster_log_lines_dropped_total": now.log_lines_dropped, "muster_connections_refused_total": 0,
        **{f"muster_share_records_{name}_total": getattr(now.deliveries, name) for name in tally},
    }  # fmt: skip
    expected: Series = {(name, ()): value for name, value in plain.items()}
    for name, label, values in (
        ("muster_members", "protocol", now.members),
        ("muster_group_members", "group", now.group_members),
        ("muster_group_generation", "group", now.group_generation),
        ("muster_partitions", "state", now.partitions),
        ("muster_log_bytes", "topic", now.log_bytes),
        ("muster_connections", "listener", now.connections),
        ("muster_held_bytes", "what", now.held_bytes),
        ("muster_internal_errors_total", "kind", now.internal_errors),
        ("muster_build_info", "version", {"1.2.3": 1}),
        *((f"muster_topic_{one}_total", "topic", {t: getattr(now.traffic[t], one) for t in "tu"}) for one in by_topic),
    ):
        expected |= {(name, ((label, key),)): value for key, value in values.items()}
    for (protocol, state), value in now.groups.items():
        expected["muster_groups", (("protocol", protocol), ("state", state))] = value
    for topic, partition in now.partitions_closed:
        expected["muster_topic_partition_closed", (("partition", str(partition)), ("topic", topic))] = 1
    for one in now.group_offsets:
        labels = (("group", one.group), ("partition", str(one.partition)), ("topic", one.topic))
        expected["muster_group_committed_offset", labels] = one.offset
        if one.lag is not None:
            expected["muster_group_lag", labels] = one.lag
    expected |= histogram("muster_sync_seconds", [0.003, 7.0])
    found = read(Stats(), now)
    assert {key: found.pop(key, None) for key in expected} == expected
    others = ("muster_turn", "muster_long_turn", "muster_long_work", "muster_group_events")
    assert not [key for key in found if not key[0].startswith(others)]


def test_what_is_unknown_has_no_series_and_what_is_too_much_is_counted() -> None:
    closed = [("t", number) for number in range(metrics.CLOSED_MAX + 1)]
    now = snapshot(disk=(0, -1), memory_limit=-1, group_offsets=(), offsets=0, partitions_closed=closed)
    found = read(Stats(), now)
    names = Counter(name for name, _ in found)
    assert found["muster_disk_bytes", ()] == 0
    assert not names["muster_disk_free_bytes"] + names["muster_memory_limit_bytes"] + names["muster_group_lag"]
    assert found["muster_group_offsets_unlisted", ()] == 0
    assert found["muster_topic_partitions_closed", ()] == metrics.CLOSED_MAX + 1
    assert names["muster_topic_partition_closed"] == metrics.CLOSED_MAX


SECONDS = st.sampled_from([0.0, 0.00005, 0.0002, 0.001, 0.0011, 0.01, 0.3, 60.0, 61.0])
KEYS = st.integers(0, 3)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(KEYS, SECONDS, st.integers(1, 3)), max_size=8),
    st.lists(st.tuples(KEYS, SECONDS), max_size=8),
    st.lists(st.tuples(KEYS, st.sampled_from([25, 27, 9_999]), st.integers(1, 3)), max_size=8),
    st.lists(st.sampled_from(["idle", "slow"]), max_size=5),
    st.integers(0, 3),
)
def test_responses_and_errors_are_counted_by_api(
    responses: list[tuple[int, float, int]],
    waits: list[tuple[int, float]],
    errors: list[tuple[int, int, int]],
    closed: list[str],
    refused: int,
) -> None:
    stats, at_once, parked = Stats(), defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    for key, seconds, times in responses:
        stats.count_response(key, seconds, times)
        at_once[key] += [seconds] * times
    for key, seconds in waits:
        stats.count_wait(key, seconds)
        parked[key].append(seconds)
    codes = Counter[tuple[int, int]]()
    for key, code, times in errors:
        stats.count_error(key, code, times)
        codes[key, code] += times
    for reason in closed:
        stats.count_closed_connection(reason)
    stats.connections_refused = refused
    expected: Series = {("muster_connections_refused_total", ()): refused}
    for key in at_once.keys() | parked.keys():
        expected["muster_requests_total", (("api", f"api-{key}"),)] = len(at_once[key]) + len(parked[key])
    for name, found in (("muster_request_seconds", at_once), ("muster_parked_seconds", parked)):
        for key, seconds_ in found.items():
            expected |= histogram(name, seconds_, api=f"api-{key}") if seconds_ else {}
    for (key, code), times in codes.items():
        says = "9999" if code == 9_999 else ErrorCode(code).name
        expected["muster_errors_total", (("api", f"api-{key}"), ("code", says))] = times
    for reason, times in Counter(closed).items():
        expected["muster_connections_closed_total", (("reason", reason),)] = times
    found_ = read_counters(stats)
    prefixes = ("muster_request", "muster_parked", "muster_errors", "muster_connections_")
    assert {key: value for key, value in found_.items() if key[0].startswith(prefixes)} == expected


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.0003, 0.0016, 0.0043, 0.013, 0.023, 3.1]), st.booleans(), st.booleans()))
)
def test_turns_are_counted_and_the_processor_time_of_long_ones(turns: list[tuple[float, bool, bool]]) -> None:
    """Of a turn that waits for the disk, or for others on the machine, only the processor's part counts."""
    stats, now_s, cpu_s, long, work = Stats(), 100.0, 0.0, list[float](), list[float]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metrics, "thread_time", lambda: cpu_s)
        for seconds, is_busy, is_work in turns:
            stats.count_turn(now_s, now_s + 0.0006)  # before it, the processor's time is looked at
            now_s += 0.01
            stats.count_turn(now_s - 0.0006, now_s)
            used_s = seconds if is_busy else seconds / 4
            cpu_s += used_s
            if is_work:
                stats.count_work("sweep", now_s, now_s + seconds)
                work.append(used_s)
            else:
                stats.count_turn(now_s, now_s + seconds)
                long += [used_s] if seconds >= 0.01 else []
            now_s += seconds
    short = [0.001 for _ in turns for _ in range(2)]
    counted = [*short, *(max(seconds, 0.001) for seconds, _, is_work in turns if not is_work)]
    found = read_counters(stats)
    name = "muster_turn_seconds"
    for key, value in histogram(name, counted).items():
        assert found[key] == value or key[0] == f"{name}_sum"
    true = sum(seconds for seconds, _, is_work in turns if not is_work) + 2 * 0.0006 * len(turns)
    assert found[f"{name}_sum", ()] == pytest.approx(true)
    told = [seconds for seconds, _, is_work in turns if not is_work and seconds > 0.001]
    assert found["muster_turn_longest_seconds", ()] == pytest.approx(max(told, default=0.0))
    longs = histogram("muster_long_turn_cpu_seconds", long) | histogram(
        "muster_long_work_cpu_seconds", long, work="requests"
    )
    longs |= histogram("muster_long_work_cpu_seconds", work, work="sweep") if work else {}
    assert {key: found[key] for key in longs} == longs
    assert found["muster_long_turn_cpu_longest_seconds", ()] == pytest.approx(max(long, default=0.0))
    key = "muster_long_work_cpu_longest_seconds", (("work", "sweep"),)
    assert found.get(key, 0.0) == pytest.approx(max(work, default=0.0))


def count_rebalances(stats: Stats) -> dict[str, float]:
    """The rebalances of each group that has a series."""
    return {
        dict(labels)["group"]: value
        for (name, labels), value in read_counters(stats).items()
        if name == "muster_rebalances_total"
    }


def test_a_rebalance_is_counted_once_and_groups_beyond_the_bound_together() -> None:
    stats = Stats()

    def tell(group: str, before: str, after: str, cause: Cause = Cause.MEMBER_JOINED) -> None:
        stats.count_event(Event(0, group, cause, before, after, 0, type="classic"))

    for number in range(GROUPS_MAX + 2):
        tell(f"g{number}", "Stable", "PreparingRebalance")
        tell(f"g{number}", "PreparingRebalance", "PreparingRebalance")
        tell(f"g{number}", "PreparingRebalance", "Stable")
    tell("g0", "Empty", "PreparingRebalance")
    found, begun = read_counters(stats), count_rebalances(stats)
    named = {"g0": 2, **{f"g{number}": 1 for number in range(1, GROUPS_MAX)}, "other": 2}
    assert begun == named
    events = {
        dict(labels)["cause"]: value for (name, labels), value in found.items() if name == "muster_group_events_total"
    }
    assert events == {cause.value: 0 for cause in Cause} | {Cause.MEMBER_JOINED.value: 3 * (GROUPS_MAX + 2) + 1}
    tell("g0", "PreparingRebalance", "Dead", Cause.GROUP_FORGOTTEN)  # its place is another one's
    tell(f"g{GROUPS_MAX}", "Stable", "Dead", Cause.GROUP_DELETED)  # it had none
    for _ in range(2):
        tell("new", "Stable", "PreparingRebalance")
        tell("g0", "Empty", "PreparingRebalance")
    del named["g0"]
    assert count_rebalances(stats) == {**named, "new": 2, "other": 4}
    stats.forget_groups()
    tell("g0", "Empty", "PreparingRebalance")
    assert count_rebalances(stats) == {"g0": 1}
