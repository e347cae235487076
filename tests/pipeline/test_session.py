"""What a session of Spark is told, and what is left to Spark's own configuration."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.session import Settings, _as_zip, _configuration, _is_configured, quiet
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
