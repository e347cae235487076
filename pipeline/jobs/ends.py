"""Log end offsets as they are handed in: a file of them, a broker's checkpoint, or the topics' own logs."""

from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline.decode.cluster_ends import list_ends
from pipeline.decode.ends import CHECKPOINT, check_path, log_ends
from pipeline.decode.files import Store, escape_pattern
from pipeline.decode.layout import high_watermarks
from pipeline.decode.schema import ddl
from pipeline.errors import UsageError

ENDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("ts", pa.int64()),
        ("leo", pa.int64()),
        ("source", pa.string()),
    ]
)
NEEDED = ("topic", "partition", "ts", "leo")
LATEST_MS = 10**14  # in the year 5138: as microseconds, every time since 1973 is later


def read_ends(spark: SparkSession, path: Path | str, read_ms: int) -> DataFrame:
    """Read (topic, partition, ts, leo, source) from a path. Raises UsageError where that tells nothing.

    `read_ms` is when the groups' logs were read: topics' own logs may have grown since. A string is the address of a
    cluster.
    """
    if isinstance(path, str):
        rows = [msgspec.structs.astuple(end) for end in list_ends(path, read_ms)]
        return spark.createDataFrame(rows, ddl(ENDS))
    check_path(path)
    pattern = escape_pattern(str(path.absolute()))
    if path.suffix == ".parquet" or (path.is_dir() and any(path.glob("*.parquet"))):
        return _check_columns(path, spark.read.parquet(pattern))
    if path.is_dir() and any(path.glob("part-*.json")):  # as Spark names them: a data directory has events.jsonl
        return _check_columns(path, spark.read.schema(ddl(ENDS)).json(pattern))
    if path.is_dir():
        rows = [msgspec.structs.astuple(end) for end in log_ends(str(path), read_ms)]
    elif path.name == CHECKPOINT:
        ts = int(path.stat().st_mtime * 1000)
        marks = _read_checkpoint(path)
        rows = [(topic, number, ts, leo, "checkpoint") for (topic, number), leo in marks.items()]
    else:
        return _check_columns(path, spark.read.schema(ddl(ENDS)).json(pattern))
    if not rows:
        raise UsageError(f"{path} tells no log end from before the groups' logs were read: is it the right one?")
    return spark.createDataFrame(rows, ddl(ENDS))


def _read_checkpoint(path: Path) -> dict[tuple[str, int], int]:
    try:
        return high_watermarks(Store.of(path.parent))
    except ValueError as error:
        raise UsageError(f"{path} is no {CHECKPOINT}: {error}") from None


def _check_columns(path: Path, read: DataFrame) -> DataFrame:
    """Select the columns of log ends; `source` may be missing. Raises UsageError for a row that lacks another one."""
    types = dict(read.dtypes)
    if missing := [name for name in NEEDED if name not in types]:
        raise UsageError(f"{path} has no column {', '.join(missing)}: a log end has {', '.join(NEEDED)}")
    if types["ts"] not in ("bigint", "int"):
        raise UsageError(f"{path}: ts is {types['ts']}, and must be milliseconds since 1970")
    given = F.col("source").cast("string") if "source" in types else F.lit(None).cast("string")
    rows = read.select(
        F.col("topic").cast("string"),
        F.col("partition").cast("int"),
        F.col("ts").cast("bigint"),
        F.col("leo").cast("bigint"),
        F.coalesce(given, F.lit("list_offsets")).alias("source"),
    )
    whole = " and ".join(f"{name} is not null" for name in NEEDED)
    said = rows.agg(
        F.count("*").alias("all"), F.count_if(F.expr(whole)).alias("whole"), F.max("ts").alias("latest")
    ).first()
    if not said or not said["all"]:
        raise UsageError(f"{path} holds no log ends")
    if said["whole"] < said["all"]:
        raise UsageError(f"{path}: {said['all'] - said['whole']} rows lack one of {', '.join(NEEDED)}")
    if said["latest"] > LATEST_MS:
        raise UsageError(f"{path}: invalid ts {said['latest']}: expected milliseconds since 1970")
    return rows
