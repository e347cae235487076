"""Every rule about consumer groups has a test that names it, here or where the table says; nothing is left out unseen."""

import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[2]
LAST_RULE = 402

# Rules that are no consumer group's business, each with the place that answers for it.
ELSEWHERE: dict[str, tuple[int, ...]] = {
    "the server: what is enabled, who may do what, errors of a server that is starting or stopping": (
        *(1, 2, 3, 4, 5, 6, 7, 8), 258, 302, 306, 314, 319, 320, 321, 325, 332, 335, 391, 395,
    ),
    "the message and its schema: an id and no name, the documented errors, no API for assignors of clients": (10, 11, 402),
    "versions before 4.3, which are not built": (23, 64, 281),
    "offsets, for groups of both kinds": (287, 288, 289, 290, 291, 293, 301, 303, 304, 331, 366),
    "ListGroups, for groups of both kinds": (322, 323, 324),
    "records, for groups of both kinds": (345, 346, 348),
    "share and streams groups, which there are none of": (230,),
    "what a failed append would undo: a failed append ends the process, and the log is the truth": (
        107, 150, 166, 186, 315, 374, 375, 376, 378, 383, 384, 385, 386,
    ),
    "one node that never moves: loading and the turn, in the runtime": (
        175, 370, 371, 372, 373, 379, 380, 381, 382, 387, 388, 389, 390, 392, 393, 394, 397,
    ),
    "metrics": (80, 399, 400, 401),
    "timers, for groups of both kinds": (173,),
    "a recommendation about caches": (110,),
}  # fmt: skip


def named() -> Iterator[int]:
    """The rules that tests name: `K-012`, or `K-012 ... K-021` for all between."""
    for folder in (TESTS / "core", TESTS / "conformance" / "assignors"):
        for path in (*folder.rglob("*.py"), *folder.rglob("*.txt")):
            for first, last in re.findall(r"K-(\d{3})(?: \.\.\. K-(\d{3}))?", path.read_text()):
                yield from range(int(first), int(last or first) + 1)


def test_every_rule_is_named_by_a_test_or_is_somebody_else_s() -> None:
    elsewhere = [rule for rules in ELSEWHERE.values() for rule in rules]
    assert len(elsewhere) == len(set(elsewhere))
    here = set(named())
    assert sorted(set(range(1, LAST_RULE + 1)) - here - set(elsewhere)) == []
    assert max(here) <= LAST_RULE
