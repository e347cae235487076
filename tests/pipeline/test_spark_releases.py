"""The DataSource and the tables on other releases of Spark 4 than the installed one, and in Delta's and Iceberg's format.

Installs PySpark from the package index, and jars from Maven's: minutes, and a network.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import published
from pipeline.synth import Plan, Writer, commit, write_logs
from pipeline.synth_groups import write_lives
from tests.pipeline.ingested import read
from tests.pipeline.object_store import run_to_end
from tests.pipeline.spark_releases import PIP

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark"), pytest.mark.timeout(3000)]

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
ICEBERG_CONF = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
BEGIN = """
import json, sys
import pyspark
from pipeline.jobs.build import Tables, build
from pipeline.jobs.ingest import ingest
from pipeline.session import Settings, session

logs, out, conf = json.loads(sys.argv[1])
spark = session(settings=Settings("local[2]", "768m", conf=tuple(conf.items()), is_small=True))
"""
READS = """
source = spark.read.format("kafkalog")
stream = spark.readStream.format("kafkalog").load(logs).writeStream.format("memory").queryName("stream")
assert stream.trigger(availableNow=True).start().awaitTermination(300)
print(json.dumps([
    pyspark.__version__,
    source.load(logs).count(),
    source.option("pushdown", "true").load(logs).where("group in ('group-1', 'group-2')").count(),
    spark.table("stream").count(),
    build(spark, out)["latest_offsets"] if ingest(spark, [logs], out) else 0,
]))
"""
BUILDS = """
from pipeline import published
build(spark, out, form="delta" if len(sys.argv) > 2 else None)
published.create_views(spark, out)
print(json.dumps([spark.table("latest_offsets").count(), spark.table("effective_commits").count()]))
"""
MERGES = """
from pipeline import published
build(spark, out)
published.create_views(spark, out)
for statement in sys.argv[2].split(";")[:-1]:
    spark.sql(statement)
table = spark.table("lake.muster.latest_offsets")
rows = spark.table("latest")
snapshots = [row.operation for row in spark.sql("select operation from lake.muster.latest_offsets.snapshots order by committed_at").collect()]
print(json.dumps([rows.count(), table.count(), rows.exceptAll(table).count(), snapshots]))
"""


def spark(release: str, directory: Path) -> dict[str, str]:
    """The environment in which this release of PySpark is the one that is imported."""
    place = directory / f"pyspark-{release}"
    assert PIP is not None
    packages = [f"pyspark=={release}", "py4j==0.10.9.9"]
    subprocess.run([PIP, "install", "-q", "--no-deps", "--target", place, *packages], check=True, timeout=900)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(place), str(Path.cwd())])}


def run(script: str, environment: dict[str, str], *words: Any) -> Any:
    given = [json.dumps(words[0]), *words[1:]]
    return json.loads(run_to_end(sys.executable, "-c", BEGIN + script, *given, env=environment))


@pytest.mark.skipif(PIP is None, reason="no pip on this machine")
@pytest.mark.parametrize("release", ["4.0.1", "4.1.4"])
def test_it_runs_on_other_releases(release: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_logs(logs, Plan(records=300))
    write_lives(logs, groups=2, partition=9)
    found = run(READS, spark(release, tmp_path), [str(logs), str(tmp_path / "t"), {}])
    rows = read(logs, tmp_path / "alone").rows["offset_commits"]
    assert found[:2] == [release, rows]
    assert 0 < found[2] < rows
    assert found[3] == rows
    assert found[4] > 0


@pytest.mark.skipif(PIP is None, reason="no pip on this machine")
def test_tables_of_delta_change_only_where_rows_do(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "t[1]"  # Delta knows no patterns
    write_logs(logs, Plan(records=300))
    environment = spark("4.1.4", tmp_path)
    conf = {"spark.jars.packages": DELTA, **DELTA_CONF}
    read(logs, out)
    before = run(BUILDS, environment, [str(logs), str(out), conf], "first")
    first = published.load(out)
    assert first.format == "delta"
    Writer(logs / "__consumer_offsets-50").append([commit(("new", "t", 0), 1, 1_760_000_000_000)])
    read(logs, out)
    assert run(BUILDS, environment, [str(logs), str(out), conf]) == [before[0] + 1, before[1] + 1]
    second = published.load(out)
    assert second.format == "delta", "as the time before"
    for name in ("offset_commits", "latest_offsets"):
        assert set(first.tables[name].files) < set(second.tables[name].files), "what was there is not written again"
    assert second.tables["rebalances"] == first.tables["rebalances"], "no commit where nothing has changed"
    rows = published.dataset(out, first, "latest_offsets").to_table()
    assert len(rows) == before[0], "readers of the first build still read it"


@pytest.mark.skipif(PIP is None, reason="no pip on this machine")
def test_the_recipe_for_iceberg_merges_what_has_changed(tmp_path: Path) -> None:
    blocks = (block.partition("```")[0] for block in Path("docs/pipeline.md").read_text().split("```sql\n")[1:])
    (recipe,) = (block for block in blocks if "USING iceberg" in block)
    logs, out = tmp_path / "logs", tmp_path / "t"
    write_logs(logs, Plan(records=300))
    environment = spark("4.1.4", tmp_path)
    conf = {"spark.jars.packages": ICEBERG, "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"), **ICEBERG_CONF}
    read(logs, out)
    rows, *found = run(MERGES, environment, [str(logs), str(out), conf], recipe)
    assert found == [rows, 0, ["append", "append"]], "an empty table, and all rows"
    Writer(logs / "__consumer_offsets-50").append([commit(("new", "t", 0), 1, 1_760_000_000_000)])
    read(logs, out)
    assert run(MERGES, environment, [str(logs), str(out), conf], recipe)[:3] == [rows + 1, rows + 1, 0]
