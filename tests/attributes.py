"""Find the code that writes attributes of other objects, by the syntax tree."""

import ast
from collections.abc import Iterator
from typing import Final

CHANGES: Final = frozenset({"append", "clear", "extend", "insert", "pop", "remove"})  # of a list


def writes(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the attributes of other objects that are written, and the lines: set, deleted, or changed as a list, under
    a name of its own as well."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        names: dict[str, str] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    names |= _names(target, node.value)
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and _is_other(node):
                yield node.attr, node.lineno
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                changed = node.func.value
                if isinstance(changed, ast.Attribute) and _is_other(changed):
                    yield changed.attr, node.lineno
                elif isinstance(changed, ast.Name) and changed.id in names:
                    yield names[changed.id], node.lineno


def _names(target: ast.expr, value: ast.expr) -> dict[str, str]:
    """Names that an assignment gives to attributes of other objects."""
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=True))
    return {
        left.id: right.attr
        for left, right in pairs
        if isinstance(left, ast.Name) and isinstance(right, ast.Attribute) and _is_other(right)
    }


def _is_other(attribute: ast.Attribute) -> bool:
    return not (isinstance(attribute.value, ast.Name) and attribute.value.id in {"self", "cls"})
