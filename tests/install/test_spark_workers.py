"""Spark's workers import Muster by its one name, in the process in which the program's own `storage` is imported too."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from pipeline.synth import Plan, write_logs
from tests.install.environments import PACKAGES, ROOT, Environment, Project, build_wheel, run
from tests.pipeline.spark_cluster import cluster
from tests.pipeline.spark_connect import CLIENT, connect_server

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1800)]

PROGRAM: Final = """
import json, sys
import coordinator, pipeline, protocol, storage
from muster.pipeline.session import Settings, session
from muster.pipeline.source import register

master, logs, wheel = json.loads(sys.argv[1])
conf = (("spark.sql.shuffle.partitions", "2"), ("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1"))
spark = session(settings=Settings(master, conf=() if master.startswith("sc:") else conf, py_files=(wheel,) if wheel else ()))
register(spark)

def owners(batches):
    import coordinator, pipeline, protocol, storage
    import muster.pipeline.source as source
    import pyarrow as pa
    found = sorted({module.OWNER for module in (coordinator, pipeline, protocol, storage)})
    yield pa.RecordBatch.from_pydict({"owners": [",".join(found)], "module": [source.KafkaLog.__module__]})

rows = spark.read.format("kafkalog").load(logs).count()
(found, *_) = spark.range(1).mapInArrow(owners, "owners string, module string").collect()
print(json.dumps({"rows": rows, "owners": found.owners, "module": found.module}))
spark.stop()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"), ROOT)


@contextmanager
def spark(how: str, folder: Path) -> Iterator[str]:
    """Yield the address of a Spark: none but the driver's own, a cluster, or a server of Spark Connect."""
    with ExitStack() as stack:
        if how == "local":
            yield "local[2]"
        else:
            yield stack.enter_context(cluster(folder) if how == "cluster" else connect_server(folder))


@pytest.mark.parametrize("how", ["local", "cluster", "connect"])
def test_its_workers_have_both(how: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, project = Environment(tmp_path / "env"), Project(tmp_path / "project")
    environment.install(wheel)
    assert environment.added() == {"muster"}
    logs, extra = tmp_path / "logs", tmp_path / "grpc"
    write_logs(logs, Plan(records=300))
    if how == "connect":
        pip = (sys.executable, "-m", "pip", "install", "-q", "--target", extra)
        subprocess.run([*pip, *CLIENT], check=True, timeout=900)
    # Workers begin with the project's packages on their path, and its own Python has Muster in it.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (project.folder, extra))))
    monkeypatch.setenv("SPARK_DAEMON_MEMORY", "1g")
    monkeypatch.setattr(sys, "executable", str(environment.python))
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    with spark(how, tmp_path) as master:
        program = (environment.python, "-c", PROGRAM, json.dumps([master, str(logs), ""]))
        found = json.loads(run(*program, cwd=project.folder, environment=variables).splitlines()[-1])
        where = ("--out", tmp_path / "out", "--master", master)
        command = (environment.bin / "muster", "pipeline", "ingest", logs, *where)
        said = json.loads(run(*command, "--json", cwd=project.folder, environment=variables).splitlines()[-1])
    assert found["rows"] == said["rows"]["offset_commits"]
    assert (found["owners"], found["module"]) == ("the project", "muster.pipeline.source")
    assert {path.name for path in project.folder.iterdir()} >= set(PACKAGES)
