"""How much of a log is read in one step, before others have their turn: so many records, or so many bytes of them."""

from protocol.record_batch import BatchHeader

STEP_RECORDS = 500  # a millisecond for offsets
STEP_BYTES = 1 << 18  # of records that are large: some milliseconds


class LogPace:
    """Says when enough was read."""

    __slots__ = ("_bytes", "_records")

    def __init__(self) -> None:
        self._records = self._bytes = 0

    def count(self, header: BatchHeader, records: int) -> bool:
        """Count a batch with so many records that was read. Returns whether others are to have their turn."""
        self._records += records
        self._bytes += header.size
        return self._records >= STEP_RECORDS or self._bytes >= STEP_BYTES

    def take(self) -> int:
        """Return how many records were read in the step that ends."""
        records, self._records, self._bytes = self._records, 0, 0
        return records
