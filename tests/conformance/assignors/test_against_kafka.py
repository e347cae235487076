"""Our assignors answer what Apache Kafka 4.3.1's answered on the same input (K-187 ... K-210)."""

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from tests.conformance.assignors.questions import ours
from tests.conformance.assignors.record import RECORDED

PAIRS: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


def test_every_recorded_answer_is_ours() -> None:
    """Not a partition differs."""
    differing = [i for i, pair in enumerate(PAIRS) if ours(pair["question"]) != pair["answer"]]
    assert differing == []


def test_the_recorded_questions_are_many_and_of_every_kind() -> None:
    """At least 500, and enough of each kind that none hides behind another."""
    kinds = Counter((pair["question"]["assignor"], pair["question"]["homogeneous"]) for pair in PAIRS)
    assert len(PAIRS) >= 500
    assert min(kinds.values()) >= 40 and len(kinds) == 4
    assert sum(any(member[3] for member in pair["question"]["members"]) for pair in PAIRS) >= 300
    assert max(len(pair["question"]["members"]) for pair in PAIRS) >= 25


@pytest.mark.parametrize("wrong", ["shift", "swap"])
def test_the_comparison_can_fail(wrong: str) -> None:
    """An answer that is off by one partition, or that gives two members each other's, is noticed."""
    pair = next(
        pair
        for pair in PAIRS
        if len(pair["answer"]) > 1 and all(pair["answer"][:2]) and pair["answer"][0] != pair["answer"][1]
    )
    answer = json.loads(json.dumps(pair["answer"]))
    if wrong == "swap":
        answer[0], answer[1] = answer[1], answer[0]
    else:
        answer[0][0][1][0] += 1
    assert ours(pair["question"]) != answer
