"""The runtime is made of parts that have each other: none sets what another one declares, none is its own owner's."""

import ast
from pathlib import Path
from typing import Final

from coordinator.runtime.engine import Engine
from coordinator.runtime.node import Node
from coordinator.runtime.world import World
from tests.server.in_memory import InMemory

COORDINATOR: Final = Path(__file__).parents[2] / "coordinator"
OWNERS: Final = (
    "engine",
    "node",
    "node()",
    "world",
    "group_commit",
    "memory",
    "shard",
)  # names of a node and its parts


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


def test_no_class_inherits_from_another_one() -> None:
    found = classes()
    for name, cls in found.items():
        assert not {ast.unparse(base) for base in cls.bases} & found.keys(), name


def made_with_self(tree: ast.AST) -> list[str]:
    """The objects that are made with the one that makes them."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [
        call.func.id
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id[0].isupper()
        for one in (*call.args, *[keyword.value for keyword in call.keywords])
        if isinstance(one, ast.Name) and one.id == "self"
    ]


def test_no_part_is_made_with_its_owner() -> None:
    assert made_with_self(ast.parse("DataPlane(files, self)\nState(runtime=self)\nedge.attempt(self)")) == [
        "DataPlane", "State",
    ]  # fmt: skip
    for name, cls in classes().items():
        assert not made_with_self(cls), name


def test_nobody_else_sets_what_a_node_its_parts_or_a_shard_has() -> None:
    node: Node = InMemory().node
    engine: Engine = node.engine
    world: World = node.world
    parts = (node, world, engine, engine.memory, engine.group_commit, world.partitions[0].shard)
    public = {name for part in parts for name in part.__dict__ if not name.startswith("_")}
    assert {"ledger", "dataplane", "share_states", "group_commit", "note_input", "upkeep", "topics"} <= public
    found = [
        (path.name, ast.unparse(one), one.lineno)
        for path in sorted(COORDINATOR.rglob("*.py"))
        for one in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and one.attr in public
        if ast.unparse(one.value).endswith(OWNERS)
    ]
    assert not found
