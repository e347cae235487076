"""Packed bytes become plain ones in one place, at the cost of a meter: told by the syntax trees of all modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOOR = "protocol/compression.py"
LIBRARIES = {"backports", "brotli", "bz2", "compression", "cramjam", "gzip", "lz4", "lzma", "snappy", "tarfile"}
LIBRARIES |= {"zipfile", "zlib", "zstandard"}
EXCEPTIONS = {
    "storage/mending.py": {"zlib"},  # crc32 alone
    "coordinator/runtime/snapshot.py": {"tarfile"},  # which only writes
}
MODULES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("protocol", "storage", "coordinator")
    for path in (ROOT / folder).rglob("*.py")
)


def imports_of(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in {
            "import_module",
            "__import__",
        }:
            found |= {str(arg.value).partition(".")[0] for arg in node.args if isinstance(arg, ast.Constant)}
    return found & LIBRARIES


def uses_of(tree: ast.AST, name: str) -> set[str]:
    """Which attributes of a module are used."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def modes_of(node: ast.AST) -> list[ast.keyword]:
    """With which modes archives are opened."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return []
    is_archive = isinstance(node.func.value, ast.Name) and node.func.value.id == "tarfile" and node.func.attr == "open"
    return [keyword for keyword in node.keywords if keyword.arg == "mode"] if is_archive else []


@pytest.mark.parametrize("module", MODULES)
def test_no_other_module_unpacks(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text())
    if module == DOOR:
        assert imports_of(tree) >= {"zlib", "lz4", "cramjam"}
        return
    assert imports_of(tree) <= EXCEPTIONS.get(module, set())
    assert uses_of(tree, "zlib") <= {"crc32"}
    assert all(keyword.value.value == "w" for call in ast.walk(tree) for keyword in modes_of(call))


def test_nobody_unpacks_without_a_meter() -> None:
    """Every public function of the door that takes packed bytes has a meter without a default."""
    tree = ast.parse((ROOT / DOOR).read_text())
    functions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and "compression" in [a.arg for a in node.args.args]
    ]
    assert {function.name for function in functions} == {"unpack", "unpack_in_steps", "pack_in_steps"}
    for function in functions:
        assert function.args.args[-1].arg == "meter" and not function.args.defaults
