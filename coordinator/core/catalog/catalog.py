"""The catalog: topics and their settings, changed settings of the broker, settings of groups, ACLs, quotas.

A machine without I/O: `replay` applies records, new ones or those of the log, so that a catalog read back from its log
is the one that wrote it.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from msgspec import Struct

from coordinator.core.acls.rules import AclRules
from coordinator.core.catalog import topic_configs
from coordinator.core.catalog.metric_names import MetricNames
from coordinator.core.catalog.records import (
    AclKey,
    AclValue,
    CatalogRecord,
    ConfigKey,
    ConfigValue,
    LogKey,
    LogValue,
    QuotaKey,
    QuotaValue,
    ScramKey,
    ScramValue,
    TopicKey,
    TopicValue,
)
from coordinator.core.catalog.settings import Settings, TopicSettings
from coordinator.core.decision import Steps
from coordinator.core.pace import empty_in_steps
from coordinator.core.prices import Held, Kind
from coordinator.core.quotas.entities import entity_of
from coordinator.core.quotas.rules import QuotaRules
from coordinator.core.topics import Topic, Topics

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32  # Kafka's numbers of resource types
RESOURCE_TYPES: Final = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)

Resource = tuple[int, str]

GONE_MAX: Final = 1_000  # ids of deleted topics that are kept though nothing is known of them any more

# What Kafka 4 sets when it formats a cluster (KIP-966): tools see it as set, not as a default. Nobody can remove it.
FORMATTED: Final[Mapping[Resource, Mapping[str, str]]] = {(BROKER, ""): {"min.insync.replicas": "1"}}


class Change(Struct, frozen=True):
    """A topic that came, grew or went; `before` or `after` is None where it did not exist."""

    name: str
    before: TopicValue | None
    after: TopicValue | None

    @property
    def is_end(self) -> bool:
        """Whether a topic is no more; another of its name may be there."""
        return self.before is not None and (self.after is None or self.after.id != self.before.id)


class Catalog:
    """All topics and settings. Changed by `replay` alone."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.held = Held({Kind(kind): bound for kind, bound in self.settings.held_max.items()})
        self.topics_by_name: dict[str, TopicValue] = {}
        self.configs: dict[Resource, dict[str, str]] = {resource: {**FORMATTED[resource]} for resource in FORMATTED}
        self.scram: dict[tuple[str, int], ScramValue] = {}  # credentials by user and Kafka's number of the mechanism
        self.acls = AclRules()
        self.quotas = QuotaRules()
        self.logs: dict[str, dict[int, bytes]] = {}  # by topic: its partitions with a log, and its id at the time
        self.partitions = 0  # of all topics together
        self.gone: dict[str, set[bytes]] = {}
        """The ids of topics that are no more, by name: of those that the log still tells of, and of later ones.

        A coordinator that loads its log forgets what it finds there of them."""
        self.unremoved: set[str] = set()  # of them those whose logs could not be taken from the disk
        self._metric_names = MetricNames()
        self._version = 0
        self._created_version = 0  # of the latest new topic
        self._deleted_version = 0  # of the latest deletion
        self._changed: dict[str, int] = {}  # topic -> the version since which it is what it is
        self._topics: Topics | None = None
        self._governing: dict[str, TopicSettings] = {}
        self._broker = {setting.name: setting.value for setting in self.settings.broker if not setting.is_default}

    @property
    def broker(self) -> str:
        """The name under which the settings of this broker are kept; several in one process share them."""
        return str(self.settings.broker_ids[0])

    @property
    def deleted_topics(self) -> set[str]:
        """The names of deleted topics that the log still mentions."""
        return self.gone.keys() - self.topics_by_name.keys()

    @property
    def topics(self) -> Topics:
        """Return the topics that exist, as a value; the same object until something changes."""
        if self._topics is None:
            topics = (Topic(name, value.id, value.partitions) for name, value in self.topics_by_name.items())
            self._topics = Topics(
                topics,
                self._version,
                self._created_version,
                changed=self._changed,
                deleted_version=self._deleted_version,
            )
        return self._topics

    def replay(self, record: CatalogRecord) -> Change | None:
        """Apply one fact, new or from the log. Says what became of a topic, if of any."""
        self.held.note(record)
        match record.key, record.value:
            case TopicKey(name), (TopicValue() | None) as fact:
                return self._place(name, fact)
            case ConfigKey() as key, (ConfigValue() | None) as config:
                self._set(key, config)
            case ScramKey(user, mechanism), ScramValue() as credential:
                self.scram[user, mechanism] = credential
            case ScramKey(user, mechanism), None:
                self.scram.pop((user, mechanism), None)
            case AclKey() as acl, AclValue():
                self.acls.add(acl)
            case AclKey() as acl, None:
                self.acls.remove(acl)
            case QuotaKey(parts, name), (QuotaValue() | None) as quota:
                self.quotas.put(entity_of(parts), name, None if quota is None else quota.value)
            case LogKey(topic, partition), LogValue(topic_id):
                self.logs.setdefault(topic, {})[partition] = topic_id
            case LogKey(topic, partition), None:
                noted = self.logs.get(topic, {})
                noted.pop(partition, None)
                if not noted:
                    self.logs.pop(topic, None)
        return None

    def apply(self, records: Iterable[CatalogRecord]) -> tuple[Change, ...]:
        """Replay these; the changes of topics among them."""
        return tuple([change for record in records if (change := self.replay(record)) is not None])

    def forget_gone(self) -> None:
        """Forget which topics are no more, if they are many: no coordinator knows anything of them."""
        if sum(1 + len(ids) for ids in self.gone.values()) > GONE_MAX:
            self.gone.clear()

    def forget(self) -> Steps[None]:
        """Forget all topics with their settings in steps: they are long to free. The catalog is of no use then."""
        self._topics = None
        yield from empty_in_steps(
            self.topics_by_name, self.configs, self.logs, self.scram, self._changed, self._governing
        )
        yield from self._metric_names.forget()

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has, 0 if there is no such topic."""
        fact = self.topics_by_name.get(topic)
        return 0 if fact is None else fact.partitions

    def missing_logs(self, stored: Container[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the partitions that were written to, and whose logs are not among those that are stored."""
        noted = [(topic, partition) for topic in self.topics_by_name for partition in self.logs.get(topic, ())]
        return sorted(one for one in noted if one not in stored and self.has_log(*one))

    def has_log(self, topic: str, partition: int) -> bool:
        """Return whether anything was ever written to a partition of a topic that exists."""
        noted = self.logs.get(topic, {}).get(partition)
        return noted is not None and noted == self.topics_by_name[topic].id

    def logs_of(self, partitions: Iterable[tuple[str, int]]) -> tuple[CatalogRecord, ...]:
        """Return the facts that these partitions of topics that exist have a log, as far as they are new."""
        return tuple(
            [
                CatalogRecord(LogKey(topic, partition), LogValue(self.topics_by_name[topic].id))
                for topic, partition in partitions
                if not self.has_log(topic, partition)
            ]
        )

    def find_collision(self, name: str) -> str | None:
        """Return a topic whose metrics could not be told from those of a topic called `name`, if there is one."""
        return self._metric_names.find(name)

    def setting(self, topic: str, name: str) -> str:
        """Return the value that governs a topic: its own, else the broker's, else the default."""
        return self.value_and_source(topic, name)[0]

    def value_and_source(self, topic: str, name: str) -> tuple[str, int]:
        """Return a topic's value and its source, by KIP-226's numbers: 1 topic, 2 and 3 broker, 4 file, 5 default."""
        known = topic_configs.BY_NAME[name]
        own = self.configs.get((TOPIC, topic), {}).get(name)
        return (known.plain(own), 1) if own is not None else self.inherited_value(known)

    def inherited_value(self, known: topic_configs.TopicConfig) -> tuple[str, int]:
        """Return the value, with its source, for topics that have none of their own."""
        if known.broker is not None:
            for broker, source in ((self.broker, 2), ("", 3)):
                if (value := self.configs.get((BROKER, broker), {}).get(known.broker)) is not None:
                    return known.plain(value), source
            if (value := self._broker.get(known.broker)) is not None:
                return known.plain(value), 4
        return known.default, 5

    def settings_of(self, topic: str) -> TopicSettings:
        """Return the settings that govern a topic's records; cached until a setting changes."""
        found = self._governing.get(topic)
        if found is None:
            found = self._governing[topic] = self._resolve(topic)
        return found

    def _resolve(self, topic: str) -> TopicSettings:
        def whole(name: str) -> int:
            return int(self.setting(topic, name))

        policies = self.setting(topic, "cleanup.policy").split(",")
        return TopicSettings(
            max_message_bytes=whole("max.message.bytes"),
            is_log_append_time=self.setting(topic, "message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=whole("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=whole("message.timestamp.after.max.ms"),
            retention_ms=whole("retention.ms"),
            retention_bytes=whole("retention.bytes"),
            segment_bytes=whole("segment.bytes"),
            segment_ms=whole("segment.ms"),
            is_compacted="compact" in policies,
            is_deleted="delete" in policies,
            delete_retention_ms=whole("delete.retention.ms"),
            min_cleanable_dirty_ratio=topic_configs.parse_double(self.setting(topic, "min.cleanable.dirty.ratio")),
        )

    def _place(self, name: str, fact: TopicValue | None) -> Change:
        before = self.topics_by_name.pop(name, None)
        if before is not None:
            self.partitions -= before.partitions
            if fact is None or fact.id != before.id:
                self.gone.setdefault(name, set()).add(before.id)
        if fact is None:
            self.gone.setdefault(name, set())
            self._metric_names.remove(name)
        else:
            self.topics_by_name[name] = fact
            self.partitions += fact.partitions
            self._metric_names.add(name)
        self._version += 1
        if fact is None:
            self._deleted_version = self._version
            self._changed.pop(name, None)
        else:
            self._changed[name] = self._version
            if before is None or before.id != fact.id:
                self._created_version = self._version
        self._topics = None
        self._governing.pop(name, None)
        return Change(name, before, fact)

    def _set(self, key: ConfigKey, config: ConfigValue | None) -> None:
        resource = (key.resource_type, key.resource_name)
        if config is not None:
            self.configs.setdefault(resource, {})[key.name] = config.value
        elif resource in self.configs:
            self.configs[resource].pop(key.name, None)
            if not self.configs[resource]:
                del self.configs[resource]
        if key.resource_type == TOPIC:
            self._governing.pop(key.resource_name, None)
        elif key.resource_type == BROKER:
            self._governing.clear()
