"""The runtime is made of parts that have each other: none sets what another one declares, none is its own owner's."""

import ast
from pathlib import Path
from typing import Final

from coordinator.runtime.engine import Engine
from coordinator.runtime.node import Node
from coordinator.runtime.world import World
from tests.server.in_memory import InMemory

COORDINATOR: Final = Path(__file__).parents[2] / "coordinator"
OWNERS: Final = ("engine", "node", "node()", "world")  # the names that a node and its parts go by


def assigned(cls: ast.ClassDef) -> tuple[set[str], set[str]]:
    """The attributes that a class declares without a value, and those that it gives one."""
    empty = [node.target for node in ast.walk(cls) if isinstance(node, ast.AnnAssign) and node.value is None]
    declared = {target.attr for target in empty if isinstance(target, ast.Attribute)}
    given = {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node not in empty
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return declared, given


def classes() -> dict[str, ast.ClassDef]:
    """All classes of the runtime."""
    return {
        node.name: node
        for path in sorted((COORDINATOR / "runtime").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    }


def test_what_a_class_declares_it_gives_a_value_itself() -> None:
    found = classes()
    assert len(found) > 30
    for name, cls in found.items():
        declared, given = assigned(cls)
        assert declared <= given, name
    ours = ast.parse("class A:\n def __init__(self):\n  self.a: int\n  self.b: int\n  self.b = 1").body[0]
    assert isinstance(ours, ast.ClassDef)
    assert assigned(ours) == ({"a", "b"}, {"b"})


def test_a_node_sets_nothing_of_its_engine() -> None:
    found = classes()
    assert Node.__mro__[1] is Engine
    _, of_engine = assigned(found["Engine"])
    _, of_node = assigned(found["Node"])
    assert not of_engine & of_node


def test_nobody_else_sets_what_a_node_or_its_world_has() -> None:
    node: Node = InMemory().node
    world: World = node.world
    public = {name for name in node.__dict__.keys() | world.__dict__.keys() if not name.startswith("_")}
    assert {"ledger", "dataplane", "share_states", "group_commit", "note_input", "upkeep"} <= public
    found = [
        (path.name, ast.unparse(one), one.lineno)
        for path in sorted(COORDINATOR.rglob("*.py"))
        for one in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and one.attr in public
        if ast.unparse(one.value).endswith(OWNERS)
    ]
    assert not found
