"""The quota `controller_mutation_rate` (KIP-599) for topics that are made for a client though it sends no CreateTopics:
those that it asks Metadata for, and those that its streams group needs. Kafka: `AutoTopicCreationManager`, which sends
a CreateTopics of the newest version in the client's name."""

from collections.abc import Callable

from coordinator.core.quotas.buckets import Buckets
from coordinator.core.quotas.entities import MUTATIONS, Entity
from coordinator.core.quotas.rules import QuotaRules
from coordinator.core.result import Call


def find_quota(quotas: QuotaRules, call: Call) -> tuple[Entity, float] | None:
    """Return whose quota counts for a client, and how many partitions a second it allows; None without one."""
    return quotas.find(MUTATIONS, call.principal.name, call.client_id or "") if quotas.count else None


def take_tokens(quotas: QuotaRules, buckets: Buckets, call: Call, partitions: int, real_ms: Callable[[], int]) -> bool:
    """Take a token for each partition to be created, and return True; take none if the client owes some."""
    found = find_quota(quotas, call)
    if found is None:
        return True
    (entity, rate), now_ms = found, real_ms()
    if buckets.is_empty(entity, rate, now_ms):
        return False
    buckets.take(entity, rate, partitions, now_ms)
    return True
