"""Records of share groups that are in flight, as an operator sees and changes them."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from coordinator.core.share_partitions.load import load_partition
from coordinator.core.share_partitions.operate import ChangeRecords, RecordAction
from coordinator.core.share_partitions.values import SharePartition
from coordinator.core.share_state.values import DeliveryState, StateKey
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
        others = dict(self._unread(group_id, topic))
        return list(self._node().world.dataplane.view_records(group_id, topic, most, others))

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
        topics = self._node().world.ledger.catalog.topics
        for topic, partitions in expected.items():
            for partition, records in partitions.items():
                found = topics.get(topic)
                key = None if found is None else StateKey(group_id, found.id, int(partition))
                window = None if key is None else self._find_window(key)
                for offset, state in records.items():
                    now = state_of(window, int(offset))
                    if now != state:
                        return f"record {offset} of {topic}-{partition} is {now}, expected {state}"
        return None

    def _find_window(self, key: StateKey) -> SharePartition | None:
        """Return a partition as a share group reads it: from its state where no member reads it, None without one."""
        return self._node().world.dataplane.share.find(key) or self._load(key)

    def _load(self, key: StateKey) -> SharePartition | None:
        """Return a partition as its state tells of it, None without one."""
        state = self._node().engine.share_states.find(key)
        try:
            return None if state is None else load_partition(state, 0)
        except ValueError:  # another tool has written it
            return None

    def _unread(self, group_id: str, name: str) -> Iterator[tuple[StateKey, SharePartition]]:
        """Yield the partitions of a group with records in flight that no member reads, of one topic if it is named."""
        node = self._node()
        topics, states = node.world.ledger.catalog.topics, node.engine.share_states
        group = node.world.partitions.owner(group_id).shard.groups.get(group_id)
        for topic_id, topic in getattr(group, "initialized", {}).items():
            if name and topic_id != topics.id_of(name):
                continue
            for key in [StateKey(group_id, topic_id, index) for index in topic.partitions]:
                if (state := states.find(key)) is None or not state.batches or node.world.dataplane.share.find(key):
                    continue  # without batches nothing is in flight: most partitions cost a look alone
                if (found := self._load(key)) is not None and found.runs:
                    yield key, found


def state_of(window: SharePartition | None, offset: int) -> str:
    """Return the state of a record, one of STATES."""
    if window is None or offset >= window.end_offset:
        return "new"
    if offset < window.start_offset:
        return "done"
    run = window.runs[bisect_right(window.runs, offset, key=lambda one: one.first_offset) - 1]
    return DeliveryState(run.state).name.lower()
