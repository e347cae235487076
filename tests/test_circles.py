"""No module imports itself by way of others. Imports for types alone count too: who is named is known."""

import ast
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("coordinator", "protocol", "storage", "pipeline")


def modules() -> dict[str, Path]:
    """All modules of the product by name. A package is named like its `__init__`."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(tree: ast.AST, known: Set[str]) -> set[str]:
    """The modules that a module imports anywhere in it, in functions and for types as well."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in known else node.module)
    return found & known


def circles(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module. Tarjan's algorithm, without recursion."""
    numbers: dict[str, int] = {}
    lows: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []
    for start in sorted(graph):
        if start in numbers:
            continue
        numbers[start] = lows[start] = len(numbers)
        path.append(start)
        work = [(start, iter(sorted(graph[start])))]
        while work:
            module, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lows[work[-1][0]] = min(lows[work[-1][0]], lows[module])
                if lows[module] == numbers[module]:
                    at = path.index(module)
                    if len(path) - at > 1:
                        found.append(sorted(path[at:]))
                    del path[at:]
            elif following not in numbers:
                numbers[following] = lows[following] = len(numbers)
                path.append(following)
                work.append((following, iter(sorted(graph[following]))))
            elif following in path:
                lows[module] = min(lows[module], numbers[following])
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    paths = modules()
    known = paths.keys()
    assert len(known) > 500
    graph = {name: imports(ast.parse(path.read_text("utf-8")), known) - {name} for name, path in paths.items()}
    assert not circles(graph)


def test_circles_are_found() -> None:
    graph: dict[str, set[str]] = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    source = ast.parse("if TYPE_CHECKING:\n    from a import b\ndef f():\n    import c.d\nfrom a.x import y")
    assert imports(source, {"a", "a.b", "a.x", "c.d"}) == {"a.b", "c.d", "a.x"}
