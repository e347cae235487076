"""Which connections are taken: how many of one address, and how fast new ones come. Kafka: `ConnectionQuotas`."""

from coordinator.config import Config, read_overrides
from coordinator.core.addresses import address_of, literal_address
from coordinator.core.quotas.entities import CONNECTIONS
from coordinator.core.quotas.rules import QuotaRules
from coordinator.server.quotas import Rate
from coordinator.setting import INT_MAX

RATES_MAX = 10_000  # of addresses, that are measured at once; the oldest go first


class Admission:
    """The connections that there are, by address, and the rates of new ones."""

    def __init__(self, config: Config) -> None:
        self._per_address_max: int = config["max.connections.per.ip"]
        overrides = read_overrides(config["max.connections.per.ip.overrides"])
        self._own_max = {address_of(host): count for host, count in overrides}
        self._rate_max: int = config["max.connection.creation.rate"]
        self._counts: dict[str, int] = {}
        self._rate = Rate()
        self._rates: dict[str, Rate] = {}

    def must_wait(self, now_s: float) -> bool:
        """Return whether no connection is to be accepted now, because so many have come lately."""
        return self._rate_max < INT_MAX and self._rate.throttle_ms(self._rate_max, now_s) > 0

    def refuse(self, host: str, quotas: QuotaRules, now_s: float) -> str | None:
        """Count a connection that has come. Returns why it is closed, None if it is taken."""
        host = literal_address(host)
        if self._rate_max < INT_MAX:
            self._rate.add(1, now_s)
        if quotas.count and self._count_or_refuse(host, quotas, now_s):
            return CONNECTIONS
        if self._counts.get(host, 0) >= self._own_max.get(host, self._per_address_max):
            return "max.connections.per.ip"
        self._counts[host] = self._counts.get(host, 0) + 1
        return None

    def leave(self, host: str) -> None:
        """Note that a connection that was taken has ended; its host is that of `Connection`, or of the socket."""
        host = literal_address(host)
        left = self._counts[host] - 1
        if left:
            self._counts[host] = left
        else:
            del self._counts[host]

    def _count_or_refuse(self, host: str, quotas: QuotaRules, now_s: float) -> bool:
        """Count a connection for the rate of its address, unless that is too high: return True then."""
        quota = quotas.find_address(CONNECTIONS, host)
        if quota is None:
            return False
        if host not in self._rates and len(self._rates) >= RATES_MAX:
            del self._rates[next(iter(self._rates))]
        rate = self._rates.setdefault(host, Rate())
        if rate.throttle_ms(quota, now_s) > 0:
            return True
        rate.add(1, now_s)
        return False
