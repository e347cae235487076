"""The servers that stories ask for: each a set of broker settings, by Kafka's names, on top of `COMMON`.

A story names its server; few of them are needed, because Kafka takes seconds to start.
"""

from collections.abc import Mapping

Settings = Mapping[str, str]

KAFKA_ONLY = {  # settings of Kafka's that Muster needs not: it looks for late transactions when they are late
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
}

COMMON: Settings = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.session.timeout.ms": "600000",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.min.session.timeout.ms": "500",
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "4",
    "log.retention.ms": "-1",  # stories write records of years ago
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

AUTHORIZER: Settings = {  # the stage is anonymous, and may do everything
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}

MECHANISMS = "sasl.enabled.mechanisms"
SASL: Settings = {MECHANISMS: "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}

STREAMS: Settings = {
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "50",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}

EXPIRY: Settings = {"offsets.retention.check.interval.ms": "15000", "offsets.retention.minutes": "1"}
RANGE: Settings = {
    "group.consumer.assignors": "range,uniform"
}  # without a vote, no matter of ids decides who gets what

SERVERS: Mapping[str, Settings] = {
    "plain": {},
    "delay": {
        "group.initial.rebalance.delay.ms": "1000",
        "group.consumer.assignment.interval.ms": "1500",
        "group.share.assignment.interval.ms": "1500",
    },
    "full": {
        "group.max.size": "2",
        "group.consumer.max.size": "2",
        "group.share.max.size": "2",
        "auto.create.topics.enable": "false",
    },
    "expiry": {"offsets.retention.check.interval.ms": "300", "offsets.retention.minutes": "1"},
    "slow-expiry": EXPIRY,
    "range-expiry": {**RANGE, **EXPIRY},
    "streams-expiry": {**STREAMS, **EXPIRY},
    "streams": STREAMS,
    "streams-delay": {
        **STREAMS,
        "group.streams.initial.rebalance.delay.ms": "1000",
        "group.streams.assignment.interval.ms": "1500",
    },
    "streams-full": {**STREAMS, "group.streams.max.size": "2"},
    "streams-restart": STREAMS,
    "streams-off": {**STREAMS, "group.coordinator.rebalance.protocols": "classic,consumer"},
    "streams-acls": {**STREAMS, **AUTHORIZER},
    "share": {"group.share.min.record.lock.duration.ms": "1000"},
    "share-sessions": {"group.share.max.size": "2", "group.share.max.share.sessions": "2"},
    "share-restart": {},
    "range": RANGE,
    "upgrade": {"group.consumer.migration.policy": "upgrade"},
    "downgrade": {"group.consumer.migration.policy": "downgrade"},
    "disabled": {"group.consumer.migration.policy": "disabled"},
    "wide": {"offset.metadata.max.bytes": "40000", "group.max.session.timeout.ms": "2147483647"},
    "epochs": {},  # tens of thousands of requests, in which no other story shall wait
    "sessions": {"max.incremental.fetch.session.cache.slots": "8"},  # one story, which takes all of them
    "deletion": {},  # one story, which deletes the offsets topic under all others
    "range-restart": RANGE,
    "restart": {},  # stories that restart their broker, one after the other
    "acls": AUTHORIZER,
    "open": {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
    "sasl": SASL,
    "reauth": {**SASL, "connections.max.reauth.ms": "2000"},
}


# Not over TCP: the least retention that Kafka can be told is a minute, and here it takes no time.
# Where there are users, each story has a server of its own, for all ACLs of the cluster are its.
ONLY_IN_PROCESS = {
    *(
        "range-expiry",
        "streams-expiry",
        "expiry",
        "epochs",
        "sessions",
        "deletion",
        "restart",
        "acls",
        "open",
        "sasl",
        "reauth",
    ),
    *("range-restart", "streams-restart", "streams-off", "streams-acls", "share-sessions", "share-restart"),
}
RESTARTING = {"restart", "range-restart", "streams-restart", "share-restart"}  # no two stories at once
USERS = ("alice", "bob")  # of each story on a server with a listener for users


def has_users(settings: Settings) -> bool:
    """Whether a server has a listener for users, beside the one that authenticates nobody."""
    return "authorizer.class.name" in settings or MECHANISMS in settings


def settings(server: str) -> dict[str, str]:
    """All settings of a server."""
    return {**COMMON, **SERVERS[server]}


def pairs(settings: Settings) -> list[str]:
    """The settings that Muster has too, each as NAME=VALUE."""
    return [f"{name}={value}" for name, value in settings.items() if name not in KAFKA_ONLY]
