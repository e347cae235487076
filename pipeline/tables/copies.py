"""Several copies of a log, as the brokers of a cluster have them: of each record one counts."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

IDENTITY = ("log_partition", "log_offset")


def has_copies(batches: DataFrame) -> bool:
    """Whether a partition was read from several directories."""
    dirs = batches.groupBy("log_partition").agg(F.countDistinct("log_dir").alias("dirs"))
    return not dirs.where("dirs > 1").isEmpty()


def without_copies(rows: DataFrame) -> DataFrame:
    """One row for each record: of the highest leader epoch, then of the directory whose name comes first."""
    order = Window.partitionBy(*IDENTITY).orderBy(F.desc("leader_epoch_of_log"), "log_dir")
    return rows.withColumn("_nth", F.row_number().over(order)).where("_nth = 1").drop("_nth")
