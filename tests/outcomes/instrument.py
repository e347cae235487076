"""Let each function, condition, comparison of order and loop of a module note how it comes out."""

import ast
from typing import Final, TypeVar

from msgspec import Struct

SEEN: Final = "muster_outcomes"  # what instrumented code calls, among the builtins
COMPILED: Final = "compile_kernel"  # the decorator of functions that become machine code
ORDERS: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
LEFT_ALONE: Final = ("TYPE_CHECKING", "__name__ == '__main__'")  # conditions that only one process could see

RUN: Final = ("run",)
CONDITION: Final = ("true", "false")
COMPARISON: Final = ("true", "false", "equal")
LOOP: Final = ("empty", "one", "many")

Definition = TypeVar("Definition", ast.FunctionDef, ast.AsyncFunctionDef)
Node = TypeVar("Node", bound=ast.AST)


class Point(Struct, frozen=True):
    """A place, with the names of its outcomes. The bytes that note them follow each other, from `first` on."""

    first: int
    path: str
    line: int
    function: str
    text: str
    outcomes: tuple[str, ...]

    def list_missing(self, seen: bytes) -> list[str]:
        """Return the outcomes that were not seen."""
        return [name for number, name in enumerate(self.outcomes, self.first) if not seen[number]]


class Instrument(ast.NodeTransformer):
    """Put the calls into a module's tree, and list its points. Assertions are left alone."""

    def __init__(self, path: str, first: int) -> None:
        self.points: list[Point] = []
        self.next = first
        self._path = path
        self._names: list[str] = []  # of the classes and functions around

    def _add(self, node: ast.AST, text: str, outcomes: tuple[str, ...]) -> ast.Constant:
        line: int = getattr(node, "lineno", 0)
        self.points.append(Point(self.next, self._path, line, ".".join(self._names), text, outcomes))
        number = ast.Constant(self.next)
        self.next += len(outcomes)
        return number

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def _visit_function(self, node: Definition) -> Definition:
        if any(COMPILED in ast.unparse(decorator) for decorator in node.decorator_list):
            return node
        self._names.append(node.name)
        if not all(isinstance(one, ast.Expr | ast.Pass | ast.Raise) for one in node.body):
            number = self._add(node, f"def {node.name}", RUN)
            self.generic_visit(node)
            node.body.insert(0 if ast.get_docstring(node) is None else 1, _note_run(number))
        self._names.pop()
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) in LEFT_ALONE:
            return node
        node.test = self._note_condition(node.test)
        return self._visit_fields(node, "body", "orelse")

    def visit_While(self, node: ast.While) -> ast.AST:
        if not isinstance(node.test, ast.Constant):
            node.test = self._note_condition(node.test)
        return self._visit_fields(node, "body", "orelse")

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._note_loop(node.target, node.iter)
        return self._visit_fields(node, "body", "orelse")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        number = self._add(node, f"except {ast.unparse(node.type) if node.type else ''}", RUN)
        self._visit_fields(node, "body")
        node.body.insert(0, _note_run(number))
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        number = self._add(node.pattern, f"case {ast.unparse(node.pattern)}", RUN)
        if node.guard is not None:
            node.guard = self._note_condition(node.guard)
        self._visit_fields(node, "body")
        node.body.insert(0, _note_run(number))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._note_condition(node.test)
        return self._visit_fields(node, "body", "orelse")

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        *others, last = node.values  # the last one's value may be no truth, and is what the whole gives
        node.values = [*map(self._note_condition, others), self.visit(last)]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if not node.is_async:
            node.iter = self._note_loop(node.target, node.iter)
        node.ifs = [*map(self._note_condition, node.ifs)]
        return node

    def _note_loop(self, target: ast.expr, goes_through: ast.expr) -> ast.expr:
        number = self._add(target, f"for {ast.unparse(target)} in {ast.unparse(goes_through)}", LOOP)
        return _call("loop", number, self.visit(goes_through))

    def _note_condition(self, node: ast.expr) -> ast.expr:
        """Note how the parts of a condition come out that `and`, `or` and `not` put together."""
        if isinstance(node, ast.BoolOp):
            node.values = [*map(self._note_condition, node.values)]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self._note_condition(node.operand)
            return node
        text = ast.unparse(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in ORDERS:
            number = self._add(node, text, COMPARISON)
            order = ast.Constant(ORDERS[type(node.ops[0])])
            return _call("compare", number, order, self.visit(node.left), self.visit(node.comparators[0]))
        number = self._add(node, text, CONDITION)
        return _call("condition", number, self.visit(node))

    def _visit_fields(self, node: Node, *fields: str) -> Node:
        for field in fields:
            value = getattr(node, field)
            setattr(node, field, [self.visit(one) for one in value] if isinstance(value, list) else self.visit(value))
        return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(SEEN, ast.Load()), name, ast.Load()), [*arguments], [])


def _note_run(number: ast.Constant) -> ast.Expr:
    return ast.Expr(_call("run", number))
