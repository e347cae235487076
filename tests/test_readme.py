"""What the README shows is run as it stands."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coordinator import __version__
from tests.live import WAIT_SECONDS, Muster

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def example() -> str:
    """The first example's program."""
    found = re.search(r"<<'PYTHON'\n(.*?)\nPYTHON\n", README, re.DOTALL)
    assert found, "the README has an example"
    return found[1]


# Once in some hundred runs on a busy machine kafka-python does not close; why is not known.
@pytest.mark.flaky(reruns=2, only_rerun=["TimeoutExpired"])
def test_the_first_example_consumes_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with Muster(tmp_path) as muster:
        program = example().replace("127.0.0.1:9092", muster.kafka)

        def orders() -> list[str]:
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
            )
            return [line.split(" ", 2)[2] for line in done.stdout.splitlines()]

        assert orders() == [f"order {number}" for number in range(5)]
        muster.kill()
        muster.start()
        assert orders() == [f"order {number}" for number in range(5)], "five more, not ten"


def test_the_two_commands_are_those_of_the_project() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv .venv")]
    assert len(commands) == 2
    serve, test = commands
    assert serve.endswith(".venv/bin/pip install -q -e . && .venv/bin/muster serve")
    assert test.endswith(".venv/bin/pip install -q -e '.[dev]' && .venv/bin/python -m pytest")
    assert test.rpartition("&& .venv/bin/")[2] in (ROOT / ".ci" / "run").read_text().replace('"$VENV/bin/', "").replace(
        '"', ""
    )


def test_a_source_distribution_has_what_the_tests_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = {*project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], "pyproject.toml"}
    read = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"\bROOT / \"([\w.]+)\"", path.read_text("utf-8"))
        if (ROOT / name).exists()
    }
    assert {".ci", "deploy", "docs"} <= read, "the expression finds them"
    assert read - shipped == set()


def test_the_pytest_fixture_starts_a_server(tmp_path: Path) -> None:
    """The README's fixture as it stands, in a conftest.py of a test that produces a record."""
    fixture = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert fixture, "the README has a fixture"
    (tmp_path / "conftest.py").write_text(fixture[1])
    (tmp_path / "test_it.py").write_text(
        "from coordinator.cli import main\n\n\ndef test_it(bootstrap_servers):\n"
        "    assert main(['topics', 'create', 'orders', '--bootstrap-server', bootstrap_servers]) == 0\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(tmp_path)]
    environment = os.environ | {"PATH": "/usr/bin:/bin"}  # the environment is not activated
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_start_and_memory_are_those_of_the_benchmarks() -> None:
    """One source: a new round of benchmarks is a new row here."""
    benchmarks = (ROOT / "docs" / "BENCHMARKS.md").read_text("utf-8")
    kafka, kfake, muster = (
        (round(float(start) / 1000, 2 if float(start) < 100 else 1), round(float(memory)))
        for start, memory in zip(measured(benchmarks, "start to the first"), measured(benchmarks, "memory at rest"), strict=True)
    )  # fmt: skip
    row = next(line for line in README.splitlines() if line.startswith("| start; memory at rest"))
    assert f"| {muster[0]} s; {muster[1]} MiB | none | {kfake[0]} s; {kfake[1]} MiB |" in row
    assert f"JVM {kafka[0]} s without the container; {kafka[1]} MiB" in row
    assert f"It starts in {muster[0]} s, without Docker and without a JVM, takes {muster[1]} MiB" in README
    docker = (ROOT / "docs" / "docker.md").read_text("utf-8")
    assert f"{kafka[0]} s to start on an idle machine, where Muster takes {muster[0]} s" in docker


def measured(benchmarks: str, what: str) -> list[str]:
    """Kafka's, kfake's and Muster's figure in the table beside them."""
    row = next(line for line in benchmarks.splitlines() if line.startswith(f"| {what}"))
    return row.split(" | ")[1:4]


def links(page: Path) -> set[Path]:
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    return {(page.parent / target).resolve() for target in targets}


def test_every_link_of_a_page_leads_to_a_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (ROOT / project["readme"]).exists()
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")):
        assert {target for target in links(page) if not target.exists()} == set(), page.name


def test_every_page_of_the_docs_is_linked_from_another_page_and_from_the_navigation() -> None:
    pages = set((ROOT / "docs").resolve().glob("*.md"))
    start = ROOT / "docs" / "index.md"
    reached, waiting = {start.resolve()}, [start]
    while waiting:
        found = (links(waiting.pop()) & pages) - reached
        reached |= found
        waiting += found
    assert pages - reached == set()
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert {page.name for page in pages if f" {page.name}\n" not in navigation} == set()


def test_the_glossary_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    named = re.findall(r"`((?:coordinator|protocol|storage|pipeline|tests)/[\w./]*)`", text)
    assert len(named) > 30
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_newest_release_of_the_changelog_is_the_version_of_the_package() -> None:
    releases = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert releases[0] == project["version"] == __version__
