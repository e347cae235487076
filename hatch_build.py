"""Put the packages of the checkout into the wheel below one name: `coordinator` is installed as `muster.coordinator`.

Programs have packages called `storage` or `protocol` of their own, and one environment, one process of Spark too, may
hold both. So the wheel has one top-level name, and the modules in it are known to Python by that name alone. Only
import statements are rewritten, each in its line: tracebacks of an installed Muster point into the checkout.
"""

import ast
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOP: Final = "muster"
PACKAGES: Final = ("coordinator", "protocol", "storage", "pipeline")
OF_A_CHECKOUT: Final = "checkout.py"  # of muster/, what wheels do not need
_MODULE: Final = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+(?::\w+)?")
_IMPORT: Final = re.compile(rf"\b(?:from|import)\s+(?:{'|'.join(PACKAGES)})\b")


class RelocationError(ValueError):
    """A line names a module in a way that cannot be rewritten."""


class BuildHook(BuildHookInterface[Any]):
    """Called by hatchling before a wheel is written."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Give the builder the rewritten packages. An editable install is the checkout itself."""
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        relocate(Path(self.root), Path(self.folder.name))
        build_data["force_include"][self.folder.name] = TOP

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the rewritten packages: they are in the wheel."""
        if version != "editable":
            self.folder.cleanup()


def relocate(root: Path, target: Path) -> None:
    """Write the packages of a checkout to a folder, with their imports rewritten. Raises RelocationError."""
    for path in sorted(_files(root)):
        copy = target / path.relative_to(root / TOP if path.is_relative_to(root / TOP) else root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".py":
            copy.write_text(rewrite(path.read_text("utf-8"), path.relative_to(root)), "utf-8")
        else:
            copy.write_bytes(path.read_bytes())


def _files(root: Path) -> Iterator[Path]:
    for package in (TOP, *PACKAGES):
        for path in (root / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                if path != root / TOP / OF_A_CHECKOUT:
                    yield path


def rewrite(text: str, path: Path) -> str:
    """Return a module with its imports of our packages below `muster`. Raises RelocationError."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    docstrings = _find_docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_ours(node.module):
            lines[node.lineno - 1] = _replace(lines[node.lineno - 1], node.col_offset, "from ", f"from {TOP}.")
        elif isinstance(node, ast.Import) and any(_is_ours(name.name) for name in node.names):
            if len(node.names) > 1 or node.names[0].asname is None:
                raise RelocationError(f"{path}:{node.lineno}: `import a.b` of our own: write `from a import b`")
            lines[node.lineno - 1] = _replace(lines[node.lineno - 1], node.col_offset, "import ", f"import {TOP}.")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            if _MODULE.fullmatch(node.value.rstrip(".")) or _IMPORT.search(node.value):
                raise RelocationError(f"{path}:{node.lineno}: a module's name in a string: use __package__ or __name__")
    return "".join(lines)


def _is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] in PACKAGES


def _replace(line: str, offset: int, old: str, new: str) -> str:
    """Replace `old` at an offset, which is in bytes of UTF-8."""
    encoded = line.encode()
    assert encoded[offset:].startswith(old.encode()), f"an import that is spelled in another way: {line}"
    return (encoded[:offset] + new.encode() + encoded[offset + len(old) :]).decode()


def _find_docstrings(tree: ast.Module) -> set[int]:
    """Return the ids of the constants that only a reader reads."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
