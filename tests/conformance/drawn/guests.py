"""What may happen to a group of any kind: requests that come twice, clients of other kinds, transactions, restarts."""

import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from tests.conformance.actors import Producer, subscription
from tests.conformance.drawn.play import Play, versions_of
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.servers import RESTARTING
from tests.conformance.stage import Answer, Line, Pending, is_success
from tests.conformance.topologies import reads

RECENT = 12
FAR_MS = 60_000
FIND = versions_of("find_coordinator", 0, 6)
FETCH = versions_of("offset_fetch", 8, 10)
TXN_COMMIT = versions_of("txn_offset_commit", 0, 5)
WAITED_FOR = ("join_group", "sync_group", "leave_group")  # what waits, and what ends a wait
BEGIN_OR_END = ("add_offsets_to_txn", "end_txn")  # it takes some time until another transaction may begin
GUEST = "member-z"


class Guests(Play):
    """One group, and those who are no members of its kind."""

    group: str
    is_open = False  # a transaction
    guest = ""  # the id of a classic member that has asked for one, and is no stranger to the group
    kinds: ClassVar[tuple[str, ...]] = ("classic", "consumer", "share", "streams")  # that come to see the group

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.sent: deque[tuple[str, str, int, dict[str, Any]]] = deque(maxlen=RECENT)

    def _send(self, line: Line, api: str, versions: Collection[int], values: Mapping[str, Any]) -> Pending:
        pending = super()._send(line, api, versions, values)
        self.sent.append((line.name, api, pending.flight.version, copy.deepcopy(dict(values))))
        return pending

    def may_repeat(self, api: str, values: Mapping[str, Any]) -> bool:
        """Whether it is known what a second request like that does."""
        return api not in BEGIN_OR_END and (api not in WAITED_FOR or not self.waiting)

    def again(self) -> None:
        """One of the last requests comes again: its client has repeated it, or a network has. Nobody hears the answer."""
        if self.sent:
            name, api, version, values = self.one_of(*self.sent)
            if self.may_repeat(api, values):
                self.repeat(self.free_line(name.rstrip("'")), api, version, values)

    def repeat(self, line: Line, api: str, version: int, values: dict[str, Any]) -> None:
        self.ask_what_may_wait(line, api, [version], **values)

    def restart(self) -> None:
        """The broker is restarted, where a story has one of its own."""
        if self.server in RESTARTING:
            self.waiting.clear()
            self.k.restart(self.group)
            if hasattr(self, "producer"):
                values = {"transactional_ids": [self.producer.transactional_id]}
                self.k.line("stage").until("the producer", "describe_transactions", 0, is_loaded, **values)

    def visit(self) -> None:
        """A client of another kind of groups takes the same group id, or tries to, and leaves."""
        kind = self.one_of(*self.kinds)
        line, topic = self.k.line("z"), self.k.name("none")
        epoch = self.one_of(0, 0, 1, 2, -1, -1, -2)
        known = {"group_id": self.group, "member_id": GUEST, "member_epoch": epoch}
        if kind == "classic":
            self._visit_as_classic(line, topic)
        elif kind == "consumer":
            values = {"rebalance_timeout_ms": FAR_MS, "subscribed_topic_names": [topic], "topic_partitions": []}
            self.ask(line, "consumer_group_heartbeat", [0, 1], **{**known, **(values if epoch == 0 else {})})
        elif kind == "share":
            values = {"subscribed_topic_names": [topic]}
            self.ask(line, "share_group_heartbeat", [1], **{**known, **(values if epoch == 0 else {})})
        else:
            tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            values = {"rebalance_timeout_ms": FAR_MS, "topology": reads(topic), "process_id": "process-z", **tasks}
            self.ask(line, "streams_group_heartbeat", [0], **{**known, **(values if epoch == 0 else {})})

    def _visit_as_classic(self, line: Line, topic: str) -> None:
        protocols = [{"name": "range", "metadata": subscription(topic)}]
        known = {"group_id": self.group, "member_id": self.guest, "group_instance_id": None}
        if self.is_so(0.5):
            leaver = {"member_id": self.guest or GUEST, "group_instance_id": None, "reason": None}
            self.ask(line, "leave_group", [5], group_id=self.group, members=[leaver])
        else:
            values = {"protocol_type": "consumer", "protocols": protocols, "session_timeout_ms": FAR_MS}
            self.ask_what_may_wait(line, "join_group", [9], self._learn_guest, **{**known, **values})

    def _learn_guest(self, answer: Answer) -> None:
        self.guest = answer.member_id

    def look_elsewhere(self) -> None:
        """Describe it as a group of another kind, or change offsets as those of a share group are changed."""
        line, topics = self.k.line("watch"), self.k.name("none")
        api = self.one_of(*("consumer", "share", "streams", "offsets", "alter", "delete"))
        if api == "offsets":
            names = self.one_of(None, [], [{"topic_name": topics, "partitions": [0]}])
            groups = [{"group_id": self.group, "topics": names}]
            self.ask(line, "describe_share_group_offsets", [0, 1], groups=groups)
        elif api == "alter":
            parts = [{"partition_index": 0, "start_offset": self.one_of(0, 5)}]
            listed = self.one_of([], [{"topic_name": topics, "partitions": parts}])
            self.ask(line, "alter_share_group_offsets", [0], group_id=self.group, topics=listed)
        elif api == "delete":
            listed = self.one_of([], [{"topic_name": topics}])
            self.ask(line, "delete_share_group_offsets", [0], group_id=self.group, topics=listed)
        elif api in self.kinds:
            asked = self.is_so(0.2)
            self.ask(
                line,
                f"{api}_group_describe",
                [1] if api == "share" else [0],
                group_ids=[self.group],
                include_authorized_operations=asked,
            )

    def names(self) -> list[str]:
        """Return groups to describe or to delete: this one most often, another one, one twice, or none."""
        one, other = self.group, self.k.name("h")
        found: list[str] = self.one_of(
            *4 * [[one]], *4 * [[one, other]], [one, one], ["", one], [other, one, other], []
        )
        return found

    def find(self) -> None:
        """Ask for the coordinator of the group, or of what has its name."""
        kind, version = self.one_of(0, 0, 0, 1, 2, 3), self.one_of(*FIND)
        keys = self.one_of(
            [self.group], [self.group, self.group], ["", self.group], [f"{self.group}:{UNKNOWN_ID}:0"], []
        )
        values = {"coordinator_keys": keys} if version >= 4 else {"key": (keys or [""])[0]}
        self.ask(self.k.line("watch"), "find_coordinator", [version], key_type=kind, **values)

    @abstractmethod
    def offsets_of_member(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The fields by which a member commits in a transaction, and topics with offsets."""

    def transact(self) -> None:
        """Commit offsets in a transaction, and end it."""
        if not hasattr(self, "producer"):
            self.producer = Producer(self.k)
            me = self.k.line("p").until("a producer", "init_producer_id", 4, is_success, **self.producer.start())
            self.producer.learn(me)
        if not self.is_open:
            self.producer.add_offsets(self.group)
            self.is_open = True
        for _ in range(self.dice.randint(1, 2)):
            version, (member, topics) = self.one_of(*TXN_COMMIT), self.offsets_of_member()
            known: dict[str, Any] = {**self.producer.me(), "group_id": self.group}
            known["topics"] = topics if self.is_so(0.85) else self.odd_topics(topics)
            if version >= 3 and self.is_so(0.8):
                known |= member
            else:  # a commit of which nothing is kept makes a group in Kafka (docs/differences.md)
                known["topics"] = [
                    {**topic, "partitions": [*map(shorten_metadata, topic["partitions"])]} for topic in known["topics"]
                ]
            self.ask(self.producer.line, "txn_offset_commit", [version], **known)
        if self.is_so(0.6):
            self.end_transaction()

    def odd_topics(self, topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Topics of a commit that no client sends: none, one twice, one without partitions, one that there is not."""
        first = topics[0]
        none = {**first, "name": self.k.name("none"), "topic_id": UNKNOWN_ID}
        missing = {**first, "partitions": [{**first["partitions"][0], "partition_index": self.one_of(-1, 77)}]}
        empty = {**first, "partitions": []}
        odd: list[list[dict[str, Any]]] = [
            [],
            [*topics, first],
            [*topics, empty],
            [empty],
            [empty, none],
            [none, none],
            [first, missing],
            [missing, *topics, none],
        ]
        one: list[dict[str, Any]] = self.one_of(*odd)
        return one

    def end_transaction(self) -> None:
        """End what is open, and wait until it withholds no offsets of the group."""
        if self.is_open:
            self.producer.end(self.is_so(0.6))
            self.is_open = False
            self.await_offsets()
            values = {"transactional_ids": [self.producer.transactional_id]}
            self.k.line("stage").until("the producer", "describe_transactions", 0, is_over, **values)

    def await_offsets(self) -> None:
        groups = [{"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": None}]

        def is_stable(answer: Answer) -> bool:
            said = [part.error_code for topic in answer.groups[0].topics for part in topic.partitions]
            return "UNSTABLE_OFFSET_COMMIT" not in said

        values = {"groups": groups, "require_stable": True}
        self.k.line("stage").until("the offsets", "offset_fetch", 9, is_stable, **values)

    def fetch_of_many(self) -> None:
        """Fetch the offsets of several groups, or of one group twice, all or some of them."""
        names = [self.group, self.k.name("h"), "", self.group]
        _, topics = self.offsets_of_member()
        some = [
            {**topic, "partition_indexes": [part["partition_index"] for part in topic["partitions"]]}
            for topic in topics
        ]
        groups = []
        for name in self.some_of(names, 1):
            asked = self.one_of(
                None, some, [], [{"name": self.k.name("none"), "topic_id": UNKNOWN_ID, "partition_indexes": [0]}]
            )
            groups.append(
                {
                    "group_id": name,
                    "topics": asked,
                    "member_id": self.one_of(None, "", "nobody"),
                    "member_epoch": self.one_of(-1, -1, 0),
                }
            )
        values = {"groups": groups, "require_stable": self.is_so(0.5)}
        self.ask(self.k.line("watch"), "offset_fetch", FETCH, **values)

    def unset_configs(self, *names: str) -> None:
        """Delete configs of the group, and wait until that is known."""
        changes = [{"name": name.replace("_", "."), "config_operation": 1, "value": None} for name in names]
        resources = [{"resource_type": 32, "resource_name": self.group, "configs": changes}]
        self.k.line("stage").quietly("incremental_alter_configs", 1, resources=resources)
        self.k.pump.run(3 * self.k.settle_ms)


def shorten_metadata(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "committed_metadata": (part["committed_metadata"] or "")[:10]}


def is_over(answer: Answer) -> bool:
    return all(
        one.transaction_state in ("Empty", "CompleteCommit", "CompleteAbort") for one in answer.transaction_states
    )


def is_loaded(answer: Answer) -> bool:
    return all(one.error_code == "NONE" for one in answer.transaction_states)
