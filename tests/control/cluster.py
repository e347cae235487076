"""Three brokers in memory with an operator."""

from typing import Any

from protocol.errors import ErrorCode
from tests.control.steered import SteeredNode
from tests.requests import commit, fetch_offsets

BROKERS = 3


class Cluster(SteeredNode):
    """A server that is three brokers. Groups and transactional ids begin at the broker that Kafka's hash gives."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"virtual_brokers": BROKERS, "offsets_topic_num_partitions": 6, **values})

    def at(self, name: str, kind: str = "group") -> int:
        """The broker that coordinates a group or a transactional id."""
        node_id = self.operator.brokers.coordinator(name, kind).broker
        assert node_id is not None, "a broker runs"
        return node_id

    def ask_coordinator(self, group: str, message: Any, version: int) -> Any:
        return self.connect("tool", broker=self.at(group)).ask(message, version)

    def commit(self, group: str, offset: int, *partitions: int) -> ErrorCode:
        request = commit(group, {"orders": dict.fromkeys(partitions or (0,), offset)})
        return ErrorCode(self.ask_coordinator(group, request, 8).topics[0].partitions[0].error_code)

    def offsets(self, group: str) -> dict[int, int]:
        """What the coordinator says that the group has committed."""
        (found,) = self.ask_coordinator(group, fetch_offsets(group), 8).groups
        assert not found.error_code, ErrorCode(found.error_code).name
        return {one.partition_index: one.committed_offset for topic in found.topics for one in topic.partitions}
