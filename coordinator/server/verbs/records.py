"""Records of share groups that are in flight, as an operator sees and changes them."""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.core.share_partitions.operate import ChangeRecords, RecordAction
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.share.operating import RUNS_MAX, SharePartitionView
from coordinator.runtime.edge import Failure
from coordinator.runtime.node import Node
from coordinator.server.frontend import Frontend
from coordinator.server.poller import Poller
from coordinator.server.verbs.refusal import Refusal

Expected = Mapping[str, Mapping[str, Mapping[str, str]]]
"""The state of records, by topic, partition and offset."""
STATES: Final = ("new", "acquired", "available", "acknowledged", "archived", "done")
"""What a record may be: never delivered, one of the four of records in flight, or before them."""


class RecordVerbs:
    """The verbs for records of share groups."""

    def __init__(self, node: Callable[[], Node], frontend: Frontend, poller: Poller) -> None:
        self._node = node
        self._frontend = frontend
        self._poller = poller

    def view(self, group_id: str, topic: str = "", most: int = RUNS_MAX) -> list[SharePartitionView]:
        """Return what a group has in flight, of one topic if it is named, with so many runs of records in all."""
        return list(self._node().world.dataplane.view_records(group_id, topic, most))

    def change(
        self,
        group_id: str,
        topic: str,
        partition: int,
        offsets: tuple[int, int],
        action: RecordAction | None,
        delivery_count: int | None,
    ) -> SharePartitionView:
        """Do something to the records from one offset to another. Raises Refusal, and has changed nothing then."""
        node = self._node()
        topic_id = self.topic_id(topic)
        verb = ChangeRecords(group_id, topic_id, partition, *offsets, action, delivery_count)
        response = self._poller.perform(lambda now_ms: node.command(verb, now_ms, self._frontend.handler.fresh_id))
        if isinstance(response, Failure):
            raise Refusal("internal error: the server's log says why", is_conflict=True)
        if response.refusal:
            raise Refusal(response.refusal, is_conflict=True)
        return node.world.dataplane.view_share_partition(StateKey(group_id, topic_id, partition))

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic. Raises Refusal when there is none of that name."""
        found = self._node().world.ledger.catalog.topics.get(topic)
        if found is None:
            raise Refusal(f"there is no topic {topic!r}", is_conflict=True)
        topic_id: bytes = found.id
        return topic_id

    def find_difference(self, group_id: str, expected: Expected) -> str | None:
        """Return which record is in another state than is expected, None if there is none."""
        for topic, partitions in expected.items():
            found = {str(view.partition): view for view in self.view(group_id, topic)}
            for partition, records in partitions.items():
                for offset, state in records.items():
                    now = state_of(found.get(partition), int(offset))
                    if now != state:
                        return f"record {offset} of {topic}-{partition} is {now}, expected {state}"
        return None


def state_of(view: SharePartitionView | None, offset: int) -> str:
    """Return the state of a record, one of STATES."""
    if view is None or offset >= view.end:
        return "new"
    if offset < view.start:
        return "done"
    return next(run.state for run in view.records if run.first <= offset <= run.last)
