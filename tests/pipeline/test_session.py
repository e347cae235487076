"""What a session of Spark is told, and what is left to Spark's own configuration."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.session import SMALL, Settings, _as_zip, _configuration, _is_configured, quiet, session
from tests.pipeline.conftest import SharedSession, is_alive


def test_defaults_suit_one_machine() -> None:
    made = _configuration(Settings(), {})
    assert (made["spark.master"], made["spark.driver.memory"], made["spark.driver.host"]) == (
        "local[*]",
        "1g",
        "127.0.0.1",
    )
    assert "spark.executor.memory" not in made
    assert _configuration(Settings(is_small=True), {})["spark.sql.codegen.wholeStage"] == "false"


def test_what_spark_was_told_elsewhere_is_left_as_it_is() -> None:
    configured = {
        "spark.master": "spark://host:7077",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.driver.memory": "4g",
    }
    made = _configuration(Settings(), configured)
    assert not made.keys() & configured.keys()
    assert "spark.sql.shuffle.partitions" not in made, "the cores of the driver say nothing about a cluster's"
    assert "spark.driver.host" not in made


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[2]", True), ("local[*]", True), ("local-cluster[2,1,1024]", True), ("yarn", False)],
)
@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("is_configured", [True, False])
def test_a_session_of_one_machine_shares_work_out_among_its_cores(
    master: str, is_local: bool, is_small: bool, is_configured: bool
) -> None:
    """An option or Spark's own settings name the master. A session of a cluster gets none of these settings."""
    settings = Settings(None if is_configured else master, is_small=is_small)
    made = _configuration(settings, {"spark.master": master} if is_configured else {})
    parts = "1" if is_small else str(2 * (os.cpu_count() or 1))
    assert made.get("spark.sql.shuffle.partitions") == (parts if is_local else None)
    assert made.get("spark.driver.bindAddress") == ("127.0.0.1" if is_local else None)
    assert (made.items() >= SMALL.items()) == (is_local and is_small)


@pytest.mark.parametrize("given", [None, "/other/python"])
@pytest.mark.parametrize("path", ["", "/first", "/first:/second"])
def test_workers_have_the_python_and_the_paths_of_the_program_and_then_this_package(
    given: str | None, path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session leaves the environment as it is where the user has set it, also a second session."""

    class Builder:
        """Starts no Spark."""

        def appName(self, _: str) -> "Builder":
            return self

        def config(self, _: str, __: str) -> "Builder":
            return self

        def getOrCreate(self) -> None:
            return None

    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=Builder()))
    monkeypatch.setattr("pipeline.session.java_home", lambda: tmp_path)
    monkeypatch.setattr("pipeline.source.register", lambda _: None)
    for name in ("JAVA_HOME", "SPARK_LOCAL_HOSTNAME", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # so that each is as before in the end
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("PYSPARK_PYTHON", given or "")
    if given is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    for _ in range(2):
        session(settings=Settings("local[1]"))
        wanted = given or sys.executable
        assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == (wanted, wanted)
        assert os.environ["JAVA_HOME"] == str(tmp_path)
        root = str(Path(__file__).resolve().parents[2])
        assert os.environ["PYTHONPATH"] == os.pathsep.join([*filter(None, path.split(":")), root])


def test_what_is_asked_for_goes_before_all() -> None:
    settings = Settings("local[3]", "2g", "3g", (("spark.ui.enabled", "true"), ("spark.master", "yarn")))
    made = _configuration(settings, {"spark.driver.memory": "4g", "spark.ui.enabled": "false"})
    wanted = {
        "spark.driver.memory": "2g",
        "spark.executor.memory": "3g",
        "spark.ui.enabled": "true",
        "spark.master": "yarn",
    }
    assert made | wanted == made


def test_spark_defaults_and_the_shells_arguments_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    (tmp_path / "spark-defaults.conf").write_text("# comment\n\nspark.executor.memory  5g\nspark.a=b c\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn --name x pyspark-shell")
    assert _is_configured() == {"spark.executor.memory": "5g", "spark.a": "b c", "spark.master": "yarn"}


def test_a_wheel_goes_to_the_workers_as_a_zip(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    wheel.write_bytes(b"zip")
    assert _as_zip(str(tmp_path / "b.zip")) == str(tmp_path / "b.zip")
    copy = Path(_as_zip(str(wheel)))
    assert (copy.name, copy.read_bytes()) == ("a-1-py3-none-any.zip", b"zip")


def test_noise_goes_to_the_log_also_that_of_children(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with quiet(tmp_path / "log"):
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('child ')"], check=True)
        os.write(2, b"parent")
    os.write(2, b"after")
    # Clients that other tests have left in this process may write as well.
    assert re.search(r"child .*parent", (tmp_path / "log").read_text(), re.DOTALL)
    shown = capfd.readouterr().err
    assert "after" in shown and "child" not in shown and "parent" not in shown


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_the_tests_session_is_replaced_when_its_java_has_ended(shared_session: SharedSession) -> None:
    """One test that loses it does not fail all that follow."""
    from pyspark import SparkContext

    lost = shared_session.get()
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    assert not is_alive(lost)
    assert shared_session.get().range(3).count() == 3
