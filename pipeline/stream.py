"""`readStream.format("kafkalog")`: follows logs as they grow, roll and are compacted.

An offset of the stream is {log: position as JSON}. Spark 4.2 brought limits and a trigger that reads only what is there
at its start; before, Spark asks for the newest offset without either.
"""

import json
from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pipeline import plan
from pipeline.decode.logs import Position
from pipeline.decode.positions import newest
from pipeline.errors import UsageError
from pipeline.options import SourceOptions
from pipeline.partition import LogPartition, read


class StreamReader(DataSourceStreamReader):
    """For Spark 4.0 and 4.1."""

    def __init__(self, options: SourceOptions, columns: pa.Schema) -> None:
        self.options, self.columns = options, columns

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Return the position that `starting` names; else the beginning of every log, later ones too."""
        return offset_of(self.options.starts)

    def latestOffset(self) -> dict[str, str]:  # type: ignore[override]  # noqa: N802 - as before Spark 4.2
        """Return the last whole batch of every log."""
        return self.initialOffset() | offset_of({log.name: newest(log) for log in plan.logs(self.options)})

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Return the tasks between two offsets. Raises UsageError for a log that ended before it began."""
        reached = positions(end)
        for name, position in positions(start).items():
            if name in reached and reached[name].next_offset < position.next_offset:
                raise cut_short(name, position)
        logs = [log for log in plan.logs(self.options) if log.name in end and start.get(log.name) != end[log.name]]
        tasks = plan.tasks(self.options, logs, positions(start), positions(end))
        return [LogPartition(task, self.options) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `pipeline.partition.read`."""
        return read(partition, self.columns)


def cut_short(name: str, position: Position) -> UsageError:
    """Return the error for a log that was read up to a position, and ends before it now.

    To go on would read what comes in its place twice, or not at all.
    """
    return UsageError(
        f"{name} ends before offset {position.next_offset}, up to which it was read: it was made anew or truncated;"
        " make a new checkpoint, or give the stream the whole log again"
    )


def positions(offset: dict[str, str]) -> dict[str, Position]:
    """Read the position in each log from an offset of the stream."""
    return {name: Position(*json.loads(text)) for name, text in offset.items()}


def offset_of(positions: dict[str, Position]) -> dict[str, str]:
    """Return the same as an offset of the stream."""
    return {name: json.dumps(list(msgspec.structs.astuple(position))) for name, position in positions.items()}
