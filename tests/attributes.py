"""Find the code that writes attributes of other objects, by the syntax tree."""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

CHANGES: Final = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
     "setdefault", "update"}
)  # fmt: skip
"""Methods that change a collection."""


class Write(NamedTuple):
    """An attribute that is written, and the name of the object that has it: the last one of `self._outbox.held`."""

    owner: str
    field: str
    line: int


def writes(tree: ast.AST) -> Iterator[Write]:
    """Yield the attributes of other objects that are written: set, deleted, or changed as a collection, under a name of
    its own as well."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        names: dict[str, ast.Attribute] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    names |= _names(target, node.value)
        for node in ast.walk(function):
            written: ast.expr | None = None
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                written = node
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                written = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                written = node.func.value
            if isinstance(written, ast.Name):
                written = names.get(written.id)
            if isinstance(written, ast.Attribute) and _is_other(written):
                yield Write(_last_name(written.value), written.attr, written.lineno)


def _names(target: ast.expr, value: ast.expr) -> dict[str, ast.Attribute]:
    """Names that an assignment gives to attributes of other objects."""
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=True))
    return {
        left.id: right
        for left, right in pairs
        if isinstance(left, ast.Name) and isinstance(right, ast.Attribute) and _is_other(right)
    }


def _last_name(owner: ast.expr) -> str:
    if isinstance(owner, ast.Attribute):
        return owner.attr.lstrip("_")
    return owner.id.lstrip("_") if isinstance(owner, ast.Name) else ""


def _is_other(attribute: ast.Attribute) -> bool:
    return not (isinstance(attribute.value, ast.Name) and attribute.value.id in {"self", "cls"})
