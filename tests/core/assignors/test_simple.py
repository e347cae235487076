"""The assignor of share groups: Kafka's own assignments, and what any assignments must keep to."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from coordinator.core.assignors.hash_order import buckets_after_inserts, string_hash
from coordinator.core.assignors.spec import Assignment, GroupSpec
from tests.core.assignors.kafka_assignors.simple import Question, as_answer, assign, play, read_question

GOLDEN = Path(__file__).parent / "golden" / "simple-4.3.1.jsonl"


def test_assignments_are_those_of_kafka_s_class() -> None:
    """The questions and Kafka's answers are written by `python -m tests.core.assignors.kafka_assignors simple`."""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        assert as_answer(read_question(case["question"])) == case["answer"], line


@pytest.mark.parametrize("seed", range(40))
def test_each_assignable_partition_is_read_and_no_more_than_it_takes(seed: int) -> None:
    for question in play(Random(seed), 6, is_sound=True):
        assignments = assign(question)
        check_partitions(question, assignments)
        if question.spec.is_homogeneous:
            check_balance(question, assignments)


def check_partitions(question: Question, assignments: Mapping[str, Assignment]) -> None:
    """Each partition of a topic has a member, each of them subscribes to the topic, and they are no more than needed."""
    members = question.spec.members
    readers = Counter(topic_id for member in members.values() for topic_id in member.topics)
    shared = Counter(one for assignment in assignments.values() for one in list_partitions(assignment))
    targets = set(list_targets(question))
    assert {one for one in shared if one[0] in readers} == targets
    for member_id, assignment in assignments.items():
        assert {topic_id for topic_id, _ in list_partitions(assignment) if topic_id in readers} <= {
            *members[member_id].topics
        }
        assert all(list(held) == sorted(set(held)) for held in assignment.values())
    if question.spec.is_homogeneous:
        assert set(shared) == targets
        assert not targets or max(shared.values()) <= -(-len(members) // len(targets))
        return
    for topic_id, count in readers.items():
        sharing = [shared[one] for one in targets if one[0] == topic_id]
        assert not sharing or max(sharing) <= -(-count // len(sharing))


def check_balance(question: Question, assignments: Mapping[str, Assignment]) -> None:
    loads = [sum(map(len, assignments.get(member_id, {}).values())) for member_id in question.spec.members]
    assert max(loads) - min(loads) <= 1, loads


def list_partitions(assignment: Assignment) -> Iterator[tuple[bytes, int]]:
    return ((topic_id, partition) for topic_id, held in assignment.items() for partition in held)


def list_targets(question: Question) -> Iterator[tuple[bytes, int]]:
    for topic_id, count in question.spec.partition_counts.items():
        yield from ((topic_id, partition) for partition in question.assignable.get(topic_id, ()) if partition < count)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_members_decides_only_between_those_of_one_bucket(seed: int) -> None:
    """Kafka's HashMap yields members by their buckets, and those of one bucket in the order of their insertion."""
    dice = Random(seed)
    for question in play(dice, 4):
        members = question.spec.members
        mask = buckets_after_inserts(len(members)) - 1
        rank = dice.sample(range(mask + 1), mask + 1)
        shuffled = sorted(members, key=lambda member_id: rank[string_hash(member_id) & mask])
        spec = GroupSpec(
            {member_id: members[member_id] for member_id in shuffled},
            dict(reversed(question.spec.partition_counts.items())),
            question.spec.is_homogeneous,
        )
        assert assign(Question(spec, question.assignable)) == assign(question)
