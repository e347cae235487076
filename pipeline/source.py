"""`format("kafkalog")`: a Python data source for Spark 4, batch and streaming, that hands over Arrow batches."""

import json
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pipeline import plan, sink
from pipeline.decode.latest import latest
from pipeline.decode.positions import Position, newest
from pipeline.decode.rows import SpanDecoder
from pipeline.decode.schema import OFFSET_COMMITS, TABLES, ddl
from pipeline.options import SourceOptions, parse


class KafkaLog(DataSource):
    """Logs of `__consumer_offsets` as tables; the options are those of `SourceOptions`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed = parse(dict(options))

    @classmethod
    def name(cls) -> str:
        """As in `spark.read.format(...)`."""
        return "kafkalog"

    def schema(self) -> str:
        """Of the table, of the latest commits, or of the list of files that were written."""
        if self.parsed.sink != "none":
            return ddl(sink.WRITTEN)
        return ddl(OFFSET_COMMITS if self.parsed.reduce == "latest" else TABLES[self.parsed.table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Two classes, because Spark refuses a reader with `pushFilters` where that is not switched on."""
        return PushingReader(self.parsed) if self.parsed.pushdown else BatchReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `readStream`."""
        return StreamReader(self.parsed)


class LogPartition(InputPartition):
    """A task and the options to read it with."""

    def __init__(self, task: plan.Task, options: SourceOptions) -> None:
        super().__init__(task)
        self.task = task
        self.options = options


def read(partition: LogPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task; runs in a worker."""
    options = partition.options
    if options.sink != "none":
        yield sink.write(
            partition.task, options.decoding(frozenset(TABLES)), Path(options.sink.removeprefix("parquet:"))
        )
    elif options.reduce == "latest":
        yield from latest(partition.task.spans, options.decoding(frozenset(TABLES))).to_batches()
    else:
        for span in partition.task.spans:
            for rows in SpanDecoder(span, options.decoding(frozenset({options.table}))):
                yield rows.batch


class BatchReader(DataSourceReader):
    """Reads what is there now."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """One for each task of the plan; at least one, which Spark wants."""
        tasks = plan.tasks(self.options, plan.logs(self.options), self.options.starts)
        return [LogPartition(task, self.options) for task in tasks] or [LogPartition(plan.Task(()), self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `read`."""
        assert isinstance(partition, LogPartition), "Spark hands back what `partitions` made"
        return read(partition)


class PushingReader(BatchReader):
    """Lets filters on `group` and `record_ts` choose rows in the worker. Spark applies every filter once more."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the options; return all filters, since they only ever narrow."""
        for one in filters:
            column = one.attribute[0] if hasattr(one, "attribute") and len(one.attribute) == 1 else None
            value = getattr(one, "value", None)
            if column == "group" and not self.options.group:
                self._group(one)
            elif column == "record_ts" and isinstance(value, int) and self.options.reduce != "latest":
                self._time(one, value)  # a reduction must see the records that supersede those that are asked for
        return filters

    def _group(self, one: Filter) -> None:
        wanted = one.value if isinstance(one, In) else (one.value,) if isinstance(one, EqualTo) else ()
        if len(wanted) == 1 and isinstance(wanted[0], str):
            self.options = msgspec.structs.replace(self.options, group=wanted[0])

    def _time(self, one: Filter, value: int) -> None:
        since, until = self.options.since_ms, self.options.until_ms
        if isinstance(one, GreaterThan | GreaterThanOrEqual):
            since = value if since is None else max(since, value)
        elif isinstance(one, LessThan):
            until = value if until is None else min(until, value)
        self.options = msgspec.structs.replace(self.options, since_ms=since, until_ms=until)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows logs as they grow, roll and are compacted. An offset is {log: position as JSON}."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.last: dict[str, Position] | None = None  # where to end, when only what is there now was asked for

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember what is there now."""
        self.last = {log.name: newest(log) for log in plan.logs(self.options)}

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Where `starting` says; else the beginning of every log, also of one that appears later."""
        return _written(self.options.starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """`max_bytes_per_trigger`, when it is given."""
        most = self.options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802 - Spark's name
        """The last whole batch of every log; within the limit, which the logs share equally."""
        starts = _positions(start)
        found = plan.logs(self.options)
        most = max(1, limit.max_bytes // len(found)) if isinstance(limit, ReadMaxBytes) else None
        ends = {log.name: newest(log, starts.get(log.name, Position()), most) for log in found}
        if self.last is not None:
            ends = {name: min(ends[name], end, key=_offset) for name, end in self.last.items() if name in ends}
        return start | _written(ends)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The tasks between two offsets."""
        found = [log for log in plan.logs(self.options) if log.name in end and start.get(log.name) != end[log.name]]
        tasks = plan.tasks(self.options, found, _positions(start), _positions(end))
        return [LogPartition(task, self.options) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `read`."""
        assert isinstance(partition, LogPartition), "Spark hands back what `partitions` made"
        return read(partition)


def _positions(offset: dict[str, str]) -> dict[str, Position]:
    return {name: Position(*json.loads(text)) for name, text in offset.items()}


def _written(positions: dict[str, Position]) -> dict[str, str]:
    return {name: json.dumps(list(msgspec.structs.astuple(position))) for name, position in positions.items()}


def _offset(position: Position) -> int:
    return position.next_offset
