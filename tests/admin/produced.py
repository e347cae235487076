"""Records that a test has produced."""

from protocol.record_batch import encode
from protocol.records import Record
from tests import requests
from tests.server.in_memory import Peer


def produce(peer: Peer, partition: int, *values: bytes) -> int:
    """Produce records, and return how many bytes they are."""
    batch = encode([Record(None, value) for value in values])
    peer.ask(requests.produce("orders", {partition: batch}), 9)
    return len(batch)
