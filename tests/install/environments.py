"""Wheels of this checkout, environments that they are installed in, and a project that has packages of the same names.

An environment has the third-party packages of the Python that runs the tests, so nothing is fetched: only its path is
added, and so the editable install of the checkout, which hangs on a .pth file there, is not.
"""

import json
import os
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("coordinator", "protocol", "storage", "pipeline")
SECONDS: Final = 600
BUILD: Final = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


class Wheels(NamedTuple):
    """Of the server, and of the plugin of pytest."""

    server: Path
    plugin: Path


def build_wheel(folder: Path, project: Path) -> Path:
    """Build the wheel of a project."""
    return folder / run(sys.executable, "-c", BUILD, folder, cwd=project).split()[-1]


def run(*words: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None, code: int = 0) -> str:
    """Run a command that must end with `code`, without this run's PYTHONPATH. Returns what it prints."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MUSTER_ADMIN")}
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=inherited | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


class Environment:
    """A virtual environment without pip: the pip of the tests installs into it."""

    def __init__(self, folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        (self.packages / "zz_third_party.pth").write_text(sysconfig.get_path("purelib"))
        self._before = self.names()

    def names(self) -> set[str]:
        """Return what lies in the environment's folder of packages."""
        return {path.name for path in self.packages.iterdir()}

    def added(self) -> set[str]:
        """Return the top-level names that have been installed, without those of pip's own notes."""
        return {
            name for name in self.names() - self._before if not name.endswith((".dist-info", ".pth", "__pycache__"))
        }

    def pip(self, *words: object) -> None:
        """Run pip for this environment; it fetches nothing."""
        flags = ("--disable-pip-version-check", "--quiet")
        run(sys.executable, "-m", "pip", "--python", self.python, *flags, *words)

    def install(self, *what: object) -> None:
        """Install wheels, or projects, without what they need. What is imported is compiled, and nothing else."""
        self.pip("install", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation", *what)


class Project:
    """A program that has packages of its own called as Muster's are, with an assignor among them, and a test."""

    def __init__(self, folder: Path, *, is_flat: bool = False) -> None:
        """`is_flat`: modules (`storage.py`), and not packages."""
        self.folder = folder
        for name in PACKAGES:
            path = folder / f"{name}.py" if is_flat else folder / name / "__init__.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'OWNER = "the project"\nNAME = "{name}"\n')
        text = "import coordinator, protocol, storage, pipeline\nOWNERS = [coordinator.OWNER, protocol.OWNER, storage.OWNER, pipeline.OWNER]\n"
        (folder / "shop_program.py").write_text(text + ASSIGNOR)
        listed = [f"{name}.py" if is_flat else name for name in PACKAGES]
        (folder / "pyproject.toml").write_text(
            textwrap.dedent(
                f"""\
                [build-system]
                requires = ["hatchling"]
                build-backend = "hatchling.build"
                [project]
                name = "shop"
                version = "1"
                [project.entry-points."muster.assignors"]
                of-the-project = "shop_program:assign"
                [tool.hatch.build]
                only-include = {json.dumps([*listed, "shop_program.py"])}
                dev-mode-dirs = ["."]
                """
            )
        )
        (folder / "test_shop.py").write_text(TEST)


ASSIGNOR: Final = """
from muster.coordinator.core.assignors.uniform import assign as uniform

def assign(*given):
    assert storage.OWNER == "the project"
    return uniform(*given)
"""
TEST: Final = """
import coordinator, protocol, storage, pipeline
from muster.protocol.codec import encode_request

def test_a_commit(muster):
    assert {module.OWNER for module in (coordinator, protocol, storage, pipeline)} == {"the project"}
    group, topic = muster.group("billing"), muster.topic("orders", partitions=2)
    muster.commit(group, topic, {0: 5})
    group.wait(offsets={topic: {0: 5}})
"""
