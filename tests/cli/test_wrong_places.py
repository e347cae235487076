"""A directory that is no log, and an output that ends early."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli import main
from storage.log import Log
from storage.real_files import RealFiles
from tests.commands import Shell, shell_fixture
from tests.live import Muster

shell = shell_fixture()


@pytest.mark.parametrize("action", ["verify", "repair", "dump", "compact"])
def test_a_directory_is_no_log_because_of_any_file_that_ends_like_one(
    action: str, tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "serve.log").write_text("at=... level=info\n")
    (tmp_path / "muster-data").mkdir()
    said = shell(2, "log", action, tmp_path)
    assert said == f"muster log: invalid DIR {str(tmp_path)!r}: expected a data directory or the directory of a log\n"


def test_a_log_is_one_by_the_names_of_its_segments(tmp_path: Path, shell: Shell) -> None:
    with Muster(tmp_path, "--topic", "orders:1") as server:
        server.steer("POST", "/state", offsets={"shop": {"orders": {"0": 5}}})
        server.stop()
        assert "offsets 0 to 1, 1 batch" in shell(0, "log", "verify", server.data_dir)
    assert shell(2, "log", "verify", tmp_path).count("\n") == 1, "its parent"


def test_an_output_that_ends_early_is_nobodys_mistake() -> None:
    command = f"{sys.executable} -m coordinator decode 000000170012000300000001000474657374000574657374023100 | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize(
    ("words", "is_refused"), [(["compact"], True), (["repair", "--accept-loss"], True), (["verify"], False)]
)
def test_what_changes_logs_is_refused_while_a_server_has_them(
    words: list[str], is_refused: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    (data / "__consumer_offsets-0").mkdir(parents=True)
    Log.open(RealFiles(), str(data / "__consumer_offsets-0")).close()
    lock = RealFiles().lock(str(data / "muster.lock"))
    action, *options = words
    code = main(["log", action, str(data), *options])
    assert (code, f"held by process {os.getpid()}" in capsys.readouterr().err) == (
        (1, True) if is_refused else (0, False)
    )
    lock.release()
    assert main(["log", action, str(data), *options]) == 0
