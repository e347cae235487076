"""What `muster consume --committed` takes out of a Fetch: no marker, and nothing of a transaction that was aborted."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.cli.consume import Position, _read
from coordinator.cli.tables import compress
from protocol import record_batch
from protocol.messages.fetch import FetchResponseAbortedTransaction, FetchResponsePartitionData
from protocol.records import EndMarker, Record

WRITTEN = st.lists(
    st.tuples(st.sampled_from(("plain", "write", "write", "commit", "abort")), st.integers(1, 2), st.integers(1, 3)),
    max_size=16,
)


class Log:
    """Batches of three producers, some of them in transactions, and which of their records count."""

    def __init__(self, written: list[tuple[str, int, int]]) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.values: dict[int, bytes] = {}  # by offset, of what is committed in the end
        self.aborted: list[tuple[int, int, int]] = []  # producer, first offset, offset of the marker
        self.open: dict[int, list[int]] = {}
        for what, producer, count in [*written, *(("commit", producer, 1) for producer in (1, 2, 3))]:
            if what == "plain" or what == "write":
                self.write(producer if what == "write" else 0, count)
            elif producer in self.open:
                self.finish(producer, commits=what == "commit")

    def write(self, producer: int, count: int) -> None:
        offsets = range(self.end, self.end + count)
        self.values |= {offset: b"value %d" % offset for offset in offsets}
        ids = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        records = [Record(None, self.values[offset]) for offset in offsets]
        self.batches.append(record_batch.encode(records, base_offset=self.end, **(ids if producer else {})))
        if producer:
            self.open.setdefault(producer, []).extend(offsets)
        self.end += count

    def finish(self, producer: int, *, commits: bool) -> None:
        offsets = self.open.pop(producer)
        if not commits:
            self.aborted.append((producer, offsets[0], self.end))
            for offset in offsets:
                del self.values[offset]
        marker = EndMarker(commits=commits, coordinator_epoch=0)
        ids = {"producer_id": producer, "producer_epoch": 0, "base_offset": self.end}
        self.batches.append(record_batch.encode_marker(marker, 0, **ids))
        self.end += 1

    def fetch(self, offset: int, most: int) -> FetchResponsePartitionData:
        """Up to so many batches from the one with an offset on, and the aborted transactions that reach into them."""
        some = [one for one in self.batches if record_batch.header_at(one).next_offset > offset][:most]
        first, end = record_batch.header_at(some[0]).base_offset, record_batch.header_at(some[-1]).next_offset
        reaching = [(producer, begun) for producer, begun, ended in self.aborted if begun < end and ended >= first]
        aborted = tuple(FetchResponseAbortedTransaction(*one) for one in reaching)
        return FetchResponsePartitionData(0, aborted_transactions=aborted or None, records=b"".join(some))


@given(WRITTEN, st.integers(1, 9), st.data())
@settings(max_examples=120)
def test_records_of_aborted_transactions_are_left_out_wherever_a_fetch_begins_and_ends(
    written: list[tuple[str, int, int]], most: int, data: st.DataObject
) -> None:
    log = Log(written)
    start = data.draw(st.integers(0, log.end))
    position = Position(0, start, data.draw(st.none() | st.integers(start, log.end)))
    found: list[Any] = []
    while position.offset < log.end and not position.is_at_end:
        found += [(record.offset, record.value) for record in _read(log.fetch(position.offset, most), position)]
    end = log.end if position.end is None else position.end
    assert found == [(offset, value) for offset, value in sorted(log.values.items()) if start <= offset < end]


@given(st.sets(st.integers(0, 30)))
def test_numbers_are_written_as_the_runs_that_they_are(numbers: set[int]) -> None:
    parts = [part.split("-") for part in compress(numbers).split(",") if part]
    runs = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
    assert [number for run in runs for number in run] == sorted(numbers)
    assert all(before.stop < after.start for before, after in pairwise(runs)), "no two are one"
    assert all(len(part) == 1 or int(part[0]) < int(part[1]) for part in parts)
