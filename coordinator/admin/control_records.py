"""The part of the control API about records of share groups."""

from typing import Final

import trio
from msgspec import Struct

from coordinator.admin.operations import Input, Operation
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import check_bounds, do
from coordinator.control.deliveries import Delivery, find_deliveries
from coordinator.control.journal import Filter
from coordinator.core.share_partitions.operate import RecordAction
from coordinator.dataplane.share.operating import SharePartitionView
from coordinator.server.operator import Operator

OFFSET_MAX: Final = 2**63 - 1
DELIVERIES_MAX: Final = 32_767  # as the log of the share coordinator has them


class RecordsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A topic: only its records are listed."""

    topic: str = ""


class RecordsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The records, and what is done to them: an action, another number of deliveries, or both."""

    topic: str
    partition: int
    first: int
    last: int | None = None  # the first one only
    do: RecordAction | None = None
    deliveries: int | None = None


class ShareRecords(Struct, frozen=True):
    """What a share group has in flight, partition by partition."""

    partitions: list[SharePartitionView]


class RecordQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """One record."""

    topic: str
    partition: int = 0
    offset: int = 0


class Deliveries(Struct, frozen=True):
    """The deliveries of a record that the journal has, oldest first."""

    deliveries: list[Delivery]


class RecordControl:
    """Handlers of the calls about records of share groups."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def operations(self) -> list[Operation]:
        """Return the table of these operations."""
        path = "/v1/groups/{group}/records"
        return [
            Operation(
                "GET", path, "What a share group has in flight", self._view, query=RecordsQuery, result=ShareRecords
            ),
            Operation(
                "POST", path, "Change records in flight", self._change, body=RecordsBody, result=SharePartitionView
            ),
            Operation(
                "GET",
                f"{path}/deliveries",
                "Who has got a record, and when",
                self._deliveries,
                query=RecordQuery,
                result=Deliveries,
            ),
        ]

    def _view(self, given: Input) -> ShareRecords:
        return ShareRecords(self._operator.records.view(given.path["group"], given.query.topic))

    async def _deliveries(self, given: Input) -> Deliveries:
        query: RecordQuery = given.query
        topic_id = do(self._operator.records.topic_id, query.topic)
        journal = do(lambda: self._operator.requests.journal)
        found = journal.entries(Filter(api="ShareFetch", group=given.path["group"]))

        def find() -> Deliveries:
            entries = [entry for entry, _ in found]
            return Deliveries(list(find_deliveries(entries, topic_id, query.partition, query.offset)))

        return await trio.to_thread.run_sync(find)

    def _change(self, given: Input) -> SharePartitionView:
        body: RecordsBody = given.body
        if body.do is None and body.deliveries is None:
            raise Refused("missing do: expected expire, release, accept or reject, or deliveries")
        first = check_bounds("first", body.first, 0, OFFSET_MAX)
        last = first if body.last is None else check_bounds("last", body.last, first, OFFSET_MAX)
        if body.deliveries is not None:
            check_bounds("deliveries", body.deliveries, 1, DELIVERIES_MAX)
        view: SharePartitionView = do(
            self._operator.records.change,
            given.path["group"],
            body.topic,
            body.partition,
            (first, last),
            body.do,
            body.deliveries,
        )
        return view
