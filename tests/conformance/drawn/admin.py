"""What administrators ask: topics, partitions, configs, ACLs, quotas and the cluster, with and without the rights."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.conformance.drawn.play import Learn, Play, versions_of
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.rights import CLUSTER, GROUP, OF_TYPE, OPERATIONS, SINGLE, TOPIC, TRANSACTIONAL_ID, TYPES
from tests.conformance.stage import Answer, Line, ready

CREATE, DELETE = versions_of("create_topics", 2, 7), versions_of("delete_topics", 1, 6)
GROW, PAGES = versions_of("create_partitions", 0, 3), versions_of("describe_topic_partitions", 0, 0)
METADATA, FIND = versions_of("metadata", 0, 13), versions_of("find_coordinator", 0, 6)
DESCRIBE_CONFIGS, ALTER = versions_of("describe_configs", 1, 4), versions_of("alter_configs", 0, 2)
INCREMENT, LIST_CONFIGS = versions_of("incremental_alter_configs", 0, 1), versions_of("list_config_resources", 0, 1)
CREATE_ACLS, DELETE_ACLS = versions_of("create_acls", 1, 3), versions_of("delete_acls", 1, 3)
DESCRIBE_ACLS, CLUSTERS = versions_of("describe_acls", 1, 3), versions_of("describe_cluster", 0, 2)
QUOTAS, ALTER_QUOTAS = versions_of("describe_client_quotas", 0, 1), versions_of("alter_client_quotas", 0, 1)
ELECT, LOG_DIRS = versions_of("elect_leaders", 0, 2), versions_of("describe_log_dirs", 1, 5)
NAMES = "abcd"
OF_TOPIC, OF_BROKER, OF_METRICS, OF_GROUP = 2, 4, 16, 32  # of client metrics there are none here (docs/differences.md)
CONFIGS: Mapping[int, Collection[tuple[str, Collection[str | None]]]] = {
    OF_TOPIC: (
        ("retention.ms", ("1000", "-1", "-2", "long", " 7 ", "")),
        ("cleanup.policy", ("compact", "delete", "delete,compact", "burn", "")),
        ("max.message.bytes", ("100", "1048588", "-1")),
        ("compression.type", ("gzip", "rar", "producer")),
        ("min.insync.replicas", ("1", "2", "0")),
        ("segment.bytes", ("2000000", "10")),
        ("message.timestamp.type", ("LogAppendTime", "logappendtime")),
        ("preallocate", ("true", "yes", "TRUE")),
        ("min.cleanable.dirty.ratio", ("0.1", "1.1")),
        ("segment.ms", ("1000", "0")),
        ("segment.jitter.ms", ("5", "-1")),
        ("flush.ms", ("1000", "-1")),
        ("retention.bytes", ("1000", "-1", "x")),
        ("no.such.key", ("1",)),
    ),
    OF_GROUP: (
        ("consumer.session.timeout.ms", ("50000", "1", "soon")),
        ("consumer.heartbeat.interval.ms", ("10000", "50000", "6000")),
        ("streams.num.standby.replicas", ("1", "2", "9")),
        ("share.auto.offset.reset", ("earliest", "latest", "never")),
        ("share.record.lock.duration.ms", ("30000", "1")),
        ("no.such.key", ("1",)),
    ),
}
SHOWN_OF_BROKER = ("group.initial.rebalance.delay.ms", "group.max.size", "offsets.retention.minutes", "no.such.key")


class Admin(Play):
    """Topics, groups, users and their rights; a super user and two who have what they are given."""

    server = "acls"

    def begin(self) -> None:
        self.there: dict[str, int] = {}  # the topics that are there, with their partitions
        for name in self.some_of(NAMES, 1):
            self.there[name] = self.dice.randint(1, 3)
            self.k.topic(name, self.there[name])
        self.ids = sorted(self.there)  # of topics that are or were there

    def moves(self) -> Mapping[Callable[[], None], int]:
        return {
            self.create: 14,
            self.delete: 7,
            self.grow: 7,
            self.metadata: 12,
            self.pages: 6,
            self.describe_configs: 10,
            self.alter: 8,
            self.increment: 14,
            self.list_configs: 3,
            self.create_acls: 16,
            self.describe_acls: 6,
            self.delete_acls: 5,
            self.describe_cluster: 4,
            self.quotas: 4,
            self.alter_quotas: 6,
            self.elect: 4,
            self.log_dirs: 3,
            self.find: 6,
            self.reassign: 4,
        }

    def asker(self) -> Line:
        """The super user, or somebody who may be refused."""
        self.is_super = self.is_so(0.55)
        return self.k.line("admin") if self.is_super else self.k.user(self.one_of("alice", "alice", "bob"))

    def several(self, make: Callable[[], Any], most: int = 3) -> list[Any]:
        """One entry or some. Of several that are not all denied Kafka has another order (docs/differences.md)."""
        return [make() for _ in range(self.one_of(1, 1, 1, 2, most) if self.is_super else 1)]

    def change(self, line: Line, api: str, versions: Collection[int], learn: Learn = id, **values: Any) -> None:
        """Ask for a change, and let all of the broker hear of it."""
        self.ask(line, api, versions, learn, **values)
        self.k.pump.run(self.k.settle_ms)

    def name(self, *more: str) -> str:
        """A topic that is there, most often."""
        return self.k.name(self.one_of(*sorted(self.there) * 4, *NAMES, *more))

    def id_of(self, name: str) -> str:
        return self.k.topic_ids.get(name, UNKNOWN_ID)

    def configs(self, kind: int, most: int = 2) -> list[tuple[str, str | None]]:
        found = []
        for key, values in self.dice.sample(list(CONFIGS[kind]), self.dice.randint(0, min(most, len(CONFIGS[kind])))):
            found.append((key, self.one_of(*[next(iter(values))] * 3, *values, *[None] * self.is_so(0.2))))
        return found

    def create(self) -> None:
        line, version = self.asker(), self.one_of(*CREATE, 7)
        trial = self.is_so(0.2)

        def topic() -> dict[str, Any]:
            bad = self.one_of("", ".", "a/b", "x" * 250, "__consumer_offsets")
            name = bad if self.is_so(0.08) else self.k.name(self.one_of(*NAMES, "a.b", "a_b"))
            count, replicas = self.one_of(1, 2, 3, 3, -1, 0, -2), self.one_of(1, 1, 1, -1, 0, -2)
            assigned: list[dict[str, Any]] = []
            if self.is_so(0.15):
                brokers = self.one_of([0], [0], [9], [], [0, 0])
                numbers = self.one_of([0], [0, 1], [1], [0, 0])
                assigned = [{"partition_index": number, "broker_ids": brokers} for number in numbers]
                if self.is_so(0.8):
                    count, replicas = -1, -1
            configs = [{"name": key, "value": value} for key, value in self.configs(OF_TOPIC)]
            sizes = {"num_partitions": count, "replication_factor": replicas}
            return {"name": name, **sizes, "assignments": assigned, "configs": configs * self.is_so(0.6)}

        topics = self.several(topic)

        def learn(answer: Answer) -> None:
            made = {one.name for one in answer.topics if one.error_code == "NONE" and not trial}
            for one in topics:
                if one["name"] in made:
                    found = self.k.await_topic(one["name"], ready)
                    self.there[one["name"].removeprefix(self.k.prefix)] = len(found.partitions)

        self.change(line, "create_topics", [version], learn, topics=topics, timeout_ms=10_000, validate_only=trial)

    def delete(self) -> None:
        line, version = self.asker(), self.one_of(*DELETE, 6, 6, 6)
        by_id = version >= 6 and self.is_so(0.5)

        def topic() -> dict[str, Any]:
            name = self.name()
            return {"name": None, "topic_id": self.id_of(name)} if by_id else {"name": name}

        topics = self.several(topic)
        names = [one["name"] for one in topics]

        def learn(answer: Answer) -> None:
            for one in answer.responses:
                if one.error_code == "NONE":
                    self.k.await_topic(one.name, lambda topic: topic.error_code == "UNKNOWN_TOPIC_OR_PARTITION")
                    self.there.pop(one.name.removeprefix(self.k.prefix), None)

        values = {"topics": topics, "topic_names": names, "timeout_ms": 10_000}
        self.change(line, "delete_topics", [version], learn, **values)

    def grow(self) -> None:
        line, trial = self.asker(), self.is_so(0.2)

        def topic() -> dict[str, Any]:
            name = self.name()
            count = self.there.get(name.removeprefix(self.k.prefix), 1)
            more = self.one_of(1, 1, 1, 2, 0, -1, -5)
            assigned = None
            if self.is_so(0.2):
                assigned = [{"broker_ids": self.one_of([0], [0], [9], [])} for _ in range(self.one_of(1, 1, 2))]
            return {"name": name, "count": count + more, "assignments": assigned}

        topics = self.several(topic, 2)

        def learn(answer: Answer) -> None:
            done = {one.name for one in answer.results if one.error_code == "NONE" and not trial}
            for one in topics:
                if one["name"] in done:
                    count = one["count"]
                    self.k.await_topic(one["name"], lambda topic, n=count: len(topic.partitions) == n and ready(topic))
                    self.there[one["name"].removeprefix(self.k.prefix)] = count

        self.change(line, "create_partitions", GROW, learn, topics=topics, timeout_ms=10_000, validate_only=trial)

    def metadata(self) -> None:
        line, version = self.asker(), self.one_of(*METADATA, 12, 13)
        flags = {f"include_{what}_authorized_operations": self.is_so(0.3) for what in ("topic", "cluster")}

        def topic() -> dict[str, Any]:
            name = self.name("none")
            # before version 4 it creates what is not there, which Kafka tells later (docs/differences.md)
            if version < 4 and name.removeprefix(self.k.prefix) not in self.there:
                name = self.k.name(sorted(self.there)[0]) if self.there else ""
            if version >= 12 and self.is_so(0.4):
                return {"name": None, "topic_id": self.id_of(name)}
            return {"name": name}

        topics = [one for one in self.several(topic) if one["name"] != ""]
        if len(topics) > 1:  # Kafka tells of those that are there before the others
            shown = {one["name"]: one for one in topics}
            topics = [one for name, one in shown.items() if (name or "").removeprefix(self.k.prefix) in self.there]
        if topics or version > 0:
            self.ask(line, "metadata", [version], topics=topics, allow_auto_topic_creation=False, **flags)

    def pages(self) -> None:
        line = self.asker()
        topics = sorted({self.name("none") for _ in range(self.dice.randint(1, 3) if self.is_super else 1)})
        values: dict[str, Any] = {"topics": [{"name": name} for name in topics]}
        values["response_partition_limit"] = self.one_of(2000, 1, 2, 3)
        if self.is_so(0.4):
            values["cursor"] = {"topic_name": self.one_of(*topics), "partition_index": self.one_of(0, 1, 2)}
        self.ask(line, "describe_topic_partitions", PAGES, **values)

    def resource(self) -> tuple[int, str]:
        kind = self.one_of(*[OF_TOPIC] * 5, *[OF_GROUP] * 3)
        name = self.name("none") if kind == OF_TOPIC else self.k.name(self.one_of("g", "h"))
        return kind, "" if self.is_so(0.04) else name

    def describe_configs(self) -> None:
        line = self.asker()

        def one() -> dict[str, Any]:
            kind, name = self.resource()
            keys: Any = sorted(key for key, _ in self.dice.sample(list(CONFIGS[kind]), 3))
            if self.is_so(0.1):
                kind, name, keys = OF_BROKER, self.one_of("0", "", "9"), self.some_of(SHOWN_OF_BROKER, 1)
            return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}

        # one that is there twice is described once here (docs/differences.md)
        resources = list(
            {(each["resource_type"], each["resource_name"]): each for each in self.several(one, 2)}.values()
        )
        flags = {"include_synonyms": self.is_so(0.4), "include_documentation": self.is_so(0.2)}
        if flags["include_documentation"]:  # by whose text the configs would be sorted
            for each in resources:
                del each["configuration_keys"][1:]
        self.ask(line, "describe_configs", DESCRIBE_CONFIGS, resources=resources, **flags)

    def alter(self) -> None:
        line, trial = self.asker(), self.is_so(0.2)

        def one() -> dict[str, Any]:
            kind, name = self.resource()
            configs = [{"name": key, "value": value} for key, value in self.configs(kind)]
            return {"resource_type": kind, "resource_name": name, "configs": configs}

        # Kafka does not answer where a resource is there twice (docs/differences.md)
        found = {(each["resource_type"], each["resource_name"]): each for each in self.several(one, 2)}
        self.change(line, "alter_configs", ALTER, resources=list(found.values()), validate_only=trial)

    def increment(self) -> None:
        line, trial = self.asker(), self.is_so(0.2)

        def one() -> dict[str, Any]:
            kind, name = self.resource()
            configs = []
            for key, value in self.configs(kind):
                operation = self.one_of(0, 0, 0, 1, 1, 2, 3)
                shown = value if operation != 1 else self.one_of(None, value)
                configs.append({"name": key, "config_operation": operation, "value": shown})
            if configs and self.is_so(0.05):
                configs.append(configs[0])
            return {"resource_type": kind, "resource_name": name, "configs": configs}

        self.change(line, "incremental_alter_configs", INCREMENT, resources=self.several(one, 2), validate_only=trial)

    def list_configs(self) -> None:
        kinds = self.one_of([], [OF_TOPIC], [OF_GROUP, OF_METRICS], [OF_METRICS], [OF_TOPIC, OF_TOPIC], [99])
        self.ask(self.asker(), "list_config_resources", LIST_CONFIGS, resource_types=kinds)

    def rule(self) -> dict[str, Any]:
        """An ACL of one of the users, most often one that does something."""
        kind = self.one_of(TOPIC, TOPIC, TOPIC, GROUP, CLUSTER, CLUSTER, TRANSACTIONAL_ID)
        name = self.k.name(self.one_of(*NAMES, "g", "")) if kind != CLUSTER else SINGLE
        pattern = 4 if kind != CLUSTER and (name == self.k.prefix or self.is_so(0.2)) else 3
        if kind != CLUSTER and self.is_so(0.15):
            name, pattern = "*", 3
        return {
            "resource_type": TYPES[kind],
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": f"User:{self.k.name(self.one_of('alice', 'alice', 'bob'))}",
            "host": self.one_of("*", "*", "*", "127.0.0.1", "127.0.0.9"),
            "operation": OPERATIONS[self.one_of(*OF_TYPE[kind], "ALL", "ALL")],
            "permission_type": self.one_of(3, 3, 3, 3, 2),
        }

    def filter(self) -> dict[str, Any]:
        """A filter that finds no other story's ACLs: it names a user or a resource of this one."""
        kind = self.one_of(1, 1, 2, 3, 4)
        whose = f"User:{self.k.name(self.one_of('alice', 'alice', 'bob', 'carol'))}"
        is_by_user = self.is_so(0.6) or kind in (1, 4)
        return {
            "resource_type_filter": kind,
            "resource_name_filter": None if is_by_user and self.is_so(0.7) else self.k.name(self.one_of(*NAMES, "g")),
            "pattern_type_filter": self.one_of(1, 3, 4, 2) if is_by_user else self.one_of(1, 3),
            "principal_filter": whose if is_by_user else None,
            "host_filter": self.one_of(None, None, "*", "127.0.0.1"),
            "operation": self.one_of(1, 1, 2, 3, 8),
            "permission_type": self.one_of(1, 1, 3, 2),
        }

    def create_acls(self) -> None:
        line = self.asker() if self.is_so(0.3) else self.k.line("admin")
        self.is_super = line.name == "admin"

        def one() -> dict[str, Any]:
            wrong: list[dict[str, Any]] = [
                {"resource_type": 4, "resource_name": "another", "resource_pattern_type": 3},
                {"resource_type": 2, "resource_name": ""},
                {"resource_pattern_type": self.one_of(1, 2)},
                {"operation": 1},
                {"permission_type": 1},
                {"principal": self.one_of("", "nobody", "User:", ":x")},
                {"host": "no host"},
                {"operation": OPERATIONS["IDEMPOTENT_WRITE"], "resource_type": 2},
            ]
            return {**self.rule(), **(self.one_of(*wrong) if self.is_so(0.12) else {})}

        self.change(line, "create_acls", CREATE_ACLS, creations=self.several(one))

    def describe_acls(self) -> None:
        self.ask(self.asker(), "describe_acls", DESCRIBE_ACLS, **self.filter())

    def delete_acls(self) -> None:
        self.change(self.asker(), "delete_acls", DELETE_ACLS, filters=self.several(self.filter, 2))

    def describe_cluster(self) -> None:
        values = {"include_cluster_authorized_operations": self.is_so(0.5), "endpoint_type": self.one_of(1, 1, 1, 2, 7)}
        values["include_fenced_brokers"] = self.is_so(0.3)
        self.ask(self.asker(), "describe_cluster", CLUSTERS, **values)

    def quotas(self) -> None:
        """Filters that name something of this story."""
        kind = self.one_of("user", "client-id")
        name = self.k.name(self.one_of("u", "v"))
        components: list[dict[str, Any]] = [{"entity_type": kind, "match_type": 0, "match": name}]
        other = {"user": "client-id", "client-id": "user"}[kind]
        if self.is_so(0.4):
            match = self.one_of(0, 1, 2)
            components.append({"entity_type": other, "match_type": match, "match": name if match == 0 else None})
        if self.is_so(0.1):
            components.append(self.one_of({**components[0], "entity_type": "group"}, components[0]))
        values = {"components": components, "strict": self.is_so(0.5)}
        self.ask(self.asker(), "describe_client_quotas", QUOTAS, **values)

    def alter_quotas(self) -> None:
        line, trial = self.asker(), self.is_so(0.2)

        def one() -> dict[str, Any]:
            names = [self.k.name(self.one_of("u", "v")), self.k.name(self.one_of("u", "v"))]
            user = {"entity_type": "user", "entity_name": names[0]}
            client = {"entity_type": "client-id", "entity_name": self.one_of(names[1], names[1], None)}
            mine = {"entity_type": "client-id", "entity_name": names[1]}
            entity = self.one_of([user], [user], [mine], [user, client], [client, user])
            if self.is_so(0.08):
                entity = self.one_of(
                    [], [user, user], [{**user, "entity_type": "group"}], [{**user, "entity_name": ""}]
                )
            ops = []
            keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
            for key in self.dice.sample([*keys, *keys[:0], "no_such_key"], self.dice.randint(1, 2)):
                value = self.one_of(1000.0, 1000.0, 2000.0, 0.5, 0.0, -1.0)
                ops.append({"key": key, "value": value, "remove": self.is_so(0.25)})
            return {"entity": entity, "ops": ops}

        self.change(line, "alter_client_quotas", ALTER_QUOTAS, entries=self.several(one, 2), validate_only=trial)

    def elect(self) -> None:
        line, partitions = self.asker(), self.some_of((0, 1, 9), 1)
        asked = [{"topic": self.name("none"), "partitions": sorted(partitions)}]
        self.ask(line, "elect_leaders", ELECT, election_type=self.one_of(0, 0, 1, 2), topic_partitions=asked)

    def log_dirs(self) -> None:
        """The directory and the sizes of what it is on differ: written down is what is told of the topics."""
        line, version = self.asker(), self.one_of(*LOG_DIRS)
        asked = [{"topic": self.name("none"), "partitions": self.some_of((0, 1, 2, 9))}]
        answer = line.quietly("describe_log_dirs", version, topics=asked)
        found = [
            [topic.name.removeprefix(self.k.prefix), one.partition_index, one.partition_size, one.offset_lag]
            for each in answer.results
            for topic in each.topics
            for one in topic.partitions
        ]
        errors = [answer.get("error_code"), *(each.error_code for each in answer.results)]
        self.k.events.append({"log dirs": line.name, "v": version, "errors": errors, "found": sorted(found)})

    def find(self) -> None:
        line, version = self.asker(), self.one_of(*FIND)
        kind = self.one_of(0, 0, 1, 1, 2, 3)
        keys = [self.k.name(self.one_of("g", "h", *NAMES)) for _ in range(self.one_of(1, 2) if self.is_super else 1)]
        self.ask(line, "find_coordinator", [version], key=keys[0], coordinator_keys=keys, key_type=kind)

    def reassign(self) -> None:
        """Replicas of partitions, and credentials, which nobody has."""
        line, name = self.asker(), self.name("none")
        index = self.one_of(0, 1, 9)
        kind = self.one_of("alter", "list", "scram")
        if kind == "alter":
            part = {"partition_index": index, "replicas": self.one_of([0], None, [9], [])}
            topics: list[dict[str, Any]] = [{"name": name, "partitions": [part]}]
            self.change(line, "alter_partition_reassignments", (0, 1), topics=topics, timeout_ms=5_000)
        elif kind == "list":
            topics = self.one_of(None, [{"name": name, "partition_indexes": [index]}])
            self.ask(line, "list_partition_reassignments", (0,), topics=topics, timeout_ms=5_000)
        else:
            users = [{"name": self.k.name("u")}] * self.is_so(0.8)
            self.ask(line, "describe_user_scram_credentials", (0,), users=users)
