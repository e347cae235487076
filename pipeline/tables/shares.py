"""Share partitions, what became of their records, and what was archived (`pipeline.history.shares`), by Spark."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.history.shares import ArchivedRange, Delivery, Row, ShareHistory, ShareState

_LONGS: Final = pa.int64()
_KEY: Final = [("group", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32())]
ROWS: Final = pa.schema(
    [
        *_KEY,
        ("log_partition", pa.int32()),
        (
            "state",
            pa.struct(
                [
                    ("state_epoch", pa.int32()), ("leader_epoch", pa.int32()), ("snapshot_epoch", pa.int32()),
                    ("start_offset", _LONGS), ("delivery_complete_count", pa.int32()), ("available", _LONGS),
                    ("acknowledged", _LONGS), ("archived", _LONGS), ("max_delivery_count", pa.int32()),
                    ("record_ts", _LONGS), ("log_offset", _LONGS),
                ]
            ),
        ),
        (
            "delivery",
            pa.struct(
                [
                    ("first_offset", _LONGS), ("last_offset", _LONGS), ("records", _LONGS), ("state", pa.string()),
                    ("delivery_count", pa.int32()),
                ]
            ),
        ),
        (
            "archived",
            pa.struct(
                [
                    ("first_offset", _LONGS), ("last_offset", _LONGS), ("records", _LONGS),
                    ("delivery_count", pa.int32()), ("at_ms", _LONGS), ("log_offset", _LONGS),
                ]
            ),
        ),
    ]
)  # fmt: skip
COLUMNS: Final = {ShareState: "state", Delivery: "delivery", ArchivedRange: "archived"}
PLACE: Final = ("group", "topic_id", "partition", "log_partition")
BATCH_ROWS: Final = 4096


def share_histories(records: DataFrame) -> DataFrame:
    """Return what the records of each share partition come to: each row has one of `state`, `delivery` and `archived`.

    Kept by the caller, since three tables are made of it.
    """
    ordered = records.repartition("group", "topic_id", "partition").sortWithinPartitions(*PLACE, "log_offset")
    return ordered.mapInArrow(_histories, _ddl())


def topic_names(groups: DataFrame) -> DataFrame:
    """Return (topic_id, topic), as the share groups' own records name the topics of which they have states."""
    info = "array<struct<topic_id:string, topic_name:string>>"
    value = F.from_json("payload", f"struct<initializing_topics:{info}, initialized_topics:{info}>")
    named = groups.where("type = 'ShareGroupStatePartitionMetadata' and not is_tombstone").select(
        F.explode(F.concat(value["initializing_topics"], value["initialized_topics"])).alias("one"), "record_ts"
    )
    return named.groupBy(F.col("one.topic_id").alias("topic_id")).agg(
        F.max_by("one.topic_name", "record_ts").alias("topic")
    )


def share_partitions(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Return a row for each share partition: its epochs, its start offset, and how many records stand behind it."""
    return _select(rows, names, "state", "log_partition")


def share_deliveries(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Return the records from the start offset on that members have had, in ranges of one fate."""
    return _select(rows, names, "delivery")


def archived_ranges(rows: DataFrame, names: DataFrame) -> DataFrame:
    """Return the records that were given up, each with the number of its deliveries."""
    return _select(rows, names, "archived", "log_partition")


def _select(rows: DataFrame, names: DataFrame, column: str, *more: str) -> DataFrame:
    found = rows.where(F.col(column).isNotNull()).join(F.broadcast(names), "topic_id", "left")
    return found.select("group", "topic", "topic_id", "partition", f"{column}.*", *more)


def _histories(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield share partitions one after the other; runs in a worker."""
    rows: list[dict[str, Any]] = []
    for place, row in _rows(batches):
        rows.append({**dict(zip(PLACE, place, strict=True)), COLUMNS[type(row)]: msgspec.structs.asdict(row)})
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=ROWS)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=ROWS)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[Any, ...], Row]]:
    at: tuple[Any, ...] | None = None
    history: ShareHistory | None = None
    for batch in batches:
        for row in batch.to_pylist():
            place = tuple(row[name] for name in PLACE)
            if history is None or at is None or place != at:
                if history is not None and at is not None:
                    yield from _end(at, history)
                at, history = place, ShareHistory(*place[:3])
            yield from ((place, one) for one in history.apply(row))
    if history is not None and at is not None:
        yield from _end(at, history)


def _end(place: tuple[Any, ...], history: ShareHistory) -> Iterator[tuple[tuple[Any, ...], Row]]:
    state, deliveries = history.end()
    yield from ((place, one) for one in deliveries)
    if state is not None:
        yield place, state


def _ddl() -> str:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(ROWS).simpleString().removeprefix("struct<").removesuffix(">")
