"""Small faults, one in one function each. mutmut's operators make them; here they are named, drawn and planted."""

import ast
import difflib
import gc
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from importlib import import_module
from inspect import getattr_static
from itertools import groupby, islice
from pathlib import Path
from types import CodeType, FunctionType

import libcst
from libcst.metadata import MetadataWrapper
from msgspec import Struct
from mutmut.mutation.file_mutation import Mutation, MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

from tests.mutation.areas import ELSEWHERE, EQUIVALENT
from tests.mutation.figures import Mutant
from tests.mutation.slips import Slips

STRICT = re.compile(r", strict=(True|False|None)|, (?=\))")
COLUMNS = re.compile(
    r'(F\.(col|max|min|sum|max_by|min_by|count|first|last|lag|lead|desc)|partitionBy|orderBy)\(("[\w.]+"(, )?)+'
)


TRANSPARENT = {"property", "cached_property", "staticmethod", "classmethod", "cache", "lru_cache", "contextmanager"}
"""Decorators whose function can be found again in what they make of it."""
WRAPPED = ("__wrapped__", "__func__", "fget", "func")  # where decorators keep what they have wrapped


class Candidate:
    """A fault that can be drawn. Its name stays the same while other functions change."""

    def __init__(self, path: Path, text: str, function: str, kind: str, number: int, write: partial[str]) -> None:
        self.name = f"{path}:{function}:{kind}{number}"
        self.kind = kind
        self.function = Function(path, text, function)
        self._write = write  # returns the file's text with the fault in it

    @cached_property
    def mutant(self) -> Mutant:
        texts = self.function.text.splitlines(), self._write().splitlines()
        diff = list(difflib.unified_diff(*texts, "", "", "", "", 0, ""))[2:]
        line = int(diff[0].split()[1].lstrip("-").partition(",")[0])
        before, after = (" ".join(text[1:].strip() for text in diff if text.startswith(sign)) for sign in "-+")
        if before == after:
            after += " behind what follows it"
        return Mutant(str(self.function.path), line, self.function.name, before, after)

    def is_equivalent(self) -> bool:
        """Whether nobody could see the fault.

        What only checks ourselves is left alone as well (assertions, `zip(strict=True)`), and so are default values of
        parameters, and whether names of Spark's columns are written small, to whom it is all the same.
        """
        before, after = (
            self.function.compile(COLUMNS.sub(lambda found: found[0].lower(), STRICT.sub("", text)), optimize=1)
            for text in (self.function.text, self._write())
        )
        return before == after or f"{self.mutant.function}: {self.mutant.after}" in EQUIVALENT

    def plant(self, copies: Path | None = None) -> None:
        """Give the function its faulty code, in this process, and in those that it starts if there is a folder for it.

        The folder that the module is imported from is copied into it, with the fault, and is found first.
        """
        self.function.replace(self.function.compile(self._write()))
        if copies is not None:
            path = self.function.path
            source = path.parents[len(module_name(path).split(".")) - (path.name != "__init__.py")]
            shutil.copytree(source, copies, dirs_exist_ok=True)
            (copies / path.relative_to(source)).write_text(self._write(), "utf-8")
            os.environ["PYTHONPATH"] = os.pathsep.join([str(copies), *filter(None, [os.environ.get("PYTHONPATH")])])
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # two faults may be as long, and of the same second


class Function(Struct, frozen=True):
    """A function or method of the product, in the text of its file."""

    path: Path
    text: str
    name: str

    def compile(self, source: str | ast.Module, optimize: int = -1) -> CodeType:
        """Return the function's code in a version of the file; 1 for `optimize` leaves assertions out."""

        def search(code: CodeType) -> Iterator[CodeType]:
            for constant in code.co_consts:
                if isinstance(constant, CodeType):
                    yield from [constant] if constant.co_qualname == self.name else search(constant)

        return next(search(compile(source, str(self.path.resolve()), "exec", optimize=optimize)))

    def replace(self, code: CodeType, **names: object) -> None:
        """Give the function another code, for whoever holds it, and some more names."""
        module = import_module(module_name(self.path))
        owner, _, name = self.name.rpartition(".")
        function = unwrap(getattr_static(getattr(module, owner) if owner else module, name))
        for old, new in pair_nested_functions(function.__code__, code):
            for closure in gc.get_referrers(old):  # made before, as the handlers in a table are
                if isinstance(closure, FunctionType) and old.co_freevars == new.co_freevars:
                    closure.__code__ = new
        function.__code__ = code
        function.__globals__.update(names)


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removeprefix("pytest-muster.src.").removesuffix(".__init__")


def unwrap(found: object) -> FunctionType:
    """Return the function that a decorator has wrapped: a method's, a property's, a context manager's."""
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        found = next(getattr(found, name) for name in WRAPPED if getattr(found, name, None) is not None)
    return found


def pair_nested_functions(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the functions inside a function as they were and as they are, if they are as many."""
    before, after = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    for pair in zip(before, after, strict=True) if len(before) == len(after) else ():
        yield pair
        yield from pair_nested_functions(*pair)


def plant_probes(candidates: Iterable[Candidate], reach: Callable[[str], None]) -> None:
    """Let the statement that holds a fault call `reach` with the fault's name before it runs, in this process."""
    for function, group in groupby(sorted(candidates, key=lambda one: one.name), key=lambda one: one.function):
        tree = ast.parse(function.text)
        blocks = [block for node in ast.walk(tree) for _, block in ast.iter_fields(node) if is_block(block)]
        for candidate in group:
            line = candidate.mutant.line
            around = [
                (statement.end_lineno - statement.lineno, number, block)
                for block in blocks
                for number, statement in enumerate(block)
                if statement.lineno <= line <= statement.end_lineno
            ]
            _, number, block = min(around, key=lambda one: one[0])
            probe = ast.parse(f"muster_reach({candidate.name!r})").body[0]
            block.insert(number, ast.fix_missing_locations(ast.copy_location(probe, block[number])))
        function.replace(function.compile(tree), muster_reach=reach)


def is_block(field: object) -> bool:
    return isinstance(field, list) and bool(field) and isinstance(field[0], ast.stmt)


def list_modules(folders: Iterable[str]) -> list[Path]:
    """Return the modules of some folders, sorted; a module may stand for itself."""
    paths = map(Path, folders)
    return sorted(path for one in paths for path in ([one] if one.is_file() else one.rglob("*.py")))


def find_candidates(folders: Iterable[str]) -> Iterator[Candidate]:
    """Yield all faults of some folders. Code of modules and class bodies, and of decorated functions, is left alone."""
    for path in list_modules(folders):
        text = path.read_text("utf-8")
        visitor = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
        module = MetadataWrapper(libcst.parse_module(text)).visit(visitor)
        names = dict(name_functions(module.body))
        numbers: Counter[str] = Counter()
        for mutation in visitor.mutations:
            name = names.get(mutation.contained_by_top_level_function)
            if name is not None and not f"{path}:{name}".startswith(ELSEWHERE):
                numbers[name] += 1
                yield Candidate(path, text, name, "", numbers[name], partial(write, module, mutation))


def find_slips(folders: Iterable[str]) -> Iterator[Candidate]:
    """Yield the slips of a programmer in the functions of some folders, those that are decorated as well."""
    for path in list_modules(folders):
        text = path.read_text("utf-8")
        slips = Slips(text)
        for name, function in name_definitions(ast.parse(text).body):
            numbers: Counter[str] = Counter()
            for slip in slips.find(function):
                numbers[slip.kind] += 1
                if not f"{path}:{name}".startswith(ELSEWHERE):
                    yield Candidate(path, text, name, slip.kind, numbers[slip.kind], partial(slip.write, slips.source))


def name_definitions(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions of a module and the methods of its classes, with their names: each name's only one."""
    functions = [one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    times = Counter(one.name for one in functions)
    for one in functions:
        decorators = {ast.unparse(decorator).partition("(")[0].rpartition(".")[2] for decorator in one.decorator_list}
        if times[one.name] == 1 and decorators <= TRANSPARENT:
            yield prefix + one.name, one
    for one in body:
        if isinstance(one, ast.ClassDef) and not prefix:
            yield from name_definitions(one.body, f"{one.name}.")


def name_functions(body: Iterable[libcst.CSTNode], prefix: str = "") -> Iterator[tuple[libcst.CSTNode | None, str]]:
    """Yield the functions of a module and the methods of its classes, with their names."""
    for child in body:
        if isinstance(child, libcst.FunctionDef):
            yield child, prefix + child.name.value
        elif isinstance(child, libcst.ClassDef) and not prefix:
            yield from name_functions(child.body.body, f"{child.name.value}.")


def write(module: libcst.Module, mutation: Mutation) -> str:
    """Return the module's text with the fault in it."""
    changed = deep_replace(module, mutation.original_node, mutation.mutated_node)
    assert isinstance(changed, libcst.Module), "a fault is smaller than its module"
    return changed.code


def draw(candidates: Iterable[Candidate], sample: int, seed: int) -> list[Candidate]:
    """Draw a sample, of each kind as many. Whether a fault is in it depends on its name and the seed, so that it changes
    little with the tree."""
    order = sorted(candidates, key=lambda candidate: random.Random(f"{seed} {candidate.name}").random())
    numbers: Counter[str] = Counter()
    turns: list[tuple[int, Candidate]] = []
    for candidate in order:
        numbers[candidate.kind] += 1
        turns.append((numbers[candidate.kind], candidate))
    turns.sort(key=lambda turn: turn[0])
    return list(islice((candidate for _, candidate in turns if not candidate.is_equivalent()), sample))
