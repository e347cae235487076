"""The recipes for schedulers: parsed by their packages where these are installed, and their commands by our own parser."""

import argparse
import ast
import importlib.util
import shlex
from pathlib import Path

import pytest

from pipeline.arguments import add_commands

RECIPES = sorted(Path("deploy/pipeline").glob("*.py"))


def load(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(path: Path) -> list[list[str]]:
    """The words of every command that a recipe runs; names and templates as words of their own."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
            if text.startswith("muster pipeline"):
                found.append(shlex.split(text)[2:])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run":
            found.append([word.value if isinstance(word, ast.Constant) else "x" for word in node.args[1:]])
    return found


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_commands_are_commands(path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_commands(parser)
    jobs = [parser.parse_args(words).job for words in commands(path)]
    assert jobs[:3] == ["ingest", "build", "report"]


def test_airflow_keeps_the_page() -> None:
    """It runs each command in a directory that it removes: no path may count from there."""
    parser = argparse.ArgumentParser()
    add_commands(parser)
    found = [parser.parse_args(words) for words in commands(Path("deploy/pipeline/airflow_dag.py"))]
    assert [one.out for one in found] == ["x"] * 4, "each is of a variable"


@pytest.mark.long
def test_dagster_takes_it() -> None:
    """With what `pip install -e '.[recipes]'` brings, as the next one."""
    definitions = load(Path("deploy/pipeline/dagster_job.py")).definitions
    job = definitions.resolve_job_def("muster_pipeline")
    assert [node.name for node in job.nodes_in_topological_order] == ["raw_tables", "derived_tables", "report"]


@pytest.mark.long
def test_airflow_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))  # it writes its configuration there when it is imported
    dag = load(Path("deploy/pipeline/airflow_dag.py")).hourly
    assert [(task.task_id, sorted(task.upstream_task_ids)) for task in dag.topological_sort()] == [
        ("ingest", []), ("build", ["ingest"]), ("report", ["build"]), ("optimize", ["report"]),
    ]  # fmt: skip
