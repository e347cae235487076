"""Distributions that are made of a source distribution, what an environment consists of, and the command for a release."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.install.environments import ROOT, Wheels, build_wheel, run

pytestmark = pytest.mark.xdist_group("install")
SDIST = "import sys; from hatchling.build import build_sdist; print(build_sdist(sys.argv[1]))"


@pytest.mark.parametrize("project", ["", "pytest-muster"])
def test_a_wheel_of_the_source_distribution_is_the_wheel_of_the_checkout(
    project: str, wheels: Wheels, tmp_path: Path
) -> None:
    archive = tmp_path / run(sys.executable, "-c", SDIST, tmp_path, cwd=ROOT / project).split()[-1]
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    first = wheels.plugin if project else wheels.server
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(build_wheel(tmp_path, unpacked)) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_an_environment_is_listed_with_licences() -> None:
    document = json.loads(run(sys.executable, ROOT / ".ci" / "sbom"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    by_name = {one["name"].lower(): one for one in document["components"]}
    assert {"python", "trio", "kafka-muster", "msgspec"} <= by_name.keys()
    assert by_name["kafka-muster"]["licenses"] == [{"expression": "Apache-2.0"}]
    needed = ("trio", "construct", "msgspec", "h11", "crc32c", "prometheus_client", "argcomplete", "cramjam")
    unknown = [name for name in needed if "unknown" in json.dumps(by_name[name]["licenses"])]
    assert unknown == []


def test_one_command_makes_a_release(tmp_path: Path) -> None:
    names = ("pyproject.toml", "pytest-muster/pyproject.toml", "coordinator/__init__.py", "CHANGELOG.md", ".ci/release")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def release(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, ".ci/release", *words], cwd=tmp_path, capture_output=True, text=True)

    for words in (["init", "-q"], ["config", "user.name", "x"], ["config", "user.email", "x@example"], ["add", "."],
                  ["commit", "-qm", "begin"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    done = release("7.1.0")
    assert done.returncode == 0, done.stderr
    assert "### Added" in done.stdout
    assert 'version = "7.1.0"' in (tmp_path / "pyproject.toml").read_text()
    plugin = (tmp_path / "pytest-muster" / "pyproject.toml").read_text()
    assert 'version = "7.1.0"' in plugin and '"kafka-muster>=7,<8"' in plugin
    assert '__version__ = "7.1.0"' in (tmp_path / "coordinator" / "__init__.py").read_text()
    assert subprocess.run(["git", "tag"], cwd=tmp_path, capture_output=True, text=True).stdout == "v7.1.0\n"
    assert "## [Unreleased]\n\n## [7.1.0] - 20" in (tmp_path / "CHANGELOG.md").read_text()
    assert release("7.1.0", "--notes").stdout.strip() == done.stdout.strip()
    assert "invalid version" in release("next").stderr
    (tmp_path / "pyproject.toml").write_text("x")
    assert "the checkout has changes" in release("7.2.0").stderr
