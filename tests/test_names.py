"""A predicate asks, and changes nothing; functions are named by verbs or nouns: found by the syntax tree."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("coordinator", "protocol", "storage", "pipeline")
PREDICATES = ("is_", "has_", "can_", "may_", "are_", "have_", "was_", "owns_", "needs_")
CHANGES = frozenset(
    {"append", "appendleft", "pop", "popleft", "popitem", "remove", "discard", "clear", "extend", "insert", "open"}
)
COUNTS = frozenset({("coordinator/core/pace.py", "is_due")})
"""Generators ask a `Pace` at each of thousands of entries: its counter is nobody else's."""


def changes_of(function: ast.FunctionDef) -> Iterator[str]:
    """What a function changes that it has not made itself: attributes, items, collections and files."""
    made = {
        name.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.For)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [one for target in node.targets for one in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            targets = [node.func]
        for target in targets:
            root = target
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if root is not target and not (isinstance(root, ast.Name) and root.id in made):
                yield ast.unparse(target)


def impure_predicates(source: str) -> Iterator[tuple[str, list[str]]]:
    """The predicates of a module that change something, and what."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith(PREDICATES):
            if changes := list(changes_of(node)):
                yield node.name, changes


def test_a_predicate_changes_nothing() -> None:
    found = {
        (str(path.relative_to(ROOT)), name): changes
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for name, changes in impure_predicates(path.read_text("utf-8"))
    }
    assert found.keys() == COUNTS, found


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("self.seen = True", "self.seen"),
        ("self.counts['x'] += 1", "self.counts['x']"),
        ("self.a, self.b = 1, 2", "self.a"),
        ("self._logs.open(topic)", "self._logs.open"),
        ("del self.rates[0]", "self.rates[0]"),
        ("self.queue.pop()", "self.queue.pop"),
        ("own = {}; own['x'] = 1", None),
        ("found = []; found.append(1)", None),
    ],
)
def test_one_that_does_is_found(line: str, change: str | None) -> None:
    found = dict(impure_predicates(f"class A:\n    def _is_over(self, topic):\n        {line}\n        return True\n"))
    assert [changes[0] for changes in found.values()] == ([] if change is None else [change])


WITHOUT_SUBJECT = re.compile(
    r'(?:^|[.:;] |""" ?|# ?)(who(?:ever)? (?!is a\b|may do\b)[a-z]+s) ', re.MULTILINE | re.IGNORECASE
)


def test_a_sentence_names_its_subject() -> None:
    """ "Who asks gets one" makes its readers look for the one who asks: a client, a member, the caller."""
    found = [
        (str(path.relative_to(ROOT)), sentence)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for sentence in WITHOUT_SUBJECT.findall(path.read_text("utf-8"))
    ]
    assert not found


PREPOSITIONS = frozenset({"at", "by", "from", "in", "of", "to", "together", "with"})
PARTICIPLE_ENDINGS = ("ed", "ing", "able", "ible")
NO_PARTICIPLES = frozenset({"everything", "feed", "need", "nothing", "seed", "setting", "string", "table"})
NOUNS_BY_DECORATOR = ("property", "contextmanager")
"""A property says what its object is, and a context manager what holds while its block runs."""


def participles(source: str) -> Iterator[str]:
    """The functions of a module that are named by a participle or an adjective alone, as `_refused`, `readable` or
    `fenced_by`: it does not say of what."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, *others = node.name.strip("_").split("_")
            is_named_so = first.endswith(PARTICIPLE_ENDINGS) and first not in NO_PARTICIPLES
            is_noun = any(ast.unparse(one).endswith(NOUNS_BY_DECORATOR) for one in node.decorator_list)
            if is_named_so and not is_noun and PREPOSITIONS.issuperset(others) and not node.name.startswith("__"):
                yield node.name


def test_a_function_is_named_by_a_verb_or_a_noun() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for package in (*PACKAGES, "benchmarks", "deploy", "docs", "pytest-muster")
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in participles(path.read_text("utf-8"))
    }
    assert not found


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("def _refused(key): ...", True),
        ("async def fenced_by(group): ...", True),
        ("def seed(state): ...", False),
        ("def stored_value(key): ...", False),
        ("def readable(log): ...", True),
        ("def pending_of(group): ...", True),
        ("@cache\ndef shared(): ...", True),
        ("def _refuse(key): ...", False),
        ("def __missing__(self, key): ...", False),
        ("@contextmanager\ndef running(): ...", False),
        ("@property\ndef dropped(self): ...", False),
    ],
)
def test_a_participle_is_found(line: str, is_found: bool) -> None:
    assert bool(list(participles(line))) == is_found
