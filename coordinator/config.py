"""Each setting once: Kafka's name, default, unit, bounds, and the sentence that the docs print.

What a setting is says `setting`, where its value comes from `config_layers`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from coordinator.core.limits import Limits
from coordinator.setting import INT_MAX, LONG_MAX, NUMBERS, ConfigError, Setting, Value, complain

_MS, _BYTES, _COUNT, _NONE = "ms", "bytes", "", ""
_NO_JKS: Final = "JKS is for Java alone; every client can read PEM"
KAFKAS_ASSIGNORS: Final = "org.apache.kafka.coordinator.group.assignor."  # a setting may name them by their classes
_ASSIGNORS: Final = {f"{KAFKAS_ASSIGNORS}{name.capitalize()}Assignor": name for name in ("uniform", "range")}
FROM_JKS: Final = "`keytool -importkeystore -srckeystore FILE -destkeystore NEW -deststoretype PKCS12` converts JKS"

SETTINGS: Final[tuple[Setting, ...]] = (
    # groups
    Setting("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"), _NONE,
         "The group protocols that members may speak. The classic one cannot be left out; share groups do not depend on it.",
         choices=("classic", "consumer", "share", "streams")),
    # classic groups
    Setting("group.min.session.timeout.ms", 6_000, _MS, "The shortest session timeout that a classic member may request.",
         least=0, most=INT_MAX),
    Setting("group.max.session.timeout.ms", 1_800_000, _MS, "The longest session timeout that a classic member may request.",
         least=0, most=INT_MAX),
    Setting("group.initial.rebalance.delay.ms", 0, _MS, "How long the first join phase of a new group waits for further members.",
         least=0, most=INT_MAX, kafka_default=3_000, why="tests should not wait for members that never come"),
    Setting("group.max.size", INT_MAX, _COUNT, "The maximum number of members of a classic group.", least=1, most=INT_MAX),
    # consumer groups (KIP-848)
    Setting("group.consumer.session.timeout.ms", 45_000, _MS, "The session timeout of members of the consumer protocol.",
         least=1, most=INT_MAX),
    Setting("group.consumer.min.session.timeout.ms", 45_000, _MS, "The shortest session timeout that a group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.consumer.max.session.timeout.ms", 60_000, _MS, "The longest session timeout that a group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.consumer.heartbeat.interval.ms", 5_000, _MS, "The heartbeat interval that members of the consumer protocol are given.",
         least=1, most=INT_MAX),
    Setting("group.consumer.min.heartbeat.interval.ms", 5_000, _MS, "The shortest heartbeat interval that a group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.consumer.max.heartbeat.interval.ms", 15_000, _MS, "The longest heartbeat interval that a group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.consumer.max.size", INT_MAX, _COUNT, "The maximum number of members of a consumer group.", least=1, most=INT_MAX),
    Setting("group.consumer.assignors", ("uniform", "range"), _NONE,
         "The assignors of the broker, by name; the first is the default. Installed ones may be named too."),
    Setting("group.consumer.migration.policy", "bidirectional", _NONE,
         "Which groups may change between the classic and the consumer protocol while they have members.",
         choices=("bidirectional", "upgrade", "downgrade", "disabled")),
    Setting("group.consumer.assignment.interval.ms", 1_000, _MS, "The shortest time between two target assignments of a group.",
         least=0, most=15_000),
    Setting("group.consumer.regex.refresh.interval.ms", 600_000, _MS, "How often the topics of a pattern subscription are looked up again.",
         least=10_000, most=INT_MAX),
    # share groups (KIP-932)
    Setting("group.share.session.timeout.ms", 45_000, _MS, "The session timeout of members of share groups.",
         least=1, most=INT_MAX),
    Setting("group.share.min.session.timeout.ms", 45_000, _MS, "The shortest session timeout that a share group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.share.max.session.timeout.ms", 60_000, _MS, "The longest session timeout that a share group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.share.heartbeat.interval.ms", 5_000, _MS, "The heartbeat interval that members of share groups are given.",
         least=1, most=INT_MAX),
    Setting("group.share.min.heartbeat.interval.ms", 5_000, _MS, "The shortest heartbeat interval that a share group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.share.max.heartbeat.interval.ms", 15_000, _MS, "The longest heartbeat interval that a share group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.share.assignment.interval.ms", 1_000, _MS, "The shortest time between two target assignments of a share group.",
         least=0, most=INT_MAX),
    Setting("group.share.min.assignment.interval.ms", 0, _MS, "The shortest assignment interval that a share group's own setting may have.",
         least=0, most=INT_MAX),
    Setting("group.share.max.assignment.interval.ms", 15_000, _MS, "The longest assignment interval that a share group's own setting may have.",
         least=0, most=INT_MAX),
    Setting("group.share.initialize.retry.interval.ms", 30_000, _MS,
         "How long a share group waits for the state of its partitions to be initialized before it asks again.", least=1, most=INT_MAX),
    Setting("group.share.max.size", 200, _COUNT, "The maximum number of members of a share group.", least=1, most=1_000),
    Setting("group.share.assignors", ("simple",), _NONE, "The assignor of share groups, by name."),
    Setting("group.share.max.share.sessions", 2_000, _COUNT, "The maximum number of share sessions of all members together, with each broker.",
         least=1, most=INT_MAX),
    Setting("group.share.delivery.count.limit", 5, _COUNT, "How often a record is delivered to a share group at most.", least=2, most=10),
    Setting("group.share.min.delivery.count.limit", 2, _COUNT, "The least limit of deliveries that a share group's own setting may have.",
         least=2, most=5),
    Setting("group.share.max.delivery.count.limit", 10, _COUNT, "The greatest limit of deliveries that a share group's own setting may have.",
         least=5, most=25),
    Setting("group.share.record.lock.duration.ms", 30_000, _MS, "How long a record is locked for the member that has acquired it.",
         least=1_000, most=3_600_000),
    Setting("group.share.min.record.lock.duration.ms", 15_000, _MS, "The shortest lock that a share group's own setting may have.",
         least=1_000, most=30_000),
    Setting("group.share.max.record.lock.duration.ms", 60_000, _MS, "The longest lock that a share group's own setting may have.",
         least=30_000, most=3_600_000),
    Setting("group.share.partition.max.record.locks", 2_000, _COUNT, "How many records of a partition may be in flight at once.",
         least=100, most=10_000),
    Setting("group.share.min.partition.max.record.locks", 100, _COUNT, "The least number of records in flight that a share group's own setting may have.",
         least=100, most=2_000),
    Setting("group.share.max.partition.max.record.locks", 4_000, _COUNT,
         "The greatest number of records in flight that a share group's own setting may have.", least=2_000, most=10_000),
    # streams groups (KIP-1071)
    Setting("group.streams.session.timeout.ms", 45_000, _MS, "The session timeout of members of streams groups.",
         least=1, most=INT_MAX),
    Setting("group.streams.min.session.timeout.ms", 45_000, _MS, "The shortest session timeout that a streams group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.streams.max.session.timeout.ms", 60_000, _MS, "The longest session timeout that a streams group's own setting may have.",
         least=1, most=INT_MAX),
    Setting("group.streams.heartbeat.interval.ms", 5_000, _MS, "The heartbeat interval that members of streams groups are given.",
         least=1, most=INT_MAX),
    Setting("group.streams.min.heartbeat.interval.ms", 5_000, _MS,
         "The shortest heartbeat interval that a streams group's own setting may have.", least=1, most=INT_MAX),
    Setting("group.streams.max.heartbeat.interval.ms", 15_000, _MS,
         "The longest heartbeat interval that a streams group's own setting may have.", least=1, most=INT_MAX),
    Setting("group.streams.assignment.interval.ms", 1_000, _MS, "The shortest time between two target assignments of a streams group.",
         least=0, most=INT_MAX),
    Setting("group.streams.min.assignment.interval.ms", 0, _MS,
         "The shortest assignment interval that a streams group's own setting may have.", least=0, most=INT_MAX),
    Setting("group.streams.max.assignment.interval.ms", 15_000, _MS,
         "The longest assignment interval that a streams group's own setting may have.", least=0, most=INT_MAX),
    Setting("group.streams.initial.rebalance.delay.ms", 3_000, _MS,
         "How long a streams group without members waits for further members before it assigns tasks.", least=0, most=INT_MAX),
    Setting("group.streams.max.size", INT_MAX, _COUNT, "The maximum number of members of a streams group.", least=1, most=INT_MAX),
    Setting("group.streams.num.standby.replicas", 0, _COUNT, "How many standby tasks each task with state has.", least=0, most=INT_MAX),
    Setting("group.streams.max.standby.replicas", 2, _COUNT, "The most standby tasks that a streams group's own setting may ask for.",
         least=0, most=INT_MAX),
    # the share coordinator (KIP-932)
    Setting("share.coordinator.state.topic.num.partitions", 50, _COUNT,
         "The number of partitions of __share_group_state. It cannot change once the topic exists.", least=1, most=10_000),
    Setting("share.coordinator.state.topic.segment.bytes", 104_857_600, _BYTES, "The size at which a segment of __share_group_state is rolled.",
         least=1_024, most=INT_MAX),
    Setting("share.coordinator.snapshot.update.records.per.snapshot", 500, _COUNT,
         "How many changes of a share partition's state are written before all of it is written again.", least=0, most=500),
    Setting("share.coordinator.state.topic.prune.interval.ms", 300_000, _MS,
         "How often the records of __share_group_state that are no longer needed are deleted.", least=1, most=INT_MAX),
    Setting("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, _MS,
         "How long a share partition's state may go without a snapshot, so that older records can be deleted.", least=1, most=INT_MAX),
    # offsets
    Setting("offset.metadata.max.bytes", 4_096, _BYTES, "The maximum size of the metadata of a committed offset.", least=0, most=INT_MAX),
    Setting("offsets.retention.minutes", 10_080, "minutes", "How long committed offsets are kept once the group has no members.",
         least=1, most=INT_MAX),
    Setting("offsets.retention.check.interval.ms", 600_000, _MS, "How often the broker looks for expired offsets.", least=1, most=LONG_MAX),
    Setting("offsets.topic.num.partitions", 50, _COUNT, "The number of partitions of __consumer_offsets. It cannot change once a data directory exists.",
         least=1, most=10_000),
    Setting("offsets.topic.segment.bytes", 104_857_600, _BYTES, "The size at which a segment of __consumer_offsets is rolled, in a topic that is made.",
         least=1_024, most=INT_MAX),
    Setting("offsets.topic.min.dirty.bytes", 1_048_576, _BYTES,
         "How much must have been appended to a partition of __consumer_offsets before it is compacted again. A setting of Muster's own.",
         least=1, most=LONG_MAX),
    Setting("offsets.commit.required.acks", -1, _NONE, "Accepted for compatibility, without effect: there is one replica.", least=-1, most=1),
    # topics and their data
    Setting("auto.create.topics.enable", True, _NONE, "Whether a topic is created when a client first uses it."),
    Setting("num.partitions", 1, _COUNT, "The number of partitions of a topic that is created without one.", least=1, most=10_000),
    Setting("message.max.bytes", 1_048_588, _BYTES, "The maximum size of a record batch.", least=0, most=INT_MAX),
    Setting("log.segment.bytes", 1_073_741_824, _BYTES, "The size at which a segment of a topic is rolled.", least=14, most=INT_MAX),
    Setting("log.retention.ms", 604_800_000, _MS, "How long records are kept; -1 for ever.", least=-1, most=LONG_MAX),
    Setting("log.retention.bytes", -1, _BYTES, "The size to which a partition's log is kept; -1 for any size.", least=-1, most=LONG_MAX),
    Setting("log.retention.check.interval.ms", 300_000, _MS, "How often the broker looks for segments to delete.", least=1, most=LONG_MAX),
    Setting("log.message.timestamp.type", "CreateTime", _NONE, "Whether records have the producer's timestamp or the broker's.",
         choices=("CreateTime", "LogAppendTime")),
    Setting("log.cleaner.delete.retention.ms", 86_400_000, _MS, "How long a compacted log keeps tombstones.", least=0, most=LONG_MAX),
    Setting("log.cleaner.min.cleanable.ratio", 0.5, _NONE, "The share of a log that must be dirty before it is compacted.",
         least=0, most=1),
    # transactions
    Setting("transaction.max.timeout.ms", 900_000, _MS, "The longest timeout that a transactional producer may request.",
         least=1, most=INT_MAX),
    Setting("transactional.id.expiration.ms", 604_800_000, _MS, "How long an unused transactional id is kept.",
         least=1, most=INT_MAX),
    Setting("transaction.partition.verification.enable", True, _NONE,
         "Whether a transactional write must belong to an open transaction."),
    # the broker and its listeners
    Setting("node.id", 0, _NONE, "The broker's id.", least=0, most=INT_MAX),
    Setting("broker.id", -1, _NONE, "The older name of node.id; -1 for none.", least=-1, most=INT_MAX),
    Setting("virtual.brokers", 1, _COUNT,
         "How many brokers the server is to its clients: node.id and the ids that follow it, each with listeners and"
         " coordinators of its own. `--brokers` goes before it. A setting of Muster's own.",
         least=1, most=100),
    Setting("listeners", ("PLAINTEXT://127.0.0.1:9092",), _NONE,
         "Where clients connect, as NAME://HOST:PORT; a name without a host is all interfaces. `--listen` goes before it.",
         kafka_default=("PLAINTEXT://:9092",), why="nobody on the network is served unasked"),
    Setting("advertised.listeners", (), _NONE,
         "The address that clients are told who come by a listener, as NAME://HOST:PORT; without one, where it listens."
         " `--advertise` goes before it."),
    Setting("listener.security.protocol.map",
         ("SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"), _NONE,
         "The security protocol of each listener, as NAME:PROTOCOL. A name that is not mapped must be that of a protocol."),
    Setting("controller.listener.names", (), _NONE,
         "Which listeners are a controller's: they are not bound. Without one, CONTROLLER is."),
    # TLS
    Setting("ssl.keystore.type", "PEM", _NONE, "The format of the key store. PKCS12 needs the extra `security`.", choices=("PEM", "PKCS12"),
         kafka_default="JKS", why=_NO_JKS, is_per_listener=True, hint=FROM_JKS),
    Setting("ssl.keystore.location", "", _NONE,
         "A file with the server's private key and its chain of certificates, in PEM its own first.", is_per_listener=True),
    Setting("ssl.keystore.password", "", _NONE, "The password of a key store in PKCS12.", is_per_listener=True, is_secret=True),
    Setting("ssl.keystore.certificate.chain", "", _NONE,
         "The chain of certificates itself, in PEM, with `ssl.keystore.key` instead of a file.", is_per_listener=True, is_secret=True),
    Setting("ssl.keystore.key", "", _NONE, "The private key itself, in PEM.", is_per_listener=True, is_secret=True),
    Setting("ssl.key.password", "", _NONE, "The password of an encrypted private key in PEM.", is_per_listener=True, is_secret=True),
    Setting("ssl.truststore.type", "PEM", _NONE, "The format of the trust store. PKCS12 needs the extra `security`.", choices=("PEM", "PKCS12"),
         kafka_default="JKS", why=_NO_JKS, is_per_listener=True, hint=FROM_JKS),
    Setting("ssl.truststore.location", "", _NONE,
         "A file with the certificates of the authorities that clients' certificates are checked against.",
         is_per_listener=True),
    Setting("ssl.truststore.password", "", _NONE, "The password of a trust store in PKCS12.", is_per_listener=True, is_secret=True),
    Setting("ssl.truststore.certificates", "", _NONE, "These certificates themselves, in PEM, instead of a file.",
         is_per_listener=True, is_secret=True),
    Setting("ssl.client.auth", "none", _NONE,
         "Whether clients must have a certificate, may have one, or are not asked.",
         choices=("none", "requested", "required"), is_per_listener=True),
    Setting("ssl.principal.mapping.rules", "DEFAULT", _NONE,
         "How the name of a principal is made of the name in a client's certificate: RULE:PATTERN/REPLACEMENT/[LU] or DEFAULT,"
         " split by commas; the first that applies counts. Patterns are RE2's.",
         is_per_listener=True),
    Setting("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), _NONE, "The versions of TLS that are spoken: TLSv1.2, TLSv1.3.",
         is_per_listener=True),
    # SASL
    Setting("sasl.enabled.mechanisms", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), _NONE,
         "The SASL mechanisms that clients may choose from: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."
         " `--oauth-dev` adds OAUTHBEARER.",
         kafka_default=("GSSAPI",), why="there is no Kerberos here", is_per_listener=True),
    Setting("sasl.jaas.config", "", _NONE,
         "Users with passwords, as options `user_NAME=\"PASSWORD\"` of a login module, as Kafka has them for PLAIN."
         " `listener.name.NAME.MECHANISM.` may stand before it.",
         is_per_listener=True, is_secret=True),
    Setting("sasl.users.file", "", _NONE,
         "A file with a user and a password in each line, NAME:PASSWORD, for PLAIN and SCRAM. A setting of Muster's own.",
         is_per_listener=True),
    Setting("sasl.server.max.receive.size", 65_536, _BYTES, "The maximum size of a request before the client is authenticated.",
         least=1_024, most=INT_MAX, kafka_default=524_288, why="strangers get no more room than they need", is_per_listener=True),
    Setting("connections.max.reauth.ms", 0, _MS,
         "How long a client stays authenticated before it must authenticate again (KIP-368); 0 is for ever.",
         least=0, most=LONG_MAX, is_per_listener=True),
    Setting("connection.failed.authentication.delay.ms", 100, _MS, "How long the response to a failed authentication is held back.",
         least=0, most=60_000),
    Setting("connections.max.authentication.ms", 30_000, _MS,
         "How long a client may take for the TLS handshake and its authentication. A setting of Muster's own.",
         least=1, most=LONG_MAX),
    Setting("sasl.oauthbearer.jwks.endpoint.url", "", _NONE,
         "Where the keys are (JWKS) that OAUTHBEARER tokens are checked with: file:///PATH.", is_per_listener=True),
    Setting("sasl.oauthbearer.expected.issuer", "", _NONE, "The issuer that a token must name; empty for any.", is_per_listener=True),
    Setting("sasl.oauthbearer.expected.audience", (), _NONE, "The audiences that are accepted: a token must name one of them. If empty, any is.",
         is_per_listener=True),
    Setting("sasl.oauthbearer.clock.skew.seconds", 30, "s", "How far the issuer's clock may differ.", least=0, most=INT_MAX,
         is_per_listener=True),
    Setting("sasl.oauthbearer.sub.claim.name", "sub", _NONE, "The claim of a token that names the user.", is_per_listener=True),
    # authorization
    Setting("authorizer.class.name", "", _NONE,
         "Whether clients need rights. Nothing: everybody may do everything.",
         choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")),
    Setting("super.users", "", _NONE,
         "Principals that may do everything, as TYPE:NAME, split by semicolons: User:admin;User:ops."),
    Setting("allow.everyone.if.no.acl.found", False, _NONE,
         "Whether everybody may use a resource that no ACL is about."),
    # connections
    Setting("socket.request.max.bytes", 8_388_608, _BYTES, "The maximum size of a request.", least=1_024, most=INT_MAX,
         kafka_default=104_857_600, why="100 MB for each connection would let an attacker fill the memory, and tests do not need it"),
    Setting("connections.max.idle.ms", 600_000, _MS, "How long a connection without a request in progress stays open.",
         least=1, most=LONG_MAX),
    Setting("admin.allowed.hosts", (), _NONE,
         "Names by which the admin port may be addressed, besides addresses, localhost and names without a dot; and web"
         " sites whose pages may ask it. A setting of Muster's own."),
    Setting("admin.control", "true", _NONE,
         "Whether the admin port answers the control API, `/v1`: all of it, only what changes nothing, or none of it. A"
         " setting of Muster's own.",
         choices=("true", "read", "false")),
    Setting("metrics.offsets.max", 1_000, _COUNT,
         "How many committed offsets have series of their own in /metrics, with their lag; 0 for none. A setting of"
         " Muster's own.",
         least=0, most=1_000_000),
    Setting("journal.max.bytes", 0, _BYTES,
         "How many bytes of the last requests and responses are kept for the control API; 0 keeps none. A setting of"
         " Muster's own.",
         least=0, most=1 << 30),
    Setting("snapshots.max.bytes", 268_435_456, _BYTES,
         "How much memory the snapshots of the control API may take together. Beyond it, another one is refused. A setting of"
         " Muster's own.",
         least=0, most=LONG_MAX),
    Setting("connections.max.parked.ms", 3_600_000, _MS,
         "How long one request may wait for its response (a JoinGroup for other members, a Fetch for records) before its"
         " connection is closed. A setting of Muster's own.",
         least=1, most=LONG_MAX),
    Setting("queued.max.request.bytes", 67_108_864, _BYTES,
         "How many bytes of unfinished and waiting requests are held for all connections together. Beyond it, the"
         " connection that holds the most is closed.",
         least=1_048_576, most=LONG_MAX, kafka_default=-1, why="clients must not fill the memory; Kafka stops reading from them instead"),
    Setting("queued.max.response.bytes", 67_108_864, _BYTES,
         "How many bytes of responses that clients do not take are held for all connections together. Beyond it, the"
         " connection that holds the most is closed. A setting of Muster's own.",
         least=1_048_576, most=LONG_MAX),
    Setting("events.max.bytes", 8_388_608, _BYTES,
         "How much memory the latest events may take, which `/events` shows: the oldest go first. A setting of Muster's own.",
         least=65_536, most=INT_MAX),
    Setting("group.owners.max.bytes", 8_388_608, _BYTES,
         "How much memory the cache of group ids and their partitions may take. A setting of Muster's own.",
         least=65_536, most=INT_MAX),
    Setting("groups.max.bytes", 134_217_728, _BYTES,
         "How much memory group ids and the groups themselves may take, without members and offsets. Beyond it, a"
         " request that would create a group is refused with GROUP_MAX_SIZE_REACHED. A setting of Muster's own.",
         least=1_024, most=LONG_MAX),
    Setting("group.members.max.bytes", 268_435_456, _BYTES,
         "How much memory the members of all groups may take, with their metadata and assignments, and the states of share"
         " partitions. Beyond it, new members and larger metadata are refused with GROUP_MAX_SIZE_REACHED, and no share"
         " partition gets a state. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("offsets.max.bytes", 1_073_741_824, _BYTES,
         "How much memory committed offsets may take, 256 bytes and their metadata each. Beyond it, commits that add offsets"
         " are refused with INVALID_COMMIT_OFFSET_SIZE. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("producer.ids.max.bytes", 134_217_728, _BYTES,
         "How much memory logs may take to know the last batches of producer ids. Beyond it a log forgets its"
         " oldest ones without an open transaction, as after a day without a batch. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("topics.max.bytes", 268_435_456, _BYTES,
         "How much memory topics and their settings may take. Beyond it, more are refused with POLICY_VIOLATION. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("group.configs.max.bytes", 67_108_864, _BYTES,
         "How much memory the settings of single groups may take, which need not exist. Beyond it, more are refused with"
         " POLICY_VIOLATION. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("transactional.ids.max.bytes", 134_217_728, _BYTES,
         "How much memory transactional ids may take, with the partitions of their transactions. Beyond it, further ids and"
         " partitions are refused with POLICY_VIOLATION. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("credentials.max.bytes", 134_217_728, _BYTES,
         "How much memory SCRAM credentials of users may take. Beyond it, more are refused with POLICY_VIOLATION. A setting of"
         " Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("acls.max.bytes", 67_108_864, _BYTES,
         "How much memory ACLs may take, of which there are 10,000 at most. Beyond it, more are refused with POLICY_VIOLATION."
         " A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("quotas.max.bytes", 134_217_728, _BYTES,
         "How much memory client quotas may take. Beyond it, more are refused with POLICY_VIOLATION. A setting of Muster's own.",
         least=65_536, most=LONG_MAX),
    Setting("max.connections.per.ip", INT_MAX, _COUNT, "The maximum number of connections from one address; further ones are closed.",
         least=0, most=INT_MAX),
    Setting("max.connections.per.ip.overrides", (), _NONE, "Other maximum numbers for single addresses, as ADDRESS:COUNT."),
    Setting("max.connection.creation.rate", INT_MAX, "per second", "How many new connections a second are accepted; further ones wait.",
         least=1, most=INT_MAX),
    Setting("max.connections", INT_MAX, _COUNT, "The maximum number of client connections; further ones are closed.", least=1, most=INT_MAX),
    Setting("fetch.max.bytes", 4_194_304, _BYTES, "The maximum size of the records in one Fetch response.",
         least=1_024, most=INT_MAX, kafka_default=57_671_680, why="a response is read at once, and other clients wait meanwhile"),
    Setting("max.incremental.fetch.session.cache.slots", 1_000, _COUNT, "The maximum number of incremental fetch sessions.",
         least=0, most=INT_MAX),
)  # fmt: skip

BY_NAME: Final[Mapping[str, Setting]] = {setting.name: setting for setting in SETTINGS}
OF_LISTENER: Final = "listener.name."
PER_LISTENER: Final = sorted((one.name for one in SETTINGS if one.is_per_listener), key=len, reverse=True)


class Config:
    """The value of every setting. Read-only once made."""

    def __init__(self, values: Mapping[str, Value] | None = None, sources: Mapping[str, str] | None = None) -> None:
        self._set = dict(values or {})
        self._sources = dict(sources or {})
        _refuse_contradictions(self)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting: an int, a bool, a str or a tuple of str, as its default is."""
        return self._set[name] if name in self._set else BY_NAME[name].default

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Any:
        """Return the value of a setting for a listener, and for a SASL mechanism there: its own, else the one of all.

        The more precise name wins, as in Kafka: `listener.name.LISTENER.MECHANISM.NAME`, `listener.name.LISTENER.NAME`.
        """
        return self[self.name_of_listener(listener, name, mechanism)]

    def name_of_listener(self, listener: str, name: str, mechanism: str = "") -> str:
        """Return the name under which a setting for a listener is set."""
        prefix = f"{OF_LISTENER}{listener.lower()}."
        for own in (f"{prefix}{mechanism.lower()}.{name}", prefix + name) if mechanism else (prefix + name,):
            if own in self._set:
                return own
        return name

    def lookup(self, name: str) -> Value:
        """Return the value in force under a name: of a listener's setting that is not set, that of the wider name."""
        known = behind_listener(name)
        if known is None or name in self._set:
            value: Value = self[name]
            return value
        listener, _, mechanism = name.removeprefix(OF_LISTENER).removesuffix(f".{known}").partition(".")
        inherited: Value = self.of_listener(listener, known, mechanism)
        return inherited

    def is_set(self, name: str) -> bool:
        """Return whether the setting was given, even with its default as the value."""
        return name in self._set

    def given(self) -> dict[str, Value]:
        """Return the settings that were given, with their values, but no secrets."""
        return {name: value for name, value in self._set.items() if not find_setting(name).is_secret}

    @property
    def node_id(self) -> int:
        """The broker's id, by either of its names."""
        older: int = self["broker.id"]
        return older if older >= 0 and not self.is_set("node.id") else self["node.id"]

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all brokers that the server is to its clients: `node.id`, and those that follow it."""
        return tuple(range(self.node_id, self.node_id + self["virtual.brokers"]))

    def override(self, values: Mapping[str, Value]) -> "Config":
        """Return the configuration with other values of some settings."""
        return Config(self._set | dict(values), self._sources)

    def preset(self, values: Mapping[str, Value], source: str) -> "Config":
        """Return the configuration with other defaults of some settings; what is set goes before them."""
        return Config(dict(values) | self._set, dict.fromkeys(values, source) | self._sources)

    def source(self, name: str) -> str:
        """Return where the value of a setting comes from: `--set`, a variable, a file and its line; "" if unknown."""
        return self._sources.get(name, "")

    def complaint(self, name: str, expected: str, value: object = None) -> ConfigError:
        """Return the error about the value of a setting, or about a part of it, with where it comes from."""
        return complain(name, self[name] if value is None else value, self.source(name), expected)

    def items(self) -> Iterator[tuple[Setting, Value]]:
        """Yield each setting with its value, in the order of SETTINGS."""
        return ((setting, self[setting.name]) for setting in SETTINGS)

    def items_of_listeners(self) -> Iterator[tuple[Setting, Value]]:
        """Yield what single listeners have of their own, in the order in which it was given."""
        return ((find_setting(name), value) for name, value in self._set.items() if name not in BY_NAME)


_BOUNDED: Final = tuple(
    (found[1], found[2]) for one in SETTINGS if (found := re.fullmatch(r"group\.(\w+)\.min\.(.+)", one.name))
)
"""KIND and WHAT of settings `group.KIND.WHAT` that lie between `group.KIND.min.WHAT` and `group.KIND.max.WHAT`."""


def _refuse_contradictions(config: Config) -> None:
    """Refuse what Kafka refuses at its start: bounds that cross, a session no longer than the interval (K-030)."""
    for kind, what in _BOUNDED:
        least, value, most = (f"group.{kind}.{bound}{what}" for bound in ("min.", "", "max."))
        if not config[least] <= config[value] <= config[most]:
            raise config.complaint(value, f"a value between {least} ({config[least]}) and {most} ({config[most]})")
    for kind in dict.fromkeys(kind for kind, _ in _BOUNDED):
        session, beat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if config[beat] >= config[session]:
            raise config.complaint(beat, f"less than {session} ({config[session]})")
    if config["group.share.assignors"] not in (("simple",), (f"{KAFKAS_ASSIGNORS}SimpleAssignor",)):
        raise config.complaint("group.share.assignors", "simple")
    if config["group.share.max.share.sessions"] < config["group.share.max.size"]:
        expected = f"at least group.share.max.size ({config['group.share.max.size']})"
        raise config.complaint("group.share.max.share.sessions", expected)
    if "classic" not in config["group.coordinator.rebalance.protocols"]:
        raise config.complaint("group.coordinator.rebalance.protocols", "classic among them")
    if config["group.streams.num.standby.replicas"] > config["group.streams.max.standby.replicas"]:
        expected = f"at most group.streams.max.standby.replicas ({config['group.streams.max.standby.replicas']})"
        raise config.complaint("group.streams.num.standby.replicas", expected)
    if config.node_id + config["virtual.brokers"] - 1 > INT_MAX:
        raise config.complaint("node.id", f"room for {config['virtual.brokers']} brokers", config.node_id)
    try:
        tuple(read_overrides(config["max.connections.per.ip.overrides"]))
    except ValueError as error:
        expected = "ADDRESS:COUNT, as in 127.0.0.1:200"
        raise config.complaint("max.connections.per.ip.overrides", expected, str(error)) from None
    for user in config["super.users"].split(";"):
        if user.strip() and ":" not in user:
            raise config.complaint("super.users", "TYPE:NAME, as in User:admin", user.strip())
    if config.is_set("node.id") and config["broker.id"] not in (-1, config["node.id"]):
        raise config.complaint("broker.id", f"the value of node.id ({config['node.id']})")


def read_overrides(pairs: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Read the ADDRESS:COUNT pairs of `max.connections.per.ip.overrides`. Raises ValueError with one that is none."""
    for pair in pairs:
        host, _, count = map(str.strip, pair.rpartition(":"))
        host = host.strip("[]")
        if not _is_address(host) or not NUMBERS[int].fullmatch(count) or not 0 <= int(count) <= INT_MAX:
            raise ValueError(pair)
        yield host, int(count)


def _is_address(text: str) -> bool:
    import ipaddress  # few servers have a limit for an address

    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def find_setting(name: str, source: str = "") -> Setting:
    """Return the setting of that name. Raises ConfigError with the nearest name."""
    if name in BY_NAME:
        return BY_NAME[name]
    if (known := behind_listener(name)) is not None:
        return replace(BY_NAME[known], name=name)
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(name, BY_NAME, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else "`muster config` lists the settings"
    came_from = f" ({source})" if source else ""
    if is_kafkas(name):
        raise ConfigError(explain_no_effect(name, source))
    raise ConfigError(f"unknown setting {name}{came_from}: {hint}")


def behind_listener(name: str) -> str | None:
    """Return the setting of which a name gives a listener a value of its own, None if it is no such name."""
    if not name.startswith(OF_LISTENER):
        return None
    rest = name.removeprefix(OF_LISTENER)
    return next((known for known in PER_LISTENER if rest.endswith(f".{known}") and len(rest) > len(known) + 1), None)


def is_kafkas(name: str) -> bool:
    """Return whether a broker of Kafka has a setting of this name."""
    from coordinator.kafka_settings import NAMES  # 340 names, which few starts need

    if name.startswith(OF_LISTENER):
        words = name.removeprefix(OF_LISTENER).split(".")
        return any(".".join(words[at:]) in NAMES for at in range(1, len(words)))
    return name in NAMES


def explain_no_effect(name: str, source: str = "") -> str:
    """Return the sentence about a setting of Kafka that is not used here, with what to use instead."""
    from coordinator.kafka_settings import INSTEAD

    came_from = f" ({source})" if source else ""
    reason = f"use {INSTEAD[name]}" if name in INSTEAD else "Muster does not use this setting of Kafka"
    return f"{name}{came_from} has no effect: {reason}"


def assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """Return the names by which members ask for assignors, each once. The setting may have Kafka's by their classes."""
    return tuple(dict.fromkeys(_ASSIGNORS.get(name, name) for name in configured))


def limits(config: Config) -> Limits:
    """Return the bounds and delays that the core decides by: its fields are the settings' names with `_` for `.`."""
    names = {field: field.replace("_", ".") for field in Limits.__struct_fields__}
    values = {field: config[name] for field, name in names.items() if name in BY_NAME}  # the others are of groups alone
    values["group_consumer_assignors"] = assignor_names(config["group.consumer.assignors"])
    return msgspec.convert(values, Limits, strict=False)
