"""Muster is installed below one name, beside a program that has packages called as its own are in a checkout.

`INSTALLED` and `LYING` are the ways in which the program's packages get onto the path before Muster's, or after them.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from hatch_build import RelocationError, rewrite
from tests.install.environments import PACKAGES, ROOT, Environment, Project, Wheels, run

pytestmark = pytest.mark.xdist_group("install")  # both wheels are built once


INSTALLED: Final = {
    "before Muster": ("project", "muster"),
    "after Muster": ("muster", "project"),
    "after Muster, editable": ("muster", "editable"),
}
LYING: Final = {
    "in the current folder": ("here",),
    "where PYTHONPATH says": ("path",),
    "where PYTHONPATH says, as modules": ("path", "flat"),
}


def test_the_wheel_has_one_name_and_imports_nothing_by_another(wheels: Wheels) -> None:
    with zipfile.ZipFile(wheels.server) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        assert {name.partition("/")[0] for name in names} == {"muster"}
        for package in PACKAGES:
            shipped = {name for name in names if name.startswith(f"muster/{package}/")}
            lying = {path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
            assert shipped == {f"muster/{path.relative_to(ROOT)}" for path in lying}
            assert shipped, package


def test_every_module_of_the_wheel_is_found_by_its_one_name(installed: Environment, tmp_path: Path) -> None:
    assert installed.added() == {"muster", "pytest_muster"}
    program = """
import importlib, pkgutil, sys
import muster
for found in pkgutil.walk_packages(muster.__path__, "muster."):
    importlib.import_module(found.name)
print([name for name in sys.modules if name.partition(".")[0] in ("coordinator", "protocol", "storage", "pipeline")])
"""
    assert run(installed.python, "-c", program, cwd=tmp_path).split("\n")[0] == "[]"


@pytest.mark.parametrize("way", INSTALLED)
def test_packages_of_these_names_are_installed(way: str, wheels: Wheels, tmp_path: Path) -> None:
    environment, steps = Environment(tmp_path / "env"), INSTALLED[way]
    project = Project(tmp_path / "project")
    for step in steps:
        if step == "muster":
            environment.install(*wheels)
        else:
            environment.install(*["-e"] * (step == "editable"), project.folder)
    here = project.folder if "editable" in steps else tmp_path
    check_both(environment, project, here, {})
    loads = "from muster.coordinator.runtime.assignors import load_assignors; load_assignors(['of-the-project'])"
    run(environment.python, "-c", loads, cwd=here)

    environment.pip("uninstall", "--yes", "kafka-muster")
    assert "muster" not in environment.names()
    owners = "import coordinator, protocol, storage, pipeline; print(pipeline.OWNER)"
    assert run(environment.python, "-c", owners, cwd=here) == "the project\n"


@pytest.mark.parametrize("way", LYING)
def test_packages_of_these_names_lie_on_the_path(way: str, installed: Environment, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", is_flat="flat" in LYING[way])
    check_both(installed, project, project.folder, {"PYTHONPATH": "."} if "path" in LYING[way] else {})


def check_both(environment: Environment, project: Project, here: Path, variables: dict[str, str]) -> None:
    """Run Muster's commands, a test with its plugin, and the program, which has its own packages."""
    python = environment.python
    assert "muster 0" in run(environment.bin / "muster", "--version", cwd=here, environment=variables)
    assert "muster 0" in run(python, "-m", "muster", "--version", cwd=here, environment=variables)
    pytest_words = ("-m", "pytest", "-p", "no:cacheprovider", "-q", project.folder / "test_shop.py")
    run(python, *pytest_words, cwd=here, environment=variables)
    owners = "import shop_program; import muster.storage.log; print(set(shop_program.OWNERS))"
    assert run(python, "-c", owners, cwd=here, environment=variables) == "{'the project'}\n"


def test_a_checkout_has_the_same_modules_by_both_names() -> None:
    program = """
import muster.coordinator.core.result as long, coordinator.core.result as short
import muster.pipeline
assert long is short and long.__spec__.name == long.__name__ == "coordinator.core.result"
"""
    run(sys.executable, "-c", program, cwd=ROOT)


@pytest.mark.parametrize(
    "line",
    ["import storage.log", "import storage", "NAME = 'protocol.messages.heartbeat'", "exec('from storage import log')"],
)
def test_what_cannot_be_rewritten_ends_the_build(line: str) -> None:
    with pytest.raises(RelocationError, match=r"^storage/x\.py:2: "):
        rewrite(f"'Of storage.log.'\n{line}\n", Path("storage/x.py"))
    assert rewrite(f"# {line}\n", Path("storage/x.py")) == f"# {line}\n"


def test_only_imports_are_rewritten_each_in_its_line() -> None:
    text = "import storage.log as log\nif log: from storage import (\n    ring,\n)\nfrom . import storage\nx = 'ä'; from protocol import a\n"
    assert rewrite(text, Path("x.py")) == text.replace("import storage.log", "import muster.storage.log").replace(
        "from storage", "from muster.storage"
    ).replace("from protocol", "from muster.protocol")
