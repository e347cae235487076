"""Who plays in the stories: a member of a classic group, a member of a consumer group, a producer."""

from typing import Any

from kio.schema.consumer_protocol_assignment.v1.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription as SubscriptionV0
from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription as SubscriptionV1
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription as SubscriptionV3

from tests.conformance import wire
from tests.conformance.requests import part
from tests.conformance.stage import Answer, Pending, Stage

Owned = dict[str, list[int]]
FAR = 10**12  # added to a producer id, it is nobody's


def subscription(
    *topics: str, owned: Owned | None = None, rack: str | None = None, user_data: bytes | None = None, version: int = 1
) -> bytes:
    """The bytes that a consumer sends as its metadata."""
    values: dict[str, Any] = {"topics": topics, "user_data": user_data}
    if version >= 1:
        values["owned_partitions"] = [{"topic": topic, "partitions": parts} for topic, parts in (owned or {}).items()]
    if version >= 3:
        values |= {"generation_id": -1, "rack_id": rack}
    return wire.embedded({0: SubscriptionV0, 1: SubscriptionV1, 3: SubscriptionV3}[version], values)


def assignment(owned: Owned, user_data: bytes | None = None) -> bytes:
    """The bytes that a leader hands out."""
    parts = [{"topic": topic, "partitions": parts} for topic, parts in owned.items()]
    return wire.embedded(ConsumerProtocolAssignment, {"assigned_partitions": parts, "user_data": user_data})


class Member:
    """A member of a classic group, on a connection of its own name."""

    def __init__(
        self,
        k: Stage,
        name: str,
        group: str | None = None,
        *,
        instance: str | None = None,
        version: int = 9,
        **join: Any,
    ) -> None:
        self.k, self.name, self.instance, self.version = k, name, instance, version
        self.group = k.name("g") if group is None else group
        self.line = k.line(name)
        self.member_id, self.generation = "", -1
        self.joining: dict[str, Any] = {
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(k.name("t"))}],
            **join,
        }

    def ask(self, api: str, version: int, **values: Any) -> Pending:
        """Ask as this member; identity is filled in where the version has a place for it and the story gives none."""
        return self.line.send(api, version, **wire.fitting(api, version, {**self.identity(), **values}))

    def identity(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "generation_id": self.generation,
            "group_instance_id": self.instance,
        }

    def ask_join(self, version: int | None = None, **changes: Any) -> Pending:
        """Send a JoinGroup; `changes` last for the later ones too, but for the identity."""
        self.joining |= {name: value for name, value in changes.items() if name in self.joining}
        return self.ask("join_group", version or self.version, **{**self.joining, **changes})

    def learn(self, answer: Answer) -> Answer:
        """Keep the member id and generation that came with an answer to a JoinGroup."""
        if answer.error_code in ("NONE", "MEMBER_ID_REQUIRED"):
            self.member_id = answer.member_id
            self.generation = answer.generation_id
        return answer

    def joined(self, pending: Pending, within_ms: float = 15_000) -> Answer:
        return self.learn(pending.answer(within_ms))

    def join(self, version: int | None = None, **changes: Any) -> Answer:
        """Join and wait, going through MEMBER_ID_REQUIRED if it comes to that."""
        answer = self.joined(self.ask_join(version, **changes))
        return self.joined(self.ask_join(version)) if answer.error_code == "MEMBER_ID_REQUIRED" else answer

    def rejoin(self, *waiting: tuple["Member", Pending]) -> None:
        """Join again, and let the members learn of it whose JoinGroups have waited for that."""
        for one, pending in [(self, self.ask_join()), *waiting]:
            one.joined(pending)

    def join_and_sync(self, share: bytes | None = None, **changes: Any) -> Answer:
        """Join, wait, and sync; as the leader of itself alone with its share."""
        self.join(**changes)
        return self.sync(None if share is None else {self.member_id: share})

    def introduce(self) -> None:
        """Get a member id by MEMBER_ID_REQUIRED, and no more."""
        self.joined(self.ask_join())

    def ask_sync(self, shares: dict[str, bytes] | None = None, version: int = 5, **changes: Any) -> Pending:
        """Send a SyncGroup, as the leader does with the shares of the members by their ids."""
        given = [{"member_id": member, "assignment": share} for member, share in (shares or {}).items()]
        names = {"protocol_type": self.joining["protocol_type"], "protocol_name": self.joining["protocols"][0]["name"]}
        return self.ask("sync_group", version, **{**names, "assignments": given, **changes})

    def sync(self, shares: dict[str, bytes] | None = None, version: int = 5, **changes: Any) -> Answer:
        return self.ask_sync(shares, version, **changes).answer()

    def beat(self, version: int = 4, **changes: Any) -> Answer:
        return self.ask("heartbeat", version, **changes).answer()

    def beat_until(self, error: str, within_ms: float = 10_000) -> Answer:
        """Beat until the answer is this error; only that one is written down."""
        return self.line.eventually(
            "heartbeat", 4, lambda answer: bool(answer.error_code == error), within_ms=within_ms, **self.identity()
        )

    def leave(self, reason: str | None = None) -> Answer:
        leaver = {"member_id": self.member_id, "group_instance_id": self.instance, "reason": reason}
        return self.ask("leave_group", 5, members=[leaver]).answer()

    def commit(self, topic: str, offset: int = 1, partition: int = 0, version: int = 9, **changes: Any) -> Answer:
        part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        values = {"generation_id_or_member_epoch": self.generation, "topics": [{"name": topic, "partitions": [part]}]}
        return self.ask("offset_commit", version, **{**values, **changes}).answer()


def members(k: Stage, names: str, **join: Any) -> tuple[Member, ...]:
    """A member for each letter of `names`. They have not joined yet."""
    return tuple(Member(k, name, **join) for name in names)


def static_pair(k: Stage, **join: Any) -> tuple[Member, Member]:
    """Two static members `a` and `b`, who have not joined yet. Their instance ids are `one` and `two`."""
    return Member(k, "a", instance="one", **join), Member(k, "b", instance="two", **join)


class Modern:
    """A member of a consumer group (KIP-848), on a connection of its own name."""

    def __init__(
        self,
        k: Stage,
        name: str,
        group: str | None = None,
        *,
        instance: str | None = None,
        version: int = 1,
        member_id: str | None = None,
    ) -> None:
        self.k, self.name, self.instance, self.version = k, name, instance, version
        self.group = k.name("g") if group is None else group
        self.line = k.line(name)
        self.member_id = f"member-{name}" if member_id is None else member_id
        self.epoch = 0
        self.owned: list[Answer] = []

    def ask(self, **values: Any) -> Pending:
        """Send a heartbeat with these fields; all others say that nothing changed."""
        known = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        return self.line.send(
            "consumer_group_heartbeat",
            self.version,
            **wire.fitting("consumer_group_heartbeat", self.version, {**known, **values}),
        )

    def learn(self, answer: Answer) -> Answer:
        if answer.error_code == "NONE":
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
            if answer.assignment is not None:
                names = self.k.normal.names  # in the order of the topics' names: their ids differ from run to run
                self.owned = sorted(answer.assignment.topic_partitions, key=lambda one: names.get(one.topic_id, ""))
        return answer

    def beat(self, **values: Any) -> Answer:
        return self.learn(self.ask(**values).answer())

    def join(self, *topics: str, **values: Any) -> Answer:
        """Join (or join again) with epoch 0, subscribed to these topics by name."""
        first = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        return self.beat(**{**first, **values})

    def beat_until_assigned(self, topics: int = 0, within_ms: float = 10_000) -> Answer:
        """Beat until an assignment of so many topics comes, or an error; only that answer is written down."""
        known = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        answer = self.line.eventually(
            "consumer_group_heartbeat",
            1,
            lambda found: (
                found.error_code != "NONE"
                or (found.assignment is not None and len(found.assignment.topic_partitions) >= topics)
            ),
            within_ms=within_ms,
            **known,
        )
        return self.learn(answer)

    def owns(self, **values: Any) -> Answer:
        """Beat and say that it owns what it was last told: acknowledge a revocation."""
        return self.beat(topic_partitions=self.owned, **values)

    def leave(self, epoch: int = -1) -> Answer:
        return self.ask(member_epoch=epoch).answer()


class Streams:
    """A member of a streams group (KIP-1071), on a connection of its own name: a process of one thread unless told."""

    API = "streams_group_heartbeat"

    def __init__(self, k: Stage, name: str, group: str | None = None, *, process: str | None = None) -> None:
        self.k, self.name = k, name
        self.group = k.name("g") if group is None else group
        self.line = k.line(name)
        self.member_id, self.process = f"member-{name}", process or f"process-{name}"
        self.epoch, self.endpoint_epoch = 0, -1
        self.owned: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}

    def identity(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
        }

    def ask(self, **values: Any) -> Pending:
        """Send a heartbeat with these fields; all others say that nothing changed."""
        return self.line.send(self.API, 0, **{**self.identity(), **values})

    def learn(self, answer: Answer) -> Answer:
        if answer.error_code == "NONE":
            self.epoch, self.endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.owned = {name: getattr(answer, name) for name in self.owned}
        return answer

    def beat(self, **values: Any) -> Answer:
        return self.learn(self.ask(**values).answer())

    def joining(self, topology: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a join."""
        return {
            "member_epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "topology": topology,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": self.process,
        }

    def join(self, topology: dict[str, Any], **values: Any) -> Answer:
        """Join (or join again) with epoch 0 and this topology."""
        return self.beat(**{**self.joining(topology), **values})

    def owns(self, **values: Any) -> Answer:
        """Beat and say that it owns what it was last told: acknowledge a revocation."""
        return self.beat(**{**self.owned, **values})

    def beat_until_told(self, count: int = 1, within_ms: float = 10_000) -> Answer:
        """Beat until so many active tasks are assigned, or an error comes; only that answer is written down."""

        def is_told(found: Answer) -> bool:
            tasks = found.active_tasks
            return found.error_code != "NONE" or (
                tasks is not None and sum(len(one.partitions) for one in tasks) >= count
            )

        return self.learn(self.line.eventually(self.API, 0, is_told, within_ms=within_ms, **self.identity()))

    def beat_until_status(self, *codes: int, within_ms: float = 10_000) -> Answer:
        """Beat until the answer has exactly these status codes; only that one is written down."""

        def is_so(found: Answer) -> bool:
            return found.error_code != "NONE" or [one.status_code for one in found.status] == list(codes)

        return self.learn(self.line.eventually(self.API, 0, is_so, within_ms=within_ms, **self.identity()))

    def leave(self, epoch: int = -1, **values: Any) -> Answer:
        return self.ask(member_epoch=epoch, **values).answer()


class Sharer:
    """A member of a share group (KIP-932), on a connection of its own name."""

    def __init__(self, k: Stage, name: str, group: str | None = None, *, member_id: str | None = None) -> None:
        self.k, self.name = k, name
        self.group = k.name("g") if group is None else group
        self.line = k.line(name)
        self.member_id = f"member-{name}" if member_id is None else member_id
        self.epoch = 0

    def known(self, **values: Any) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, **values}

    def learn(self, answer: Answer) -> Answer:
        if answer.error_code == "NONE":
            self.epoch = answer.member_epoch
        return answer

    def beat(self, **values: Any) -> Answer:
        """Send a heartbeat with these fields; all others say that nothing changed."""
        return self.learn(self.line.call("share_group_heartbeat", 1, **self.known(**values)))

    def join(self, *topics: str, **values: Any) -> Answer:
        """Join (or join again) with epoch 0, subscribed to these topics."""
        return self.beat(**{"member_epoch": 0, "subscribed_topic_names": list(topics), **values})

    def beat_until_assigned(self, topics: int = 1, within_ms: float = 10_000) -> Answer:
        """Beat until an assignment of so many topics comes, or an error; only that answer is written down."""
        while True:
            answer = self.line.eventually(
                "share_group_heartbeat",
                1,
                lambda found: found.error_code != "NONE" or found.assignment is not None,
                within_ms=within_ms,
                is_timed=False,  # how long it takes to begin a state
                **self.known(),
            )
            self.learn(answer)
            if answer.assignment is None or len(answer.assignment.topic_partitions) >= topics:
                return answer

    def settle(self, *topics: str) -> "Sharer":
        """Join, and wait until all partitions of the topics are assigned."""
        self.join(*topics)
        self.beat_until_assigned(len(topics))
        return self

    def leave(self) -> Answer:
        return self.beat(member_epoch=-1)


class Producer:
    """A transactional producer, on a connection of its own name."""

    def __init__(
        self, k: Stage, name: str = "p", transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> None:
        self.k, self.line = k, k.line(name)
        self.transactional_id = k.name(transactional_id or name)
        self.timeout_ms = timeout_ms
        self.id, self.epoch = -1, -1

    def begin(self, version: int = 4, **values: Any) -> Answer:
        """InitProducerId: learn the producer id and epoch."""
        return self.learn(self.line.call("init_producer_id", version, **{**self.start(), **values}))

    def begin_eventually(self) -> Answer:
        """Begin as soon as that succeeds; only that answer is written down."""
        return self.learn(
            self.line.eventually(
                "init_producer_id", 4, lambda answer: bool(answer.error_code == "NONE"), **self.start()
            )
        )

    def start(self) -> dict[str, Any]:
        return {"transactional_id": self.transactional_id, "transaction_timeout_ms": self.timeout_ms}

    def learn(self, answer: Answer) -> Answer:
        if answer.error_code == "NONE":
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def me(self) -> dict[str, Any]:
        return {"transactional_id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch}

    def add_partitions(self, topic: str, *numbers: int, version: int = 3, **values: Any) -> Answer:
        """Say that partitions of a topic will be part of the transaction; waits until a former transaction is over."""
        me = {f"v3_and_below_{name}": value for name, value in self.me().items()}
        topics = [{"name": topic, "partitions": list(numbers or (0,))}]
        return self.line.eventually(
            "add_partitions_to_txn",
            version,
            lambda answer: bool(
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
                != "CONCURRENT_TRANSACTIONS"
            ),
            **{**me, "v3_and_below_topics": topics, **values},
        )

    def add_offsets(self, group: str, version: int = 3, **values: Any) -> Answer:
        """Say that offsets of the group will be part of the transaction; waits until a former transaction is over."""
        return self.line.eventually(
            "add_offsets_to_txn",
            version,
            lambda answer: bool(answer.error_code != "CONCURRENT_TRANSACTIONS"),
            **{**self.me(), "group_id": group, **values},
        )

    def commit_offsets(self, group: str, topic: str, *parts: dict[str, Any], version: int = 3, **values: Any) -> Answer:
        topics = [{"name": topic, "partitions": list(parts or (part(),))}]
        return self.line.call(
            "txn_offset_commit", version, **{**self.me(), "group_id": group, "topics": topics, **values}
        )

    def end(self, committed: bool, version: int = 3, **values: Any) -> Answer:
        answer = self.line.call("end_txn", version, **{**self.me(), "committed": committed, **values})
        if version >= 5 and answer.error_code == "NONE" and answer.producer_id >= 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer
