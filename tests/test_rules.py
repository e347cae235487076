"""Every rule of the rule book is shown by a test, or it is said here why nothing here can show it.

The rule book is the project's own, of how Kafka behaves; docs/rules.md says in a line what each number is about.
A rule counts as shown only where it marks something that is compared: in `@pytest.mark.rule("...")` of a test function,
in the first argument of a story's `@story("...")`, and in the comment at the head of a script's block that has output.
Other comments and docstrings do not count. What is excused must be no rule that a test shows: a row that has become
untrue fails.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from tests.core.script import DASHES

HERE = Path(__file__).parent
CONSUMER_CHAPTERS = ("acl_*.py", "consumer_*.py", "migration.py", "group_configs.py")

RULES = {  # by prefix: the numbers that the rule book has
    "C": "1-7 10-16 20-23 30-33 100-102 110-117 120-125 130-143 150-161 165-172 175-182 200-215 250-256 300-316 350-360 "
    "400-401 410-414 420-424 430-438 500-505",
    "O": "1-8 20-32 40-52 100-102 110-123 130-138 200-219 300-309 400-410 420-422",
    "A": "1-14 100-109 300-309",
    "F": "1-19",
    "G": "1-5 10-22 30-32 40-48 50-54",
    "R": "1-4 10-14 20-23 40-47 50-54 60-74",
    "L": "1-18",
    "Q": "1-42",
    "T": "1-20",
    "V": "1-7",
    "K": "1-402",  # consumer groups
    "H": "1-26 101-115 201-219 231-238",  # share groups
    "S": "1-37",  # streams groups
}
LAST_SETTING = "K-028"  # the book of classic groups counts settings by the same letter

EXCUSED = {  # why a rule has no place in one server of this kind
    "a failed append ends the process, and the next start reads what was written: there is nothing to take back": (
        "C-207 C-424 G-046 G-047 G-051 G-053 O-219 K-107 K-166 K-306 K-376 K-378 K-383 to K-387"
    ),
    "one node owns every partition from its start to its end; what it stops with are its connections": (
        "F-009 F-019 G-041 L-016 O-210 K-005 K-175 K-388 K-389 K-392 K-393 K-395"
    ),
    "the internal topics are there before the first client": "F-008 F-017",
    "a turn is a batch, which holds what its requests lead to, whatever its size": "O-048 K-379 K-380 K-381",
    "there are no clusters before KRaft and no brokers before 4.2": "C-401 K-064",
    "what is slow is resolved between two turns: there are no tasks to be scheduled twice": "K-397",
    "a summary of other rules, or advice": "K-011 K-110",
    "consumer groups are always enabled": "K-002",
    "Kafka's own names of metrics": "O-136 K-080 K-399 to K-401",
}


def expanded(text: str) -> Iterator[str]:
    """The rules that a text names: `C-110`, and all of `C-110 to C-112` or `K-012 ... K-021`."""
    for prefix, first, last in re.findall(r"\b([A-Z])-(\d{3})(?: (?:to|\.\.\.) \1-(\d{3}))?\b", text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}-{number:03}"


def rules() -> set[str]:
    return {
        f"{prefix}-{number:03}"
        for prefix, text in RULES.items()
        for part in text.split()
        for number in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
    }


def marked_tests(source: str) -> Iterator[str]:
    """The texts of the markers `rule` of a module's test functions, and of the module where all of it is about them."""
    for function in ast.parse(source).body:
        if isinstance(function, ast.Assign) and ast.unparse(function.targets[0]) == "pytestmark":
            calls = (one for one in ast.walk(function.value) if isinstance(one, ast.Call))
            yield from (ast.literal_eval(one.args[0]) for one in calls if ast.unparse(one.func) == "pytest.mark.rule")
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_"):
            yield from _first_arguments(function, "pytest.mark.rule")


def told_stories(source: str) -> Iterator[str]:
    """The first arguments of a chapter's decorators `story`."""
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            yield from _first_arguments(function, "story")


def _first_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == name:
            yield ast.literal_eval(decorator.args[0])


def heads_of_blocks(script: str) -> Iterator[str]:
    """The comments above the first command of each block that has output."""
    for block in script.split("\n\n"):
        head = list(takewhile(lambda line: line.startswith("#"), block.strip("\n").split("\n")))
        if f"\n{DASHES}\n" in block:
            yield " ".join(line.removeprefix("#") for line in head)


def is_setting(rule: str, path: Path) -> bool:
    """Whether a K is the number of a setting: it is in the stories about all that is no consumer group."""
    elsewhere = not any(path.match(chapter) for chapter in CONSUMER_CHAPTERS)
    return elsewhere and rule.startswith("K") and rule <= LAST_SETTING


def shown() -> set[str]:
    """The rules that tests, stories and scripts are marked with."""
    tests = (text for path in HERE.rglob("test_*.py") for text in marked_tests(path.read_text()))
    scripts = (text for path in HERE.glob("core/scripts/**/*.txt") for text in heads_of_blocks(path.read_text()))
    stories = {
        rule
        for path in HERE.glob("conformance/stories/*.py")
        for text in told_stories(path.read_text())
        for rule in expanded(text)
        if not is_setting(rule, path)
    }
    return stories | {rule for text in (*tests, *scripts) for rule in expanded(text)}


def list_rules(table: Mapping[str, str]) -> list[str]:
    return [rule for text in table for rule in expanded(text)]


EXCUSES = {rules: reason for reason, rules in EXCUSED.items()}


def test_every_rule_is_shown_or_excused() -> None:
    assert sorted(rules() - shown() - set(list_rules(EXCUSES))) == []


def test_what_is_shown_is_a_rule() -> None:
    assert sorted(shown() - rules()) == []


def test_every_rule_can_be_looked_up() -> None:
    """docs/rules.md has each of them once, and no other."""
    page = (HERE.parent / "docs" / "rules.md").read_text("utf-8")
    heads = re.findall(r"^- \*\*(.+?)\*\* \S", page, re.MULTILINE)
    assert sorted(rule for head in heads for rule in expanded(head)) == sorted(rules())


def test_nothing_is_excused_that_a_test_shows() -> None:
    excused = list_rules(EXCUSES)
    assert len(excused) == len(set(excused))
    assert set(excused) <= rules()
    assert sorted(set(excused) & shown()) == []


def test_only_marks_count() -> None:
    module = """
# C-001
@pytest.mark.rule("C-002 C-010 to C-012")
@pytest.mark.parametrize("one", [1])
def test_that_shows() -> None:
    'C-003'

@pytest.mark.rule("C-004")
def helper() -> None: ...

@story("T-001", "busy")
def a_story(k) -> None:
    'T-002'
"""
    assert list(marked_tests(module)) == ["C-002 C-010 to C-012"]
    assert set(expanded("C-002 C-010 to C-012")) == {"C-002", "C-010", "C-011", "C-012"}
    assert list(told_stories(module)) == ["T-001"]
    script = "# C-001: not compared.\ntopics t:1\n\n# C-002, C-003:\n# C-004.\nadvance 1s\n# C-005\n----\nnow 0:01\n"
    (head,) = heads_of_blocks(script)
    assert list(expanded(head)) == ["C-002", "C-003", "C-004"]
