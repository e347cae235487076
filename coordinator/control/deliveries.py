"""Find the deliveries of a record to members of a share group, in the journal."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from coordinator.control.journal import Entry
from protocol.codec import decode_request, decode_response
from protocol.errors import ProtocolError


class Delivery(Struct, frozen=True):
    """A ShareFetch by which a member has acquired a record."""

    number: int  # of the request
    at_ms: int
    client: str
    member: str
    count: int  # how often the record had been delivered then


def find_deliveries(entries: Iterable[Entry], topic_id: bytes, partition: int, offset: int) -> Iterator[Delivery]:
    """Yield the deliveries of one record, in the order of the entries, which are ShareFetch requests of its group."""
    for entry in entries:
        if entry.response is None:
            continue
        try:
            body = decode_response(entry.api_key, entry.version, entry.response[4:]).body
        except ProtocolError:  # a fault has cut it
            continue
        for topic in body.responses:
            for one in topic.partitions:
                if (topic.topic_id, one.partition_index) != (topic_id, partition):
                    continue
                for run in one.acquired_records:
                    if run.first_offset <= offset <= run.last_offset:
                        request = decode_request(entry.frame)
                        client, member = request.client_id or "", request.body.member_id or ""
                        yield Delivery(entry.number, entry.at_ms, client, member, run.delivery_count)
