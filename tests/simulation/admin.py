"""An operator and an auditor: topics, settings, groups and offsets are changed, deleted and read, at random."""

from collections.abc import Sequence
from typing import Any, Final

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.requests import alter_configs, commit, create_topics, delete_offsets, delete_records, fetch
from tests.simulation.members import Process
from tests.simulation.network import Network
from tests.simulation.producer import JOURNAL, JOURNAL_PARTITIONS

CHANGING: Final = ("x0", "x1", "x2")  # topics that come and go
GROWING: Final = ("t", "u")
PARTITIONS_MAX: Final = 7
_TOPIC, GROUP = 2, 32


class Admin(Process):
    """Each call of `act` is one request."""

    def __init__(self, name: str, groups: tuple[str, ...], network: Network) -> None:
        super().__init__(name, network)
        self._groups = groups
        self._sizes = dict.fromkeys(GROWING, 3)

    def act(self) -> None:
        """Change something, or look at something."""
        group, topic = self._dice.choice(self._groups), self._dice.choice(CHANGING)
        acts = (
            self._create, self._create, self._delete, self._grow, self._configure_topic, self._configure_group,
            self._delete_groups, self._delete_offsets, self._delete_records, self._commit, self._commit, self._look,
        )  # fmt: skip
        self._dice.choice(acts)(group, topic)

    def tell(self, message: Any, version: int) -> None:
        """Send a request, whatever comes of it."""
        self._tell(message, version)

    def _create(self, group: str, topic: str) -> None:
        policy = self._dice.choice(("delete", "compact"))
        self._tell(create_topics({topic: self._dice.randint(1, 3)}, {"cleanup.policy": policy}), 7)

    def _delete(self, group: str, topic: str) -> None:
        self._tell(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState(topic),)), 6)

    def _grow(self, group: str, topic: str) -> None:
        name = self._dice.choice(GROWING)
        if self._sizes[name] < PARTITIONS_MAX:
            self._sizes[name] += 1
            self._tell(CreatePartitionsRequest((CreatePartitionsRequestTopic(name, self._sizes[name], None),)), 3)

    def _configure_topic(self, group: str, topic: str) -> None:
        values = (("retention.ms", "60000"), ("segment.bytes", "2048"), ("cleanup.policy", "compact"))
        self._configure(_TOPIC, topic, values)

    def _configure_group(self, group: str, topic: str) -> None:
        values = (("consumer.session.timeout.ms", "50000"), ("consumer.heartbeat.interval.ms", "6000"))
        self._configure(GROUP, group, values)

    def _configure(self, kind: int, resource: str, values: Sequence[tuple[str, str]]) -> None:
        name, value = self._dice.choice(values)
        self._tell(alter_configs(kind, resource, {name: self._dice.choice((value, value, None))}), 1)

    def _delete_groups(self, group: str, topic: str) -> None:
        self._tell(DeleteGroupsRequest((group, "plain")), 2)

    def _delete_offsets(self, group: str, topic: str) -> None:
        topics = dict.fromkeys(("t", topic), range(3))
        self._tell(delete_offsets(self._dice.choice((group, "plain")), topics), 0)

    def _delete_records(self, group: str, topic: str) -> None:
        self._tell(delete_records(topic, {0: self._dice.choice((-1, 0, 3))}), 2)

    def _commit(self, group: str, topic: str) -> None:
        """Commit without being a member, as tools do."""
        offsets = {name: {p: self._network.position() for p in range(2)} for name in ("t", topic)}
        self._tell(commit("plain", offsets), 8)

    def _look(self, group: str, topic: str) -> None:
        self._tell(DescribeGroupsRequest((group, "plain")), 5)
        self._tell(ConsumerGroupDescribeRequest((group,)), 1)
        self._tell(ListGroupsRequest(), 5)


class Auditor(Process):
    """Reads all that was committed and produced; `Promises` compares it with what was acknowledged."""

    def __init__(self, groups: tuple[str, ...], network: Network) -> None:
        super().__init__("auditor", network)
        self._groups = (*groups, "plain")

    def read(self) -> None:
        """Read all offsets of all groups, and the end of the journal."""
        topics = tuple(
            OffsetFetchRequestTopics(name, partition_indexes=tuple(range(PARTITIONS_MAX)))
            for name in (*GROWING, *CHANGING)
        )
        groups = tuple(OffsetFetchRequestGroup(group, topics=topics) for group in self._groups)
        self._tell(OffsetFetchRequest(groups=groups), 8)
        journal = self._network.server.promises.journal
        for partition in range(JOURNAL_PARTITIONS):
            first = max(0, journal.latest(JOURNAL, partition) - self._dice.choice((5, 50, 500)))
            wanted = {"max_wait_ms": 500, "isolation_level": 1, "partition_max_bytes": 1 << 20}
            self._tell(fetch(JOURNAL, partition, first, **wanted), 11)
