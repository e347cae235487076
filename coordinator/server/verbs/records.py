"""Records of share groups that are in flight, as an operator sees and changes them."""

from collections.abc import Callable

from coordinator.core.share_partitions.operate import ChangeRecords, RecordAction
from coordinator.dataplane.share.operating import SharePartitionView
from coordinator.runtime.edge import Failure
from coordinator.runtime.node import Node
from coordinator.server.frontend import Frontend
from coordinator.server.poller import Poller
from coordinator.server.verbs.refusal import Refusal


class RecordVerbs:
    """The verbs for records of share groups."""

    def __init__(self, node: Callable[[], Node], frontend: Frontend, poller: Poller) -> None:
        self._node = node
        self._frontend = frontend
        self._poller = poller

    def view(self, group_id: str, topic: str = "") -> list[SharePartitionView]:
        """Return what a group has in flight, of one topic if it is named, partition by partition."""
        views = self._node().dataplane.view_records(group_id)
        return [view for view in views if topic in ("", view.topic)]

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
        found = node.ledger.catalog.topics.get(topic)
        if found is None:
            raise Refusal(f"there is no topic {topic!r}", is_conflict=True)
        verb = ChangeRecords(group_id, found.id, partition, *offsets, action, delivery_count)
        response = self._poller.perform(lambda now_ms: node.command(verb, now_ms, self._frontend.handler.fresh_id))
        if isinstance(response, Failure):
            raise Refusal("internal error: the server's log says why", is_conflict=True)
        if response.refusal:
            raise Refusal(response.refusal, is_conflict=True)
        return next(view for view in self.view(group_id, topic) if view.partition == partition)
