"""Each field of a connection has one writer: who wants to know why it changes reads one file."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coordinator.server.connection import Connection

COORDINATOR: Final = Path(__file__).parents[2] / "coordinator"
OWN = "connection"  # the class itself

WRITERS: Final = {
    "authentication": OWN,
    "backlog": OWN,
    "client_id": OWN,
    "closing": OWN,
    "frames": OWN,
    "heard_s": OWN,
    "heartbeat": "request_handler",
    "heavy_until_s": OWN,
    "held": "outbox",
    "held_bytes": "outbox",
    "host": OWN,
    "is_blocked": "frontend",
    "is_muted": "quotas",
    "is_queued": "connections",
    "journal_client": "gate",
    "latest": "encoder",
    "listener": OWN,
    "number": OWN,
    "outgoing": "outbox",
    "outgoing_bytes": "outbox",
    "parked": "connections",
    "port": OWN,
    "principal": "connections",
    "repeated": OWN,
    "repeated_commit": OWN,
    "required_sync": "outbox",
}
"""By field, the module of `coordinator/server/` that writes it. Own fields are written by the class alone."""
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


def test_each_field_has_one_writer() -> None:
    assert set(WRITERS) == {name for name in Connection.__slots__ if not name.startswith("_")}
    found = [
        (path.relative_to(COORDINATOR).as_posix(), field, line)
        for path in sorted(COORDINATOR.rglob("*.py"))
        for field, line in writes(ast.parse(path.read_text("utf-8")))
        if field in WRITERS and path.relative_to(COORDINATOR).as_posix() != f"server/{WRITERS[field]}.py"
    ]
    assert not found
    others = {
        field
        for path in sorted((COORDINATOR / "server").rglob("*.py"))
        for field, _ in writes(ast.parse(path.read_text("utf-8")))
        if field in WRITERS
    }
    assert others == {field for field, writer in WRITERS.items() if writer != OWN}, "a writer that does not write"


def test_writes_are_found_however_they_are_written() -> None:
    source = """
def f(connection, link):
    connection.closing = True
    link.connection.held_bytes += 1
    a, connection.parked = 1, None
    del connection.latest
    connection.backlog.append(b"")
    queue, other = connection.held, 1
    queue.pop(0)
    self.outgoing = []
"""
    found = [field for field, _ in writes(ast.parse(source))]
    assert sorted(found) == ["backlog", "closing", "held", "held_bytes", "latest", "parked"]
