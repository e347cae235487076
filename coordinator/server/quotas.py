"""What clients use of their quotas, and how long they have to wait. Kafka: `ClientQuotaManager`, KIP-13 and KIP-219.

A rate is measured over the last `SAMPLES` seconds. A client above its quota is told in its response how long it takes
until it is back within, and its connection is not read meanwhile.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.decision import Done, Outcome, Parked, Silent
from coordinator.core.principal import Principal
from coordinator.core.quotas.buckets import THROTTLE_MS_MAX
from coordinator.core.quotas.entities import CONSUMER, PRODUCER, REQUESTS, SAMPLES, Entity
from coordinator.core.quotas.rules import QuotaRules
from coordinator.runtime.engine import Engine
from coordinator.server.connection import Connection
from protocol.apis import PRODUCE, keys_with
from protocol.messages.fetch import FetchResponse
from protocol.messages.share_fetch import ShareFetchResponse
from protocol.traits import Trait

SAMPLE_S: Final = 1.0  # quota.window.size.seconds
REQUEST_THROTTLE_MS_MAX: Final = 1_000
RATES_MAX: Final = 100_000  # that are measured at once; the oldest go first
EXEMPT: Final = keys_with(Trait.HANDSHAKE)


class Rate:
    """An amount a second, over the last samples. Kafka: `Rate` of a `SampledStat`."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque()  # when each began, and the amount in it

    def add(self, amount: float, now_s: float) -> None:
        """Count an amount."""
        if not self._samples or now_s - self._samples[-1][0] >= SAMPLE_S:
            self._samples.append([now_s, 0.0])
        self._samples[-1][1] += amount
        while now_s - self._samples[0][0] >= SAMPLES * SAMPLE_S:
            self._samples.popleft()

    def throttle_ms(self, quota: float, now_s: float) -> int:
        """Return how long nothing may be added until the rate is within the quota, an hour at most; 0 if it is.

        A quota may be any number above 0, infinity too.
        """
        while self._samples and now_s - self._samples[0][0] >= SAMPLES * SAMPLE_S:
            self._samples.popleft()
        if not self._samples:
            return 0
        elapsed_s = now_s - self._samples[0][0]
        # A client that has just begun is measured as if it had been there for the whole window but one sample.
        window_s = elapsed_s + max(SAMPLES - 1 - int(elapsed_s / SAMPLE_S), 0) * SAMPLE_S
        total = sum(amount for _, amount in self._samples)
        rate = total / window_s
        return round(min((rate - quota) / quota * window_s * 1000, THROTTLE_MS_MAX)) if rate > quota else 0


class ClientQuotas:
    """The rates of all clients that have a quota."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, Entity], Rate] = {}

    def charge(
        self, rules: QuotaRules, key: str, principal: Principal, client_id: str | None, amount: float, now_s: float
    ) -> int:
        """Count what a client has used. Returns for how many milliseconds it has to wait."""
        found = rules.find(key, principal.name, client_id or "")
        if found is None:
            return 0
        entity, quota = found
        rate = self._rates.get((key, entity))
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                del self._rates[next(iter(self._rates))]
            rate = self._rates[key, entity] = Rate()
        rate.add(amount, now_s)
        return rate.throttle_ms(quota, now_s)

    def charge_request(
        self,
        rules: QuotaRules,
        api_key: int,
        principal: Principal,
        client_id: str | None,
        size: int,
        used_s: float,
        now_s: float,
    ) -> int:
        """Count a request: its time, and the bytes of a Produce. Returns for how long the client has to wait, in ms."""
        if api_key in EXEMPT:
            return 0
        of_time = self.charge(rules, REQUESTS, principal, client_id, used_s * 100, now_s)
        of_bytes = self.charge(rules, PRODUCER, principal, client_id, size, now_s) if api_key == PRODUCE else 0
        return max(min(of_time, REQUEST_THROTTLE_MS_MAX), of_bytes)

    def charge_fetch(
        self, rules: QuotaRules, response: FetchResponse, principal: Principal, client_id: str | None, now_s: float
    ) -> int:
        """Count the records of a Fetch. Above the quota the response is not to be sent, and they are not counted."""
        size = _size_of_records(response)
        found = rules.find(CONSUMER, principal.name, client_id or "")
        if found is None or not size:
            return 0
        throttle_ms = self.charge(rules, CONSUMER, principal, client_id, size, now_s)
        if not throttle_ms:
            return 0
        self._rates[CONSUMER, found[0]].add(-size, now_s)
        return throttle_ms

    def charge_share_fetch(
        self, rules: QuotaRules, response: ShareFetchResponse, principal: Principal, client_id: str | None, now_s: float
    ) -> int:
        """Count the records of a ShareFetch, which stay in it: they are acquired, and would be locked for nothing."""
        size = _size_of_records(response)
        return self.charge(rules, CONSUMER, principal, client_id, size, now_s) if size else 0


def _size_of_records(response: FetchResponse | ShareFetchResponse) -> int:
    return sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)


class ThrottledClients:
    """Charges requests to the quotas of their clients, and keeps those that have to wait.

    Such a client is told so by its response, and its next request is not decided meanwhile.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._quotas = ClientQuotas()
        self._waits_ms: dict[Connection, int] = {}  # of those whose request is parked: for how long they will wait
        self.muted: list[tuple[float, int, Connection]] = []  # a heap: until when, and the connection's number

    def set_engine(self, engine: Engine) -> None:
        """Charge by the rules of this engine from now on."""
        self._engine = engine

    @property
    def next_s(self) -> float | None:
        """When a client that was told to wait goes on, by the real clock; None if none waits."""
        return self.muted[0][0] if self.muted else None

    def charge(
        self, connection: Connection, api_key: int, size: int, used_s: float, outcome: Outcome, now_s: float
    ) -> Outcome:
        """Count a request for the quotas of its client. Its response may tell the client to wait."""
        rules = self._engine.world.ledger.catalog.quotas
        principal, client_id = connection.principal, connection.client_id
        wait_ms = self._quotas.charge_request(rules, api_key, principal, client_id, size, used_s, now_s)
        if isinstance(outcome, Parked):
            self._waits_ms[connection] = wait_ms
            return outcome
        return self._throttle(connection, outcome, wait_ms, now_s)

    def end_wait(self, connection: Connection, outcome: Done | Silent, now_s: float) -> Done | Silent:
        """Return the outcome of a request that was parked; its response may tell the client to wait."""
        return self._throttle(connection, outcome, self._waits_ms.pop(connection, 0), now_s)

    def _throttle(self, connection: Connection, outcome: Done | Silent, wait_ms: int, now_s: float) -> Done | Silent:
        """Tell a client to wait if it is over a quota, and mute it."""
        response = outcome.response if isinstance(outcome, Done) else None
        if response.__class__ is FetchResponse:
            rules, principal = self._engine.world.ledger.catalog.quotas, connection.principal
            of_bytes_ms = self._quotas.charge_fetch(rules, response, principal, connection.client_id, now_s)
            wait_ms = max(wait_ms, of_bytes_ms)
            if of_bytes_ms:  # clients begin no session with an empty response
                response = FetchResponse(session_id=self._engine.world.dataplane.withdraw_session(response))
        elif response.__class__ is ShareFetchResponse:
            rules, principal = self._engine.world.ledger.catalog.quotas, connection.principal
            of_bytes_ms = self._quotas.charge_share_fetch(rules, response, principal, connection.client_id, now_s)
            wait_ms = max(wait_ms, of_bytes_ms)
        wait_ms = min(max(wait_ms, getattr(response, "throttle_time_ms", 0)), THROTTLE_MS_MAX)
        if wait_ms:
            connection.is_muted = True
            heappush(self.muted, (now_s + wait_ms / 1000, connection.number, connection))
        return Done(throttle(response, wait_ms), outcome.group_id) if isinstance(outcome, Done) else outcome

    def unmute(self, now_s: float) -> Iterator[Connection]:
        """Yield the connections that have waited long enough."""
        while self.muted and self.muted[0][0] <= now_s:
            connection = heappop(self.muted)[2]
            connection.is_muted = False  # nothing of it was decided meanwhile, so it waits for nothing else
            yield connection

    def forget(self, connection: Connection) -> None:
        """Forget a client that has left."""
        self._waits_ms.pop(connection, None)
        if connection.is_muted:
            self.muted = [one for one in self.muted if one[2] is not connection]
            heapify(self.muted)


def throttle(response: Any, throttle_ms: int) -> Any:
    """Tell the client to wait, where the response can say so."""
    if throttle_ms and hasattr(response, "throttle_time_ms"):
        return replace(response, throttle_time_ms=throttle_ms)
    return response
