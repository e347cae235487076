"""Muster is installed below one name, beside a program that has packages called as its own are in a checkout.

Each way of `WAYS` is a way in which the program's packages get onto the path before Muster's, or after them.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from hatch_build import RelocationError, rewrite
from tests.install.environments import PACKAGES, ROOT, Environment, Project, build_wheel, run

pytestmark = pytest.mark.xdist_group("install")  # both wheels are built once


class Wheels(NamedTuple):
    server: Path
    plugin: Path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    folder = tmp_path_factory.mktemp("wheels")
    return Wheels(build_wheel(folder, ROOT), build_wheel(folder, ROOT / "pytest-muster"))


WAYS: Final = {
    "installed before Muster": ("project", "muster"),
    "installed after Muster": ("muster", "project"),
    "installed after Muster, editable": ("muster", "editable"),
    "lying in the current folder": ("muster", "here"),
    "named by PYTHONPATH": ("muster", "path"),
    "modules, named by PYTHONPATH": ("muster", "path", "flat"),
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


def test_every_module_of_the_wheel_is_found_by_its_one_name(wheels: Wheels, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.install(wheels.server)
    assert environment.added() == {"muster"}
    program = """
import importlib, pkgutil, sys
import muster
for found in pkgutil.walk_packages(muster.__path__, "muster."):
    importlib.import_module(found.name)
print([name for name in sys.modules if name.partition(".")[0] in ("coordinator", "protocol", "storage", "pipeline")])
"""
    assert run(environment.python, "-c", program, cwd=tmp_path).split("\n")[0] == "[]"


@pytest.mark.parametrize("way", WAYS)
def test_a_program_has_packages_of_these_names(way: str, wheels: Wheels, tmp_path: Path) -> None:
    environment, steps = Environment(tmp_path / "env"), WAYS[way]
    project = Project(tmp_path / "project", is_flat="flat" in steps)
    for step in steps:
        if step == "muster":
            environment.install(wheels.server, wheels.plugin)
        elif step in ("project", "editable"):
            environment.install(*["-e"] * (step == "editable"), project.folder)
    is_installed = bool({"project", "editable"} & set(steps))
    here = tmp_path if is_installed and "editable" not in steps else project.folder
    variables = {"PYTHONPATH": "." if here == project.folder else str(tmp_path)} if "path" in steps else {}
    python = environment.python

    assert "muster 0" in run(environment.bin / "muster", "--version", cwd=here, environment=variables)
    assert "muster 0" in run(python, "-m", "muster", "--version", cwd=here, environment=variables)
    pytest_words = ("-m", "pytest", "-p", "no:cacheprovider", "-q", project.folder / "test_shop.py")
    run(python, *pytest_words, cwd=here, environment=variables)
    if is_installed:
        loads = "from muster.coordinator.runtime.assignors import load_assignors; load_assignors(['of-the-project'])"
        run(python, "-c", loads, cwd=here)
    owners = "import shop_program; import muster.storage.log; print(set(shop_program.OWNERS))"
    assert run(python, "-c", owners, cwd=here, environment=variables) == "{'the project'}\n"

    environment.pip("uninstall", "--yes", "kafka-muster")
    assert "muster" not in environment.names()
    owners = "import coordinator, protocol, storage, pipeline; print(pipeline.OWNER)"
    assert run(python, "-c", owners, cwd=here, environment=variables) == "the project\n"


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
