"""`format("kafkalog")`: a Python data source for Spark 4, batch and streaming, that hands over Arrow batches.

    from muster.pipeline.source import register

    register(spark)
    spark.read.format("kafkalog").load("/copies/broker-1")

Works on Spark 4.0 and later. What later releases added (filters in 4.1, limits of a stream in 4.2) is used where it is.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pipeline import plan, sink
from pipeline.decode.schema import OFFSET_COMMITS, TABLES, ddl
from pipeline.decode.transactions import EFFECTIVE_COMMITS
from pipeline.options import SourceOptions, parse
from pipeline.partition import LogPartition, read
from pipeline.pushdown import choose_columns, narrow


def register(spark: Any) -> None:
    """Make `format("kafkalog")` known to a session, also one of Spark Connect.

    The workers need this package: install it there, or hand over its wheel with `--py-files`.
    """
    spark.dataSource.register(KafkaLog)


class KafkaLog(DataSource):
    """Logs of `__consumer_offsets` as tables; the options are those of `SourceOptions`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed = parse(dict(options))

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format(...)`."""
        return "kafkalog"

    def schema(self) -> str:
        """Return the columns as Spark writes them."""
        return ddl(self._columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of batches; one with `pushFilters` is refused by Spark where that is not switched on."""
        kind = PushingReader if self.parsed.pushdown else BatchReader
        return kind(self.parsed, choose_columns(self._columns(), schema.fields))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader for `readStream`."""
        return _stream_reader(self.parsed, choose_columns(self._columns(), schema.fields))

    def _columns(self) -> pa.Schema:
        """Return the columns of the table, of the latest commits, or of the list of files that were written."""
        if self.parsed.sink != "none":
            return sink.WRITTEN
        if self.parsed.is_reduced:
            return OFFSET_COMMITS
        return EFFECTIVE_COMMITS if self.parsed.table == "offset_commits" else TABLES[self.parsed.table]


class BatchReader(DataSourceReader):
    """Reads what is there now."""

    def __init__(self, options: SourceOptions, columns: pa.Schema) -> None:
        self.options, self.columns = options, columns

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each task of the plan; at least one, which Spark wants."""
        tasks = plan.tasks(self.options, plan.logs(self.options), self.options.starts)
        return [LogPartition(task, self.options) for task in tasks] or [LogPartition(plan.Task(()), self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `read`."""
        return read(partition, self.columns)


class PushingReader(BatchReader):
    """Lets filters on `group`, `log_partition` and `record_ts` choose what is read in the worker."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Narrow the options; return all filters: they only ever narrow, and Spark applies each once more."""
        self.options = narrow(self.options, filters)
        return filters


def _stream_reader(options: SourceOptions, columns: pa.Schema) -> DataSourceStreamReader:
    """Return the reader that this release of Spark can use best."""
    try:
        from pipeline.stream_limits import LimitedStreamReader  # needs Spark 4.2
    except ImportError:
        from pipeline.stream import StreamReader

        return StreamReader(options, columns)
    return LimitedStreamReader(options, columns)
