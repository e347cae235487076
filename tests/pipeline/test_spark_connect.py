"""A session of Spark Connect, whose client has no Java: the source reads there, and logs become tables.

Installs what the client imports from the package index: a network.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from pipeline import published
from pipeline.synth import Plan, write_logs
from pipeline.synth_groups import write_lives
from tests.pipeline.ingested import read
from tests.pipeline.object_store import run_to_end
from tests.pipeline.spark_connect import CLIENT, connect_server
from tests.pipeline.spark_releases import PIP

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SCRIPT = """
import json, sys
from pipeline import published
from pipeline.session import Settings, session

master, logs, out = json.loads(sys.argv[1])
spark = session(settings=Settings(master))
source = spark.read.format("kafkalog")
stream = spark.readStream.format("kafkalog").load(logs).writeStream.format("memory").queryName("stream")
assert stream.trigger(availableNow=True).start().awaitTermination(300)
found = {
    "module": type(spark).__module__,
    "rows": source.load(logs).count(),
    "chosen": source.option("pushdown", "true").load(logs).where("group = 'group-1'").count(),
    "latest": source.option("reduce", "latest").load(logs).count(),
    "stream": spark.table("stream").count(),
}
published.create_views(spark, out)
views = {name: spark.table(name).count() for name in published.load(out).tables}
print(json.dumps(found | {"views": views}))
"""


@pytest.mark.skipif(PIP is None, reason="no pip on this machine")
def test_a_session_of_spark_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, out = tmp_path / "logs", tmp_path / "t"
    write_logs(logs, Plan(records=300))
    write_lives(logs, groups=2, partition=9)
    packages = tmp_path / "packages"
    assert PIP is not None
    subprocess.run([PIP, "install", "-q", "--target", packages, *CLIENT], check=True, timeout=900)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), str(Path.cwd())]))
    monkeypatch.setenv("SPARK_DAEMON_MEMORY", "1g")
    with connect_server(tmp_path) as address:
        # Its path leads to no Java: the client must not need any.
        environment = {name: os.environ[name] for name in ("HOME", "PYTHONPATH")} | {"PATH": "/nowhere"}
        run = partial(run_to_end, sys.executable, is_clean=True, env=environment)
        muster = ("-m", "coordinator", "pipeline")
        run(*muster, "ingest", logs, "--out", out, "--master", address, "--json")
        built = json.loads(run(*muster, "build", "--out", out, "--master", address, "--json"))["rows"]
        found = json.loads(run("-c", SCRIPT, json.dumps([address, str(logs), str(out)])))
    alone = read(logs, tmp_path / "alone").rows
    assert found["module"].startswith("pyspark.sql.connect")
    assert found["rows"] == found["stream"] == built["offset_commits"] == alone["offset_commits"]
    assert 0 < found["chosen"] < found["rows"]
    assert 0 < found["latest"] == built["latest_offsets"]
    assert found["views"] == built
    snapshot = published.load(out)
    assert {name: published.dataset(out, snapshot, name).count_rows() for name in built} == built
