"""The commits of a partition since the last step, in bounded memory: when exactly the first and the last were, and in
which quarters of a second the others."""

from pipeline.history.activity import activity_of
from pipeline.history.departures import together
from pipeline.history.records import SCALES_MS, STRETCHES, Activity

QUANTUM_MS = 250
KEPT = STRETCHES * SCALES_MS[-1] // QUANTUM_MS + 1  # what the longest scale looks back to
_MASK = (1 << KEPT) - 1


class Beats:
    """Commits, taken one by one, in the order of the log."""

    __slots__ = ("_bits", "_first_ts", "_last_plain_ts", "_last_ts", "_newest")

    def __init__(self) -> None:
        self._first_ts = self._last_ts = -1
        self._last_plain_ts: int | None = None
        self._bits = 0  # bit n: a plain commit n quanta before the newest one
        self._newest = 0

    def note(self, ts: int, *, is_txn: bool) -> None:
        """Note a commit at a time in ms."""
        self._first_ts = ts if self._first_ts < 0 else min(ts, self._first_ts)
        self._last_ts = max(ts, self._last_ts)
        if is_txn:
            return
        self._last_plain_ts = max(ts, self._last_plain_ts or 0)
        quantum = ts // QUANTUM_MS
        if self._bits and quantum <= self._newest:
            self._bits |= 1 << min(self._newest - quantum, KEPT)
        else:
            ahead = min(quantum - self._newest, KEPT)
            self._bits, self._newest = (self._bits << ahead | 1) & _MASK, quantum

    def activity(self, until_ts: int | None) -> Activity:
        """Return them as the activity of a step that ends then (None: the last one)."""
        plain = self._last_plain_ts
        exact = Activity(self._first_ts, self._last_ts, plain)
        if until_ts is None or plain is None:
            return exact
        times = [(self._newest - n) * QUANTUM_MS for n in range(self._bits.bit_length()) if self._bits >> n & 1]
        times[0] = plain
        beats = together(activity_of(ts, until_ts, is_txn=False) for ts in times)
        assert beats is not None, "there is a plain commit"
        return Activity(self._first_ts, self._last_ts, plain, beats.beats)
