"""Each handler says by which scripts, stories and tests it is shown; what it names is there, and no script is left."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.apis import TABLE

ROOT = Path(__file__).parent.parent
FOLDERS = ("core", "dataplane", "runtime")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / "coordinator" / folder).rglob("*.py"))
APIS = {re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower() for api in TABLE}
HANDLERS = [path for path in MODULES if path.stem in APIS]


def references(path: Path) -> Iterator[str]:
    """The patterns of files, from the root on, that a module names behind "Shown by"."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    for pattern in re.findall(r"tests/[^\s{]*(?:\{[^}]*\})?[^\s,{]*", text.partition("Shown by")[2]):
        before, brace, rest = pattern.rstrip(".,").partition("{")
        inner, _, after = rest.partition("}")
        yield from (f"{before}{name.strip()}{after}" for name in (inner.split(",") if brace else [""]))


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: str(path.relative_to(ROOT / "coordinator")))
def test_a_handler_names_what_shows_it(path: Path) -> None:
    assert list(references(path)), 'say it at the end of its docstring: "Shown by tests/..."'


def test_what_a_module_names_is_there() -> None:
    absent = [(path.stem, one) for path in MODULES for one in references(path) if not list(ROOT.glob(one))]
    assert absent == []


def test_every_script_is_named_by_what_it_shows() -> None:
    named = {found for path in MODULES for one in references(path) for found in ROOT.glob(one)}
    scripts = set((ROOT / "tests" / "core" / "scripts").rglob("*.txt"))
    assert {str(path.relative_to(ROOT)) for path in scripts - named} == set()
