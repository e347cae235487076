"""The slips that `python -m tests.mutation --operators slips` plants are what their kinds say, and are code."""

import ast

import pytest

from tests.mutation.slips import Slips

CASES = {
    "forgotten": ("self.total += 1", ["pass"]),
    "order": ("self.note(a)\n    self.save()", ["self.save()\n    self.note(a)"]),
    "guard": ("if a:\n        return 1", ["if False:\n        return 1"]),
    "operand": (
        "return a and b or c",
        ["return ((c))", "return ((a and b))", "return ((b)) or c", "return ((a)) or c"],
    ),
    "bound": ("return min(a + 1, b)", ["return (a + 1)", "return (b)", "return min((a), b)"]),
    "choice": ("return a if b else c", ["return (a)", "return (c)"]),
    "filter": ("return [x for x in a if b]", ["return [x for x in a if True]"]),
    "slice": ("return a[:b]", ["return a[:]"]),
    "arguments": ("return f(a, b)", ["return f((b), (a))"]),
    "field": ("return a.ü + a.second", ["return a.second + a.second", "return a.ü + a.ü"]),
}


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_changes_what_it_says(kind: str) -> None:
    body, expected = CASES[kind]
    text = f"def f(self, a, b, c):\n    {body}\n"
    slips = Slips(text)
    found = [slip.write(slips.source) for slip in slips.find(ast.parse(text).body[0]) if slip.kind == kind]
    assert found == [text.replace(body, one) for one in expected]
    for one in found:
        ast.parse(one)
