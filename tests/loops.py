"""Loops over what a client names, or over what the server holds, that do not give way: found by the syntax tree.

What this sees. In the folders of `FOLDERS`, of each function with its own body (not of functions within it):

- a `for` and a comprehension, and a call of a builtin of `CALLERS`, which calls a function of Python for each entry, is
  looked at if what it goes through reads a field of `request` (or `effect`, `verb`, `told`), or of a variable that such a loop has given
  (`for topic in request.topics: for one in topic.partitions`), or has an attribute of `STATE`, by which the server's
  state is called everywhere, or is a call of a generator of ours, which may walk anything, or a variable that was
  assigned from any of these (`names = sorted(request.names)`);
- a builtin of `COLLECTORS` that is given a generator of ours (`list(offsets.keys(group_id))`) is a loop as well;
- it gives way if its body yields itself. What is given to `map_in_steps` or `chain_steps` is no loop of the function.

What this does not see: copies that builtins make (`sorted`, `tuple`, `dict`, `b"".join`) without calling a function,
which take some ten nanoseconds an entry, state that a function gets as an argument of another name, `in` a tuple,
recursion, how often a function is called, and whether a bound that is said is true. `python -m tests.worst` measures;
this finds what nobody has thought of.
"""

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("core", "dataplane", "runtime", "control", "admin", "server/verbs")  # of `coordinator`
STATE: Final = frozenset({  # private ones too: the store of offsets has `_committed`
    "acls", "committed", "detached", "loads", "pending", "by_id", "configs", "entries", "groups", "initialized", "logs", "members", "offsets", "partitions",
    "producers", "quotas", "resources", "scram", "targets", "topics", "topics_by_name", "transactions",
})  # fmt: skip
INPUTS: Final = frozenset({"request", "effect", "verb", "told"})  # what somebody asks for, by the names of arguments
PACED: Final = frozenset({"chain_steps", "map_in_steps"})
COLLECTORS: Final = frozenset({"all", "any", "dict", "frozenset", "list", "set", "sum", "tuple"})
CALLERS: Final = frozenset({"filter", "map", "max", "min", "sorted", "sort", "starmap"})
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Loop(NamedTuple):
    """A loop that does not give way."""

    path: str  # below `coordinator`
    function: str
    line: int
    goes_through: str


def find_loops(root: Path = ROOT / "coordinator", folders: tuple[str, ...] = FOLDERS) -> list[Loop]:
    """All such loops of the folders."""
    return [
        loop
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        for loop in loops_of(path.read_text("utf-8"), path.relative_to(root).as_posix())
    ]


def loops_of(source: str, path: str) -> list[Loop]:
    """Those of one module."""
    return list(_loops_in(ast.parse(source), path, ()))


def _loops_in(node: ast.AST, path: str, names: tuple[str, ...]) -> Iterator[Loop]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _loops_of_function(child, path, (*names, child.name))
        inner = (
            (*names, child.name) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else names
        )
        yield from _loops_in(child, path, inner)


def _loops_of_function(function: ast.AST, path: str, names: tuple[str, ...]) -> Iterator[Loop]:
    own = list(_own_nodes(function))
    named = set(INPUTS)
    while more := _targets_of(own, named) - named:
        named |= more
    assigned = _assigned_from(own, named)
    for node in own:
        if isinstance(node, ast.For) and _gives_way(node):
            continue
        for source in [source for source, _ in _sources(node)] + _called_over(node) + _find_collected_generators(node):
            if _is_sized_by_others(source, named) or _names_in(source) & assigned:
                yield Loop(path, ".".join(names), source.lineno, ast.unparse(source))


def _assigned_from(nodes: list[ast.AST], named: set[str]) -> set[str]:
    """The variables that have what a client or the state sizes."""
    assigned: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if _is_sized_by_others(value, named):
            assigned |= {target.id for target in targets if isinstance(target, ast.Name)}
    return assigned


def _called_over(node: ast.AST) -> list[ast.expr]:
    """What a builtin goes through that calls a function for each entry."""
    if not isinstance(node, ast.Call):
        return []
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name not in CALLERS:
        return []
    if name in ("filter", "map", "starmap"):
        return [] if isinstance(node.args[0], ast.Name) and node.args[0].id in dir(builtins) else node.args[1:]
    if not any(keyword.arg == "key" for keyword in node.keywords):
        return []
    return [node.func.value] if isinstance(node.func, ast.Attribute) and name == "sort" else node.args


def _find_collected_generators(node: ast.AST) -> list[ast.expr]:
    """Return the generators of ours that a builtin collects: each is a loop of Python, wherever it stands."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COLLECTORS):
        return []
    return [one for one in node.args if isinstance(one, ast.Call) and _name_of(one.func) in generators()]


def _is_generator_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name_of(node.func) in generators() - PACED


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@cache
def generators(root: Path = ROOT / "coordinator") -> frozenset[str]:
    """The names of functions of ours that yield, but for those that give way by it."""
    return frozenset(
        node.name
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in _own_nodes(node))
    )


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _own_nodes(child)


def _sources(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What a loop goes through, and the variables that it gives."""
    if isinstance(node, ast.For):
        return [(node.iter, node.target)]
    if isinstance(node, _COMPREHENSIONS):
        return [(one.iter, one.target) for one in node.generators]
    return []


def _targets_of(nodes: list[ast.AST], named: set[str]) -> set[str]:
    """The variables of loops that go through fields of named variables."""
    return {
        name.id
        for node in nodes
        for source, target in _sources(node)
        if _reads(source, named)
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }


def _is_sized_by_others(source: ast.expr, named: set[str]) -> bool:
    return _reads(source, named) or any(
        (isinstance(node, ast.Attribute) and node.attr.lstrip("_") in STATE) or _is_generator_call(node)
        for node in ast.walk(source)
    )


def _names_in(source: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(source) if isinstance(node, ast.Name)}


def _reads(source: ast.expr, named: set[str]) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in named
        for node in ast.walk(source)
    )


def _gives_way(loop: ast.For) -> bool:
    body = ast.Module(loop.body, [])
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(body))


if __name__ == "__main__":
    for found in find_loops():
        print(f"{found.path}:{found.line} {found.function}: {found.goes_through}")
