"""Slips of a programmer, found in the text of functions: what is forgotten, too wide, too narrow, or in another order.

mutmut's operators change a name, a number or a sign. These change what a reviewer looks for: a statement that is not
there, a guard that is missing, one operand of a condition, a bound that is off by one, a field for its neighbour, two
statements or two arguments in the other order, the branch of a choice.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

STRICTER: Final = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Slip(NamedTuple):
    """A change of some bytes of a file: what kind it is, where they begin and end, and what stands there instead."""

    kind: str
    start: int
    end: int
    text: bytes

    def write(self, source: bytes) -> str:
        """Return the file's text with the slip in it."""
        return (source[: self.start] + self.text + source[self.end :]).decode()


class Slips:
    """All slips of one file's functions."""

    def __init__(self, text: str) -> None:
        self.source = text.encode()
        self._lines = [0]
        for line in self.source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def find(self, function: ast.AST) -> Iterator[Slip]:
        """Yield the slips of one function, in the order of its nodes."""
        fields = self._fields_read(function)
        for node in ast.walk(function):
            for _, block in ast.iter_fields(node):
                if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                    yield from self._in_block(block)
            if isinstance(node, ast.If):
                yield from self._in_if(node)
            elif isinstance(node, ast.BoolOp):
                yield from self._without_an_operand(node)
            elif isinstance(node, ast.Compare):
                yield from self._off_by_one(node)
            elif isinstance(node, ast.IfExp):
                yield self._replace("choice", node, self._text(node.body))
                yield self._replace("choice", node, self._text(node.orelse))
            elif isinstance(node, ast.BinOp):
                if isinstance(node.right, ast.Constant) and node.right.value == 1:
                    yield self._replace("bound", node, self._text(node.left))
            elif isinstance(node, ast.comprehension):
                for test in node.ifs:
                    yield self._replace("filter", test, b"True")
            elif isinstance(node, ast.Slice):
                yield from (self._replace("slice", one, b"") for one in (node.lower, node.upper) if one is not None)
            elif isinstance(node, ast.Call):
                yield from self._in_call(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if isinstance(node.ctx, ast.Load) and node.attr in (others := fields.get(node.value.id, [])):
                    other = others[others.index(node.attr) - 1]
                    if other != node.attr:
                        yield self._replace("field", node, f"{node.value.id}.{other}".encode())

    def _at(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert (
            isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno is not None and node.end_col_offset is not None
        )
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.AST) -> bytes:
        start, end = self._span(node)
        return b"(" + self.source[start:end] + b")" if isinstance(node, ast.expr) else self.source[start:end]

    def _replace(self, kind: str, node: ast.AST, text: bytes) -> Slip:
        return Slip(kind, *self._span(node), text)

    def _in_block(self, block: list[ast.stmt]) -> Iterator[Slip]:
        for statement in block:
            if _can_be_forgotten(statement):
                yield self._replace("forgotten", statement, b"pass")
        for first, second in pairwise(block):
            if _can_be_forgotten(first) and _can_be_forgotten(second) and _may_depend(first, second):
                start, end = self._span(first)
                begin, stop = self._span(second)
                between = self.source[end:begin]
                yield Slip("order", start, stop, self.source[begin:stop] + between + self.source[start:end])

    def _in_if(self, node: ast.If) -> Iterator[Slip]:
        if not node.orelse and isinstance(node.body[-1], LEAVING):
            yield self._replace("guard", node.test, b"False")
        elif not node.orelse:
            yield self._replace("guard", node.test, b"True")

    def _without_an_operand(self, node: ast.BoolOp) -> Iterator[Slip]:
        word = b" and " if isinstance(node.op, ast.And) else b" or "
        for left_out in node.values:
            rest = [self._text(one) for one in node.values if one is not left_out]
            yield self._replace("operand", node, b"(" + word.join(rest) + b")")

    def _off_by_one(self, node: ast.Compare) -> Iterator[Slip]:
        if len(node.ops) == 1 and (sign := STRICTER.get(type(node.ops[0]))) is not None:
            sides = self._text(node.left), self._text(node.comparators[0])
            yield self._replace("bound", node, f" {sign} ".encode().join(sides))

    def _in_call(self, node: ast.Call) -> Iterator[Slip]:
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and len(node.args) > 1:
            yield from (self._replace("bound", node, self._text(one)) for one in node.args)
        for first, second in pairwise(node.args):
            if all(isinstance(one, (ast.Name, ast.Attribute)) for one in (first, second)):
                (start, _), (_, end) = self._span(first), self._span(second)
                yield Slip("arguments", start, end, self._text(second) + b", " + self._text(first))

    @staticmethod
    def _fields_read(function: ast.AST) -> dict[str, list[str]]:
        """Return the fields of each name that are read, not called, in the order in which they stand first."""
        called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
        fields: dict[str, list[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
                known = fields.setdefault(node.value.id, [])
                if id(node) not in called and node.attr not in known:
                    known.append(node.attr)
        return fields


def _can_be_forgotten(node: ast.stmt) -> bool:
    """Whether a statement only changes something that is there before and after: names stay bound without it."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, (ast.Call, ast.Await, ast.YieldFrom))
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else ()
    return isinstance(node, ast.AugAssign) or (
        bool(targets) and all(isinstance(one, (ast.Attribute, ast.Subscript)) for one in targets)
    )


def _may_depend(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether the order of two statements may matter: both call something, or they name the same field."""
    if all(isinstance(one, ast.Expr) for one in (first, second)):
        return True
    names = [{node.attr for node in ast.walk(one) if isinstance(node, ast.Attribute)} for one in (first, second)]
    return bool(names[0] & names[1])
