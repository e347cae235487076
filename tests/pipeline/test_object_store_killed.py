"""Derived tables in an object store, plain Parquet and Delta, and builds that are killed: readers see old or new ones.

Fetches the connectors' jars from Maven, and for Delta a release of Spark that it has jars for: minutes, and a network.
"""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from pipeline import published
from pipeline.decode.files import Store
from pipeline.session import SMALL
from pipeline.synth import Plan, Writer, commit, write_logs
from pipeline.synth_groups import write_lives
from tests.pipeline import test_spark_releases as releases
from tests.pipeline.ingested import read
from tests.pipeline.kill_build import MARK, TABLES
from tests.pipeline.object_store import object_store, run_to_end
from tests.pipeline.spark_cluster import cluster

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark"), pytest.mark.timeout(9000)]

SDK = "2.35.4"  # of its jars the connector needs three, and what these need; together they are 500 MB
CONNECTOR = ["org.apache.hadoop:hadoop-aws:{hadoop}", *(f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts"))]  # fmt: skip
HADOOP = {"parquet": "3.5.0", "delta": "3.4.2"}  # of Spark 4.3, and of 4.1


CLUSTER = {  # of two workers with a core each
    "spark.executor.cores": "1", "spark.cores.max": "2", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    # As for few megabytes on one machine: to compile takes longer than to run, and Delta's log needs no 50 tasks.
    **{name: value for name, value in SMALL.items() if "Options" not in name},
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.databricks.delta.snapshotPartitions": "2",
}  # fmt: skip


def settings(form: str, endpoint: str) -> dict[str, str]:
    """Spark's settings for this store and format, as docs/pipeline.md has them."""
    jars = [jar.format(hadoop=HADOOP[form]) for jar in CONNECTOR] + [releases.DELTA] * (form == "delta")
    conf = {
        "spark.jars.packages": ",".join(jars), "spark.jars.excludes": "software.amazon.awssdk:bundle,org.slf4j:slf4j-api",
        "spark.hadoop.fs.s3a.endpoint": f"http://{endpoint}", "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }  # fmt: skip
    return conf | (releases.DELTA_CONF if form == "delta" else {})


Environment = dict[str, str]


def killed_at(step: str, out: Store, form: str, environment: Environment, master: str) -> dict[str, int] | None:
    """Build until that step; what the views said before. A build without a step ends."""
    endpoint = out.uri.partition("endpoint_override=")[2].partition("&")[0]
    conf = settings(form, endpoint) | (CLUSTER if master.startswith("spark:") else {})
    words = json.dumps([out.uri, form, conf, step, master])
    command = (sys.executable, "-m", "tests.pipeline.kill_build", words)
    code = -signal.SIGKILL if step else 0
    line = run_to_end(*command, code=code, mark=MARK, env=environment, timeout=2400, start_new_session=True)
    found: dict[str, int] | None = json.loads(line)
    return found


def rows(out: Store) -> dict[str, int]:
    """What a reader without Spark finds, counted in the files."""
    snapshot = published.load(out)
    return {name: published.dataset(out, snapshot, name).count_rows() for name in TABLES}


@pytest.mark.skipif(releases.PIP is None, reason="no pip on this machine")
@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_build_that_is_killed(form: str, tmp_path: Path, store_keys: None) -> None:
    environment = releases.spark("4.1.4", tmp_path) if form == "delta" else {**os.environ}
    kill_builds(form, tmp_path, environment, "local[2]")


@pytest.mark.skipif(releases.PIP is None, reason="no pip on this machine")
def test_a_build_on_two_workers_that_is_killed(
    tmp_path: Path, store_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = releases.spark("4.1.4", tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    with cluster(tmp_path, tmp_path / "pyspark-4.1.4" / "pyspark") as master:
        kill_builds("delta", tmp_path, environment, master)


def kill_builds(form: str, tmp_path: Path, environment: Environment, master: str) -> None:
    """Kill builds at each step, and compare what readers find."""
    logs = tmp_path / "logs"
    write_logs(logs, Plan(records=300))
    write_lives(logs, groups=2, partition=9)
    with object_store(tmp_path) as pattern:
        out = Store.of(pattern % "tables")
        read(logs, out)
        assert killed_at("", out, form, environment, master) is None
        old = rows(out)
        assert min(old.values()) > 0
        Writer(logs / "__consumer_offsets-50").append([commit(("new", "t", 0), 1, 1_760_000_000_000)])
        read(logs, out)
        new = old | {name: old[name] + 1 for name in ("offset_commits", "latest_offsets")}
        assert killed_at("between two tables", out, form, environment, master) == old
        assert rows(out) == old
        assert killed_at("before the tables count", out, form, environment, master) == old
        assert rows(out) == old
        # The views are those of the build that was finished but for one file, and all its tables are there.
        assert killed_at("before the old ones are removed", out, form, environment, master) == new
        assert rows(out) == new
        assert killed_at("", out, form, environment, master) == new
        assert rows(out) == new
