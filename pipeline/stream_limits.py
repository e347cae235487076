"""The stream's reader for Spark 4.2 and later, which has limits and a trigger that reads only what is there."""

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from pipeline import plan
from pipeline.decode.identity import ends_before
from pipeline.decode.logs import START, Position
from pipeline.decode.positions import newest
from pipeline.options import SourceOptions
from pipeline.stream import StreamReader, cut_short, offset_of, positions


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Honours `max_bytes_per_trigger`, and ends where the logs ended when only that was asked for."""

    def __init__(self, options: SourceOptions, columns: pa.Schema) -> None:
        super().__init__(options, columns)
        self.last: dict[str, Position] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember what is there now."""
        self.last = {log.name: newest(log) for log in plan.logs(self.options)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return `max_bytes_per_trigger` as a limit, if it is given."""
        most = self.options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # type: ignore[override]  # noqa: N802 - as from 4.2 on
        """Return the last whole batch of every log; within the limit, which the logs share equally.

        Raises UsageError for a log that ends before the offset `start`.
        """
        starts, logs = positions(start), plan.logs(self.options)
        for log in logs:
            if ends_before(log, starts.get(log.name, START)):
                raise cut_short(log.name, starts[log.name])
        most = max(1, limit.max_bytes // max(1, len(logs))) if isinstance(limit, ReadMaxBytes) else None
        ends = {log.name: newest(log, starts.get(log.name, START), most) for log in logs}
        if self.last is not None:
            ends = {name: min(ends[name], end, key=_offset) for name, end in self.last.items() if name in ends}
            ends = {name: max(starts.get(name, START), end, key=_offset) for name, end in ends.items()}
        return start | offset_of(ends)


def _offset(position: Position) -> int:
    return position.next_offset
