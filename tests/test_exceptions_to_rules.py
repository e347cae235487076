"""Whatever a checker or a run leaves out has its reason beside it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = (
    "muster",
    "coordinator",
    "protocol",
    "storage",
    "pipeline",
    "pytest-muster",
    "tests",
    "benchmarks",
    "docs",
)
COMMENT: Final = re.compile(r"# (?:type: ignore|noqa|pragma: no cover)")
WITH_REASON: Final = re.compile(
    r"# type: ignore\[[a-z, -]+\]  # .*[a-z]{3}|# noqa: [A-Z0-9, ]+(?:-|# ) ?.*[a-z]{3}|# pragma: no cover - .*[a-z]{3}"
)


def find_sources() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))


def find_unexplained(text: str) -> Iterator[str]:
    """Yield what leaves something out without saying why: lines with comments, and calls of pytest."""
    for line in text.splitlines():
        if (found := COMMENT.search(line)) and not WITH_REASON.match(line, found.start()) and "\\n" not in line:
            yield line.strip()
    if "skip" not in text and "xfail" not in text:
        return
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(attr="skip" | "xfail" | "fail") if not (call.args or call.keywords):
                yield ast.unparse(call)
            case ast.Attribute(attr="skipif") if not any(one.arg == "reason" for one in call.keywords):
                yield ast.unparse(call)


def test_what_is_left_out_has_its_reason_beside_it() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in find_sources()
        if (lines := [*find_unexplained(path.read_text("utf-8"))])
    }
    assert found == {}


@pytest.mark.parametrize(
    ("line", "is_explained"),
    [
        ("x = 1  # noqa: E501", False),
        ("x = 1  # noqa", False),
        ("x = 1  # noqa: N812 - PySpark's own custom", True),
        ("x = 1  # type: ignore", False),
        ("x = 1  # type: ignore[arg-type]", False),
        ("x = 1  # type: ignore[arg-type]  # no range is that small", True),
        ("pytest.skip()", False),
        ("pytest.skip('no tshark on this machine')", True),
        ("pytest.mark.skipif(True)", False),
        ("pytest.mark.skipif(True, reason='needs /proc')", True),
    ],
)
def test_a_reason_is_seen(line: str, is_explained: bool) -> None:
    assert [*find_unexplained(line)] == ([] if is_explained else [line.strip()])
