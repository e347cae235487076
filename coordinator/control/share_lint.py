"""Find members of share groups that keep records for too long: they acknowledge late, or their locks end unused."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from coordinator.control.finding import Finding
from coordinator.control.journal import Entry
from protocol.apis import APIS
from protocol.codec import decode_request, decode_response
from protocol.errors import ErrorCode, ProtocolError

REDELIVERIES_MIN: Final = 3  # the delivery of a record, at which the ones before it make a finding
RELEASE: Final = 2
APIS_OF_RECORDS: Final = frozenset({"ShareFetch", "ShareAcknowledge"})

Where = tuple[str, bytes, int]  # a partition as a group reads it: group, topic id, partition


class Delivery(Struct, frozen=True):
    """Records that a client has got, from one offset to another."""

    client: str
    first: int
    last: int


def find_late_members(entries: Iterable[Entry]) -> Iterator[Finding]:
    """Yield a finding about each client that acknowledges late, and about each whose locks end again and again.

    A lock has ended where a record comes again, and nobody has released it since it was delivered.
    """
    late: Counter[tuple[str, str]] = Counter()
    expired: Counter[tuple[str, str]] = Counter()
    held: dict[Where, list[Delivery]] = {}
    for entry in entries:
        if entry.response is None or APIS[entry.api_key].name not in APIS_OF_RECORDS:
            continue
        request = decode_request(entry.frame)
        try:
            response = decode_response(entry.api_key, entry.version, entry.response[4:]).body
        except ProtocolError:  # a fault has cut it
            continue
        client, group = request.client_id or "", request.body.group_id or ""
        _forget_released(held, group, request.body)
        for topic in response.responses:
            for partition in topic.partitions:
                errors = (partition.error_code, getattr(partition, "acknowledge_error_code", 0))
                late[group, client] += ErrorCode.INVALID_RECORD_STATE in errors
                where = (group, topic.topic_id, partition.partition_index)
                for run in getattr(partition, "acquired_records", ()):
                    for holder in _take(held.setdefault(where, []), client, run):
                        expired[group, holder] += 1
    yield from _findings("late_acknowledgement", late, "acknowledged records that the member had no longer")
    yield from _findings("locks_expire", expired, "got records again that the client had, and gave back to nobody")


def _findings(rule: str, counts: Counter[tuple[str, str]], what: str) -> Iterator[Finding]:
    for (group, client), count in counts.items():
        if count:
            times = f"{count} time{'' if count == 1 else 's'}"
            yield Finding(rule, client, group, f"{times}, {what}")


def _forget_released(held: dict[Where, list[Delivery]], group: str, request: Any) -> None:
    """Forget the deliveries of records that their member releases: they come again because it wants that."""
    for topic in request.topics:
        for partition in topic.partitions:
            where = (group, topic.topic_id, partition.partition_index)
            for batch in partition.acknowledgement_batches:
                for first, last in _find_releases(batch) if where in held else ():
                    held[where] = [rest for one in held[where] for rest in _without(one, first, last)]


def _find_releases(batch: Any) -> Iterator[tuple[int, int]]:
    """Yield the first and the last offset of each run that a batch releases, by one type for all or one for each."""
    types = batch.acknowledge_types
    if len(types) == 1:
        if types[0] == RELEASE:
            yield batch.first_offset, batch.last_offset
        return
    at = batch.first_offset
    for kind, run in groupby(types):
        count = len(tuple(run))
        if kind == RELEASE:
            yield at, at + count - 1
        at += count


def _without(one: Delivery, first: int, last: int) -> Iterator[Delivery]:
    """Yield what is left of a delivery without the records from one offset to another."""
    if one.first < first:
        yield Delivery(one.client, one.first, min(one.last, first - 1))
    if one.last > last:
        yield Delivery(one.client, max(one.first, last + 1), one.last)


def _take(held: list[Delivery], client: str, run: Any) -> list[str]:
    """Note a delivery. Returns the clients that had some of it before, where it is the third or a later one."""
    had = [one for one in held if one.first <= run.last_offset and one.last >= run.first_offset]
    held[:] = [rest for one in held for rest in _without(one, run.first_offset, run.last_offset)]
    held.append(Delivery(client, run.first_offset, run.last_offset))
    return list(dict.fromkeys(one.client for one in had)) if run.delivery_count >= REDELIVERIES_MIN else []
