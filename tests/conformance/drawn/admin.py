"""What administrators ask: topics, partitions, configs, ACLs, quotas and the cluster, with and without the rights."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.conformance.actors import FAR
from tests.conformance.batches import T0, TRANSACTIONAL, batch
from tests.conformance.drawn.play import Learn, Play, versions_of
from tests.conformance.drawn.transactions import is_settled
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
COMMIT, OFFSETS = versions_of("offset_commit", 2, 10), versions_of("offset_fetch", 1, 10)
LIST, DESCRIBE = versions_of("list_groups", 0, 5), versions_of("describe_groups", 0, 6)
DELETE_GROUPS, LIST_OFFSETS = versions_of("delete_groups", 0, 2), versions_of("list_offsets", 1, 11)
WRITE, FETCH = versions_of("produce", 3, 13), versions_of("fetch", 4, 18)
DELETE_RECORDS, EPOCHS = versions_of("delete_records", 0, 2), versions_of("offset_for_leader_epoch", 2, 4)
BEGIN, END = versions_of("init_producer_id", 0, 5), versions_of("end_txn", 0, 5)
ADD, ADD_OFFSETS = versions_of("add_partitions_to_txn", 0, 5), versions_of("add_offsets_to_txn", 0, 4)
COMMIT_IN, LIST_TRANSACTIONS = versions_of("txn_offset_commit", 0, 5), versions_of("list_transactions", 0, 2)
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
LONG = 2**63 - 1
LIMITS: Mapping[int, Mapping[str, Collection[int]]] = {  # numbers at which what is allowed changes
    OF_TOPIC: {
        "compression.gzip.level": (-1, 0, 1, 9),
        "compression.lz4.level": (1, 17),
        "compression.zstd.level": (-131_072, 22),
        "delete.retention.ms": (0, LONG),
        "file.delete.delay.ms": (0, LONG),
        "flush.messages": (1, LONG),
        "flush.ms": (0, LONG),
        "index.interval.bytes": (0, 2**31 - 1),
        "local.retention.bytes": (-2, -1, 0, LONG),
        "local.retention.ms": (-2, -1, 0, LONG),
        "max.compaction.lag.ms": (1, 1_000, LONG),
        "max.message.bytes": (0, 2**31 - 1),
        "message.timestamp.after.max.ms": (0, LONG),
        "message.timestamp.before.max.ms": (0, LONG),
        "min.compaction.lag.ms": (0, 1_000, LONG),
        "min.insync.replicas": (1, 2**31 - 1),
        "retention.bytes": (-1, 0, LONG, -LONG),
        "retention.ms": (-1, 0, LONG),
        "segment.bytes": (1_048_576, 2**31 - 1),
        "segment.index.bytes": (2, 1_000),  # with 4 the log cannot be made
        "segment.jitter.ms": (0, LONG),
        "segment.ms": (1, LONG),
    },
    OF_GROUP: {
        "consumer.assignment.interval.ms": (0, 15_000),
        "consumer.heartbeat.interval.ms": (50, 5_000, 15_000),
        "consumer.session.timeout.ms": (500, 45_000, 60_000),
        "share.assignment.interval.ms": (0, 15_000),
        "share.delivery.count.limit": (2, 10),
        "share.heartbeat.interval.ms": (50, 5_000, 15_000),
        "share.partition.max.record.locks": (100, 4_000),
        "share.record.lock.duration.ms": (15_000, 60_000),
        "share.session.timeout.ms": (500, 45_000, 60_000),
        "streams.assignment.interval.ms": (0, 15_000),
        "streams.heartbeat.interval.ms": (5_000, 15_000),
        "streams.initial.rebalance.delay.ms": (0, 2**31 - 1),
        "streams.num.standby.replicas": (0, 2),
        "streams.session.timeout.ms": (45_000, 60_000),
    },
}
THROTTLES = ("", "*", "0:1", "0:1,1:2", "0:1, 1:2", "0", "0:1,*", ":", "a:b")
WORDS: Mapping[int, Mapping[str, Collection[str]]] = {
    OF_TOPIC: {
        "cleanup.policy": ("compact, delete", "delete,delete", ",", "Compact", " delete ", "compact,", "[compact]"),
        "compression.type": ("uncompressed", "zstd", "ZSTD", " gzip", ""),
        "follower.replication.throttled.replicas": THROTTLES,
        "leader.replication.throttled.replicas": THROTTLES,
        "message.timestamp.type": ("CreateTime", "createtime", " CreateTime ", ""),
        "min.cleanable.dirty.ratio": ("0", "1", "-0.1", "1e-3", "NaN", "0.5d", ".5", "1.", "0x1p-1", "", " 0.5 ", "Infinity"),
        "preallocate": ("True", " false ", "1", "", "tru"),
        "remote.log.copy.disable": ("true", "x"),
        "remote.log.delete.on.disable": ("true", "x"),
        "remote.storage.enable": ("true", "false", "x"),
        "unclean.leader.election.enable": ("true", "FALSE", "x"),
    },
    OF_GROUP: {
        "share.auto.offset.reset": ("Earliest", " latest", "by_duration:PT1H", "by_duration:", "by_duration:-PT1H",
                                    "by_duration:P1D", "by_duration:pt1s", "by_duration: PT1H", "none", ""),
        "share.isolation.level": ("read_committed", "READ_COMMITTED", "read_uncommitted", "serializable", ""),
        "share.renew.acknowledge.enable": ("true", "False", "no"),
    },
}  # fmt: skip
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
        self.producers = {"x": (-1, -1), "a": (-1, -1)}  # ids and epochs by transactional id
        self.epochs: dict[str, int] = {}  # of the members that join, by the kind of their group
        rules = [self.first_rule(kind) for kind in self.some_of((TOPIC, GROUP, TRANSACTIONAL_ID))]
        if rules:
            self.change(self.k.line("admin"), "create_acls", [3], creations=rules)

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
            self.describe_all_configs: 3,
            self.ask_for_groups: 12,
            self.commit: 8,
            self.join: 6,
            self.use_records: 14,
            self.transact: 14,
            self.credentials: 3,
            self.ask_of_the_cluster: 5,
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
        if self.is_so(0.4):
            return [self.edge(kind) for _ in range(self.one_of(1, 1, 2))]
        found = []
        for key, values in self.dice.sample(list(CONFIGS[kind]), self.dice.randint(0, min(most, len(CONFIGS[kind])))):
            found.append((key, self.one_of(*[next(iter(values))] * 3, *values, *[None] * self.is_so(0.2))))
        return found

    def edge(self, kind: int) -> tuple[str, str | None]:
        """A value at, within or beyond a limit, as somebody may write it."""
        if self.is_so(0.3):
            key, values = self.one_of(*WORDS[kind].items())
            return key, self.one_of(*values)
        key, numbers = self.one_of(*LIMITS[kind].items())
        number = self.one_of(*numbers) + self.one_of(-1, 0, 0, 0, 1)
        odd = (
            f" {number} ",
            f"+{number}",
            f"{number}.0",
            f"0{number}",
            f"{number}L",
            "1e3",
            "0x10",
            "",
            "1_000",
            "\t1",
        )
        return key, self.one_of(*[str(number)] * 12, *odd)

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

    def first_rule(self, kind: str) -> dict[str, Any]:
        """An ACL that lets a user do something to all that has a name of this story."""
        operation = self.one_of("ALL", "ALL", *OF_TYPE[kind])
        rule = {**self.rule(), "resource_type": TYPES[kind], "resource_name": self.k.prefix, "permission_type": 3}
        return {**rule, "resource_pattern_type": 4, "operation": OPERATIONS[operation], "host": "*"}

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
            users = [
                {"name": self.k.name(name)} for name in self.some_of("uv", 1)
            ]  # of none all are told, of each story
            self.ask(line, "describe_user_scram_credentials", (0,), users=users)

    # -- groups, records and transactions, with the rights that there are ----------------------------------------------

    def describe_all_configs(self) -> None:
        line = self.asker()
        kind, name = self.resource()
        resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
        flags = {"include_synonyms": self.is_so(0.5), "include_documentation": False}
        self.ask(line, "describe_configs", DESCRIBE_CONFIGS, resources=resources, **flags)

    def group(self) -> str:
        return self.k.name(self.one_of("g", "g", "h", "m", *NAMES))

    def names(self, topic: str) -> dict[str, Any]:
        """Return what each version calls a topic: by its name, or by its id."""
        return {"name": topic, "topic": topic, "topic_id": self.id_of(topic)}

    def ask_for_groups(self) -> None:
        line = self.asker()
        kind = self.one_of("list", "describe", "describe", "consumer", "share", "delete", "offsets", "offsets")
        names = list(dict.fromkeys(self.several(self.group)))
        flag = self.is_so(0.4)
        if kind == "list":
            self.ask(line, "list_groups", LIST, states_filter=self.one_of([], ["Empty"], ["Stable"]), types_filter=[])
        elif kind == "describe":
            self.ask(line, "describe_groups", DESCRIBE, groups=names, include_authorized_operations=flag)
        elif kind in ("consumer", "share"):
            api = f"{kind}_group_describe"
            self.ask(line, api, [1], group_ids=names, include_authorized_operations=flag)
        elif kind == "delete":
            self.change(line, "delete_groups", DELETE_GROUPS, groups_names=names)
        else:
            topics: Any = [{**self.names(self.name()), "partition_indexes": self.some_of((0, 1, 9), 1)}]
            topics = self.one_of(topics, topics, None)
            groups = [{"group_id": name, "topics": topics} for name in names]
            versions = OFFSETS if topics is not None else range(2, 11)
            values = {**groups[0], "groups": groups, "require_stable": self.is_so(0.3)}
            self.ask(line, "offset_fetch", versions, **values)

    def commits(self) -> list[dict[str, Any]]:
        def part(index: int) -> dict[str, Any]:
            return {"partition_index": index, "committed_offset": self.one_of(0, 5), "committed_metadata": ""}

        indexes = self.some_of((0, 1, *[9] * self.is_so(0.1)), 1)
        topics = {self.name(): None for _ in range(self.one_of(1, 1, 2))}
        return [{**self.names(name), "partitions": [part(index) for index in indexes]} for name in topics]

    def commit(self) -> None:
        line = self.asker()
        values = {"group_id": self.group(), "generation_id_or_member_epoch": -1, "member_id": ""}
        if self.is_so(0.7):
            self.ask(line, "offset_commit", COMMIT, **values, retention_time_ms=-1, topics=self.commits())
        else:
            parts = [{"partition_index": index} for index in self.some_of((0, 1), 1)]
            topics = [{"name": self.name(), "partitions": parts}]
            self.ask(line, "offset_delete", [0], group_id=values["group_id"], topics=topics)

    def join(self) -> None:
        """As the one member of a consumer group, or of a share group: what is assigned depends on the rights."""
        line = self.asker()
        kind = self.one_of("consumer", "consumer", "share")
        group = self.k.name({"consumer": "m", "share": "n"}[kind])
        epoch = self.epochs.get(kind, 0)
        if epoch and self.is_so(0.3):
            epoch = self.one_of(-1, 0)
        values: dict[str, Any] = {"group_id": group, "member_id": "member", "member_epoch": epoch}
        if epoch == 0 or self.is_so(0.2):
            values["subscribed_topic_names"] = sorted({self.name("none") for _ in range(self.one_of(1, 2))})
        if kind == "consumer" and epoch == 0:
            values |= {"rebalance_timeout_ms": 60_000, "topic_partitions": []}

        def learn(answer: Answer) -> None:
            if answer.error_code == "NONE":
                self.epochs[kind] = max(answer.member_epoch, 0)
            elif answer.error_code in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"):
                self.epochs[kind] = 0

        self.change(line, f"{kind}_group_heartbeat", [1], learn, **values)

    def use_records(self) -> None:
        line, topic = self.asker(), self.name("none")
        index = self.one_of(0, 0, 0, 1, 9)
        kind = self.one_of("produce", "produce", "fetch", "fetch", "times", "cut", "epochs", "producers")
        named = {**self.names(topic), "partitions": []}
        if kind == "produce":
            data = [{**named, "partition_data": [{"index": index, "records": batch(b"x")}]}]
            self.ask(line, "produce", WRITE, acks=self.one_of(-1, 1), timeout_ms=10_000, topic_data=data)
        elif kind == "fetch":
            named["partitions"] = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
            others = [{**named, **self.names(self.name())}] if self.is_so(0.3) else []
            topics = list({one["name"]: one for one in (named, *others)}.values())
            self.ask(line, "fetch", FETCH, max_wait_ms=0, max_bytes=1 << 20, topics=topics)
        elif kind == "times":
            named["partitions"] = [{"partition_index": index, "timestamp": self.one_of(-1, -2, T0)}]
            self.ask(line, "list_offsets", LIST_OFFSETS, replica_id=-1, topics=[named])
        elif kind == "cut":
            named["partitions"] = [{"partition_index": index, "offset": self.one_of(0, 1)}]
            self.ask(line, "delete_records", DELETE_RECORDS, topics=[named], timeout_ms=10_000)
        elif kind == "epochs":
            named["partitions"] = [{"partition": index, "leader_epoch": 0, "current_leader_epoch": -1}]
            replica_id = self.one_of(-1, -2)
            self.ask(line, "offset_for_leader_epoch", EPOCHS, replica_id=replica_id, topics=[named])
        else:
            topics = [{"name": topic, "partition_indexes": [index]}]
            self.ask(line, "describe_producers", [0], topics=topics)

    def transact(self) -> None:
        """As a producer with a transactional id, or with none."""
        line, short = self.asker(), self.one_of("x", "x", "a")
        me = self.producers[short]
        known: dict[str, Any] = {"transactional_id": self.k.name(short), "producer_id": me[0], "producer_epoch": me[1]}
        kind = self.one_of("add", "add", "offsets", "commit", "end", "end", "write", "describe", "list")
        if me[0] < 0 and kind not in ("describe", "list"):
            kind = "begin"

        def learn(answer: Answer) -> None:
            if answer.error_code == "NONE" and answer.get("producer_id", -1) >= 0:
                self.producers[short] = answer.producer_id, answer.producer_epoch

        if kind == "begin":
            if self.is_so(0.2):
                self.ask(line, "init_producer_id", BEGIN, transactional_id=None, transaction_timeout_ms=60_000)
            else:
                values = {"transactional_id": known["transactional_id"], "transaction_timeout_ms": 600_000}
                self.ask(line, "init_producer_id", BEGIN, learn, **values, producer_id=-1, producer_epoch=-1)
        elif kind == "add":
            topics = [{"name": name, "partitions": [0]} for name in sorted({self.name(), self.name("none")})]
            old = {f"v3_and_below_{name}": value for name, value in {**known, "topics": topics}.items()}
            transactions = [{**known, "topics": topics, "verify_only": self.is_so(0.3)}]
            self.ask(line, "add_partitions_to_txn", ADD, **old, transactions=transactions)
        elif kind == "offsets":
            self.ask(line, "add_offsets_to_txn", ADD_OFFSETS, **known, group_id=self.group())
        elif kind == "commit":
            values = {"generation_id": -1, "member_id": "", "topics": self.commits()}
            self.ask(line, "txn_offset_commit", COMMIT_IN, **known, group_id=self.group(), **values)
        elif kind == "end":
            self.ask(line, "end_txn", END, learn, **known, committed=self.is_so(0.5))
            self.settle()
        elif kind == "write":
            records = batch(b"x", producer_id=me[0], epoch=me[1], sequence=0, attributes=TRANSACTIONAL)
            data = [{**self.names(self.name()), "partition_data": [{"index": 0, "records": records}]}]
            values = {"acks": -1, "timeout_ms": 10_000, "topic_data": data}
            self.ask(line, "produce", WRITE, transactional_id=known["transactional_id"], **values)
        elif kind == "describe":
            ids = self.several(lambda: self.k.name(self.one_of(*self.producers, "none")), 2)
            self.ask(line, "describe_transactions", [0], transactional_ids=list(dict.fromkeys(ids)))
        else:
            filters: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
            self.ask(line, "list_transactions", LIST_TRANSACTIONS, **filters, transactional_id_pattern=None)

    def settle(self) -> None:
        """Wait until no transaction's markers are still to be written."""
        ids = [self.k.name(short) for short in self.producers]
        self.k.line("stage").until("markers", "describe_transactions", 0, is_settled, transactional_ids=ids)

    def credentials(self) -> None:
        """Set a password of a user that is nobody else's, or take it away."""
        line, name = self.asker(), self.k.name(self.one_of("u", "v"))
        mechanism = self.one_of(1, 2, 0, 3)
        deletions, upsertions = [], []
        if self.is_so(0.6):
            iterations = self.one_of(4096, 4096, 100, 20_000)
            salted = {"salt": b"salt", "salted_password": self.one_of(b"x" * 32, b"")}
            upsertions = [{"name": name, "mechanism": mechanism, "iterations": iterations, **salted}]
        if not upsertions or self.is_so(0.1):
            deletions = [{"name": name, "mechanism": mechanism}]
        self.change(line, "alter_user_scram_credentials", [0], deletions=deletions, upsertions=upsertions)

    def ask_of_the_cluster(self) -> None:
        """For what would change nothing if it were allowed."""
        line = self.asker()
        kind = self.one_of("features", "broker", "voter", "voters", "dirs", "markers")
        if kind == "features":
            updates = [{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}]
            values = {"timeout_ms": 5_000, "validate_only": True, "feature_updates": updates}
            self.ask(line, "update_features", range(1, 3), **values)
        elif kind == "broker":
            self.ask(line, "unregister_broker", [0], broker_id=99)
        elif kind == "voter":
            values = {"cluster_id": None, "timeout_ms": 5_000, "voter_id": 9, "voter_directory_id": None}
            self.ask(line, "add_raft_voter", range(2), **values, listeners=[], ack_when_committed=True)
        elif kind == "voters":
            self.ask(line, "remove_raft_voter", [0], cluster_id=None, voter_id=9, voter_directory_id=None)
        elif kind == "dirs":
            topics = [{"name": self.name("none"), "partitions": [0]}]
            dirs = [{"path": "/not/there", "topics": topics}]
            self.ask(line, "alter_replica_log_dirs", range(1, 3), dirs=dirs)
        else:
            producer = {"producer_id": FAR, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
            topics = [{"name": self.name("none"), "partition_indexes": [9]}]
            self.ask(line, "write_txn_markers", range(1, 3), markers=[{**producer, "topics": topics}])
