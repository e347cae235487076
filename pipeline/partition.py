"""A task of a plan as a partition of Spark's, and what a worker reads of it."""

import gc
from collections.abc import Iterator
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pipeline import plan, sink
from pipeline.decode.files import Store
from pipeline.decode.latest import latest
from pipeline.decode.rows import SpanDecoder
from pipeline.decode.schema import TABLES
from pipeline.decode.transactions import read_commits
from pipeline.errors import UsageError
from pipeline.options import SourceOptions


class LogPartition(InputPartition):
    """A task and the options to read it with."""

    def __init__(self, task: plan.Task, options: SourceOptions) -> None:
        super().__init__(task)
        self.task = task
        self.options = options


@cache
def freeze_imports() -> None:
    """Leave out of this process's garbage collections what it has imported until now.

    PySpark's daemon collects after each task of a worker (`pyspark/daemon.py`). With numba and Arrow that takes 70 ms,
    which is twice the time of decoding 10 MB.
    """
    gc.collect()
    gc.freeze()


def read(partition: InputPartition, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read these columns of the rows of one task; runs in a worker. Raises UsageError for nulls that they exclude."""
    for batch in _rows(partition):
        chosen = batch.select(columns.names)
        for field, column in zip(columns, chosen, strict=True):
            if column.null_count and not field.nullable:  # Spark would read something where there is nothing
                raise UsageError(f"invalid column {field.name} NOT NULL: it has no value in some rows")
        yield pa.RecordBatch.from_arrays(chosen.columns, schema=columns)
    freeze_imports()


def _rows(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, LogPartition), "Spark hands back what `partitions` made"
    options = partition.options
    if options.sink != "none":
        directory = Store.of(options.sink.removeprefix("parquet:"))
        yield sink.write(partition.task, options.decoder_options(frozenset(TABLES)), directory)
    elif options.is_reduced:
        yield from latest(partition.task.spans, options.decoder_options(frozenset(TABLES))).to_batches()
    elif options.table == "offset_commits":
        yield from read_commits(partition.task.spans, options.decoder_options(frozenset(TABLES)))
    else:
        for span in partition.task.spans:
            for rows in SpanDecoder(span, options.decoder_options(frozenset({options.table}))):
                yield rows.batch
