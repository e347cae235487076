"""The server's metrics: plain numbers on the way of a request, which Prometheus reads at a scrape.

`Stats` is written by the turn and knows no Prometheus. `exposition(...)` reads it, and the gauges that are counted at
that moment (`Snapshot`), into Prometheus' text by way of prometheus-client, which is imported only then: it costs a
start more than Trio's loop does.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from time import thread_time
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from coordinator.core.events import Cause, Event
from coordinator.core.kinds.kind import DEAD
from coordinator.core.kinds.registry import is_settled
from coordinator.core.share_partitions.tally import DeliveryTally
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from prometheus_client.core import Metric

OTHER: Final = "other"  # the group label of the groups past the bound
GROUPS_MAX: Final = 100  # groups with a label of their own
STEP_SAMPLES: Final = 200  # that one step of a scrape writes: one or two milliseconds
CLOSED_MAX: Final = 100  # partitions that are named because they are closed


LATENCY_SECONDS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 60.0,
)  # fmt: skip


SHORT_TURN_SECONDS: Final = 0.001  # shorter turns are not told apart
LONG_TURN_SECONDS: Final = 0.010
CPU_LOOK_SECONDS: Final = 0.005  # between two looks at the processor time, and the greatest error of a long turn's


class Latency:
    """A histogram: how many took at most each of LATENCY_SECONDS."""

    __slots__ = ("buckets", "longest", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_SECONDS) + 1)
        self.sum = 0.0
        self.longest = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self.buckets[bisect_left(LATENCY_SECONDS, seconds)] += times
        if seconds > self.longest:
            self.longest = seconds
        self.sum += seconds * times


class Stats:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self.latency: dict[int, Latency] = {}  # by API key, from the arrival of a request to its response
        self.waits: dict[int, Latency] = {}  # the same, of requests that were parked
        self.turns = Latency()  # but for the number of short ones
        self.short_turns = 0
        self.long_work: dict[str, Latency] = {}  # processor time of long stretches, by what kept the loop
        self.long_turns = self.long_work["requests"] = Latency()  # of those that took long
        self._cpu_s = 0.0  # of the loop's thread, at the latest look, and when that was
        self._cpu_looked_s = 0.0
        self.errors: Counter[tuple[int, int]] = Counter()  # by API key and error code, NONE left out
        self.rebalances: Counter[tuple[str, str, str]] = Counter()  # by group, protocol and cause
        self.events: Counter[str] = Counter({cause.value: 0 for cause in Cause})  # a series begins at zero
        self.connections_refused = 0  # for bytes that could not be read
        self.connections_closed: Counter[str] = Counter()  # by the server, by reason
        self._named: set[str] = set()

    def count_response(self, api_key: int, seconds: float, times: int = 1) -> None:
        """Count `times` responses of one API, each sent within `seconds` of its request."""
        latency = self.latency.get(api_key)
        if latency is None:
            latency = self.latency[api_key] = Latency()
        latency.observe(seconds, times)

    def count_wait(self, api_key: int, seconds: float) -> None:
        """Count the response to a request that was parked for `seconds`."""
        latency = self.waits.get(api_key)
        if latency is None:
            latency = self.waits[api_key] = Latency()
        latency.observe(seconds)

    def count_turn(self, began_s: float, now_s: float) -> None:
        """Count a turn, and the processor time of a long one, to which a busy machine and a slow disk add nothing.

        That time is read now and then only, because reading it is a system call.
        """
        seconds = now_s - began_s
        if seconds < SHORT_TURN_SECONDS:  # nearly all of them
            self.short_turns += 1
            self.turns.sum += seconds
        else:
            self.turns.observe(seconds)
        if now_s - self._cpu_looked_s > CPU_LOOK_SECONDS:
            used_s = self._look_at_cpu(now_s)
            if seconds >= LONG_TURN_SECONDS:
                self.long_turns.observe(min(seconds, used_s))

    def _look_at_cpu(self, now_s: float) -> float:
        """Return the processor time of the loop's thread since the latest look."""
        before, self._cpu_s, self._cpu_looked_s = self._cpu_s, thread_time(), now_s
        return self._cpu_s - before

    def count_work(self, work: str, began_s: float, now_s: float) -> None:
        """Count the processor time of a long stretch of other work than clients' requests (`server/loop_time`)."""
        latency = self.long_work.get(work)
        if latency is None:
            latency = self.long_work[work] = Latency()
        latency.observe(min(now_s - began_s, self._look_at_cpu(now_s)))

    def all_turns(self) -> Latency:
        """Return the histogram of all turns, the short ones among them."""
        found = Latency()
        found.buckets, found.sum, found.longest = list(self.turns.buckets), self.turns.sum, self.turns.longest
        found.buckets[LATENCY_SECONDS.index(SHORT_TURN_SECONDS)] += self.short_turns
        return found

    def count_closed_connection(self, reason: str) -> None:
        """Count a connection that the server has closed."""
        self.connections_closed[reason] += 1

    def count_error(self, api_key: int, code: int, times: int = 1) -> None:
        """Count `times` error codes in responses."""
        self.errors[api_key, code] += times

    def count_event(self, event: Event) -> None:
        """Count an event, and the rebalance that it begins: the step from a settled state to an unsettled one."""
        self.events[event.cause] += 1
        if not is_settled(event.type, event.after) and is_settled(event.type, event.before):
            self.rebalances[self.label(event.group), event.type, event.cause] += 1
        if event.after == DEAD and event.group in self._named:
            self._named.remove(event.group)
            for series in [one for one in self.rebalances if one[0] == event.group]:
                del self.rebalances[series]

    def forget_groups(self) -> None:
        """Forget all groups: another node has others."""
        self._named.clear()
        self.rebalances.clear()

    def label(self, group_id: str) -> str:
        """Return the group's own name for GROUPS_MAX groups, `other` for more: a label must not grow without bound. A
        group that ends leaves its place to another one."""
        if group_id in self._named:
            return group_id
        if len(self._named) < GROUPS_MAX:
            self._named.add(group_id)
            return group_id
        return OTHER


class GroupOffset(Struct, frozen=True):
    """A committed offset, and how far the end of its partition is."""

    group: str
    topic: str
    partition: int
    offset: int
    lag: int | None  # below 0 if the offset lies beyond the end; None if there is no partition, or its end is not known


class TopicTraffic(Protocol):
    """Records and bytes of a topic since the start."""

    @property
    def records_in(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def records_out(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...


class Snapshot(Struct, frozen=True):
    """The values that are counted at a scrape."""

    groups: Mapping[tuple[str, str], int]  # by (protocol, state)
    members: Mapping[str, int]  # by protocol
    group_members: Mapping[str, int]  # by group
    group_generation: Mapping[str, int]  # by group: generation, or group epoch
    offsets: int
    offset_commits: int  # this and the next two since the start of the process, one a partition
    offset_expirations: int
    offset_deletions: int
    deliveries: DeliveryTally  # of share groups
    records_in_flight: int  # of share groups, in the windows of all share partitions that are served
    partitions: Mapping[str, int]  # of __consumer_offsets, by state: loading, active
    group_offsets: Sequence[GroupOffset]  # bounded by metrics.offsets.max
    traffic: Mapping[str, TopicTraffic]  # by topic
    syncs: Latency  # of the logs, with --fsync
    disk: tuple[int, int]  # bytes of the volume of the logs, and those that are free; -1 where that is unknown
    memory_limit: int  # bytes that the process may take, -1 where that is unknown
    partitions_closed: Collection[tuple[str, int]]  # of topics: their logs are damaged, or the disk has failed them
    log_bytes: Mapping[str, int]  # by topic
    connections: Mapping[str, int]  # by listener
    held_bytes: Mapping[str, int]  # in memory, by what
    log_lines_dropped: int
    recovery_seconds: float
    internal_errors: Mapping[str, int]  # by the kind of input that failed
    started_seconds: float  # since the epoch
    version: str


def exposition(
    stats: Stats, now: Snapshot, api_name: Callable[[int], str], accept: str = ""
) -> Generator[None, None, tuple[bytes, str]]:
    """Return the metrics and their media type, in steps: OpenMetrics if the `Accept` header has it, else Prometheus'
    text."""
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    encode, media_type = choose_encoder(accept)
    process = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=process)
    end = encode(_Registry([]))  # OpenMetrics has one
    text: list[bytes] = []
    for metrics in (_gauges(now), _counters(stats, api_name), _snapshot_counters(now), process.collect()):
        for metric in metrics:
            samples = metric.samples
            for at in range(0, max(len(samples), 1), STEP_SAMPLES):
                metric.samples = samples[at : at + STEP_SAMPLES]
                part = encode(_Registry([metric])).removesuffix(end)
                text += part.splitlines(keepends=True)[2:] if at else (part,)  # help and type are said once
                yield
    return b"".join((*text, end)), media_type


class _Registry(Struct, frozen=True):
    """What prometheus-client writes: some metrics."""

    metrics: list[Any]

    def collect(self) -> list[Any]:
        return self.metrics


def _gauges(now: Snapshot) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily as Gauge
    from prometheus_client.core import InfoMetricFamily as Info

    yield _family(Gauge, "muster_groups", "Groups by protocol and state.", ("protocol", "state"), now.groups)
    yield _family(Gauge, "muster_members", "Members of all groups by protocol.", ("protocol",), now.members)
    yield _family(Gauge, "muster_group_members", "Members of a group.", ("group",), now.group_members)
    yield _family(
        Gauge, "muster_group_generation", "Generation or group epoch of a group.", ("group",), now.group_generation
    )
    yield Gauge("muster_offsets", "Committed offsets that are held.", value=now.offsets)
    yield from _group_offsets(now)
    in_flight = "Records of share groups between the first that is not done and the last that was delivered."
    yield Gauge("muster_share_records_in_flight", in_flight, value=now.records_in_flight)
    yield _family(Gauge, "muster_partitions", "Partitions of __consumer_offsets by state.", ("state",), now.partitions)
    closed = "Partitions of topics that are closed until the next start: their logs are damaged or have failed."
    yield Gauge("muster_topic_partitions_closed", closed, value=len(now.partitions_closed))
    named = {(topic, str(index)): 1 for topic, index in sorted(now.partitions_closed)[:CLOSED_MAX]}
    yield _family(Gauge, "muster_topic_partition_closed", "1 for each of them.", ("topic", "partition"), named)
    yield _family(Gauge, "muster_log_bytes", "Bytes of log on disk by topic.", ("topic",), now.log_bytes)
    yield _family(
        Gauge, "muster_connections", "Clients that are connected, by listener.", ("listener",), now.connections
    )
    held = "Bytes that are held in memory, by what: each has a bound."
    yield _family(Gauge, "muster_held_bytes", held, ("what",), now.held_bytes)
    limits = (
        ("muster_disk_bytes", "Size of the volume that holds the logs.", now.disk[0]),
        ("muster_disk_free_bytes", "What is free on the volume that holds the logs.", now.disk[1]),
        (
            "muster_memory_limit_bytes",
            "What the process may take: of the control group, or the machine.",
            now.memory_limit,
        ),
    )
    for name, sentence, value in limits:
        if value >= 0:  # else it is unknown
            yield Gauge(name, sentence, value=value)
    yield Gauge("muster_recovery_seconds", "How long the start took to read the logs.", value=now.recovery_seconds)
    yield Gauge("muster_start_time_seconds", "When the server started.", value=now.started_seconds)
    yield Info("muster_build", "The server's version.", value={"version": now.version})


def _group_offsets(now: Snapshot) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily as Gauge

    by = ("group", "topic", "partition")
    committed = Gauge("muster_group_committed_offset", "Committed offset.", labels=by)
    says = "Records between the committed offset and the end of the partition; below 0 for an offset beyond the end."
    lag = Gauge("muster_group_lag", says, labels=by)
    for one in now.group_offsets:
        labels = (one.group, one.topic, str(one.partition))
        committed.add_metric(labels, one.offset)
        if one.lag is not None:
            lag.add_metric(labels, one.lag)
    yield committed
    yield lag
    unlisted = "Committed offsets without series of their own: metrics.offsets.max is reached."
    yield Gauge("muster_group_offsets_unlisted", unlisted, value=max(now.offsets - len(now.group_offsets), 0))


def _counters(stats: Stats, api_name: Callable[[int], str]) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily as Count
    from prometheus_client.core import GaugeMetricFamily as Gauge
    from prometheus_client.core import HistogramMetricFamily as Histogram

    requests = Count("muster_requests", "Requests answered, by API.", labels=("api",))
    for api_key in sorted(stats.latency.keys() | stats.waits.keys()):
        counted = (found for found in (stats.latency.get(api_key), stats.waits.get(api_key)) if found)
        requests.add_metric((api_name(api_key),), sum(sum(latency.buckets) for latency in counted))
    yield requests
    at_once = "From a request's arrival to its response, by API, without the requests that were parked."
    yield _histogram("muster_request_seconds", at_once, {api_name(key): one for key, one in stats.latency.items()})
    parked = "From a request's arrival to its response, by API, of the requests that were parked."
    yield _histogram("muster_parked_seconds", parked, {api_name(key): one for key, one in stats.waits.items()})
    for name, sentence, latency in (
        ("muster_turn", "How long a turn of the loop took: the shortest count as 1 ms.", stats.all_turns()),
        ("muster_long_turn_cpu", "Processor time of the turns that took 10 ms or longer.", stats.long_turns),
    ):
        turns = Histogram(f"{name}_seconds", sentence)
        turns.add_metric((), list(_cumulate(latency)), latency.sum)
        yield turns
        yield Gauge(f"{name}_longest_seconds", f"{sentence} The longest since the start.", value=latency.longest)
    kept = "Processor time of each stretch of 10 ms or longer in which the loop did one thing, by what that was."
    yield _histogram("muster_long_work_cpu_seconds", kept, stats.long_work, "work")
    longest = {work: latency.longest for work, latency in stats.long_work.items()}
    kept = "The longest of these stretches since the start, by what that was."
    yield _family(Gauge, "muster_long_work_cpu_longest_seconds", kept, ("work",), longest)
    errors = Count("muster_errors", "Error codes answered, by API and code.", labels=("api", "code"))
    for (api_key, code), times in sorted(stats.errors.items()):
        errors.add_metric((api_name(api_key), _code_name(code)), times)
    yield errors
    by = ("group", "protocol", "cause")
    yield _family(Count, "muster_rebalances", "Rebalances begun, by what began them.", by, stats.rebalances)
    yield _family(Count, "muster_group_events", "What happened to groups, by cause.", ("cause",), stats.events)
    closed = "Connections closed for bytes that could not be read."
    yield Count("muster_connections_refused", closed, value=stats.connections_refused)
    closed = "Connections that the server has closed, by reason."
    yield _family(Count, "muster_connections_closed", closed, ("reason",), stats.connections_closed)


def _snapshot_counters(now: Snapshot) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily as Count
    from prometheus_client.core import HistogramMetricFamily as Histogram

    failed = "Inputs that failed by a mistake of the server's, by kind: an API, a timer, upkeep."
    yield _family(Count, "muster_internal_errors", failed, ("kind",), now.internal_errors)
    for name, sentence, values in (
        ("records_in", "Records produced", {topic: one.records_in for topic, one in now.traffic.items()}),
        ("bytes_in", "Bytes of batches produced", {topic: one.bytes_in for topic, one in now.traffic.items()}),
        ("records_out", "Records fetched", {topic: one.records_out for topic, one in now.traffic.items()}),
        ("bytes_out", "Bytes of batches fetched", {topic: one.bytes_out for topic, one in now.traffic.items()}),
    ):
        yield _family(Count, f"muster_topic_{name}", f"{sentence}, by topic.", ("topic",), values)
    waits = Histogram("muster_sync_seconds", "How long syncs of the logs took.")
    waits.add_metric((), list(_cumulate(now.syncs)), now.syncs.sum)
    yield waits
    yield Count("muster_offset_commits", "Offsets committed, one a partition.", value=now.offset_commits)
    yield Count("muster_offset_expirations", "Offsets that expired.", value=now.offset_expirations)
    yield Count("muster_offset_deletions", "Offsets deleted by request.", value=now.offset_deletions)
    for name, sentence in (
        ("acquired", "Records that members of share groups have acquired."),
        ("redelivered", "Those of them that had been delivered before."),
        ("accepted", "Records that members of share groups have accepted."),
        ("released", "Records that were available again by their member, or with its session."),
        ("expired", "Records whose lock has ended."),
        ("archived", "Records that nobody gets again: rejected, delivered too often, or no records at all."),
    ):
        yield Count(f"muster_share_records_{name}", sentence, value=getattr(now.deliveries, name))
    dropped = "Log lines that were dropped, because standard error did not take them."
    yield Count("muster_log_lines_dropped", dropped, value=now.log_lines_dropped)


def _family(kind: Any, name: str, sentence: str, labels: Sequence[str], values: Mapping[Any, float]) -> "Metric":
    family = kind(name, sentence, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key if isinstance(key, tuple) else (key,), value)
    return family  # type: ignore[no-any-return]  # a Metric by construction


def _histogram(name: str, sentence: str, by_label: Mapping[str, Latency], label: str = "api") -> "Metric":
    from prometheus_client.core import HistogramMetricFamily as Histogram

    family = Histogram(name, sentence, labels=(label,))
    for value, latency in sorted(by_label.items()):
        family.add_metric((value,), list(_cumulate(latency)), latency.sum)
    return family


def _cumulate(latency: Latency) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(str, LATENCY_SECONDS), "+Inf"), latency.buckets, strict=True):
        total += count
        yield bound, total


def _code_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
