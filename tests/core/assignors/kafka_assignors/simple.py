"""Random histories of share groups: what an assignor is asked, one question after the other."""

import base64
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from coordinator.core.assignors import simple
from coordinator.core.assignors.spec import Assignment, GroupSpec, MemberSpec

CHECKPOINTS_MAX = 5_000


class Question(NamedTuple):
    spec: GroupSpec
    assignable: Mapping[bytes, tuple[int, ...]]


class Topic(NamedTuple):
    count: int
    assignable: tuple[int, ...]


def assign(question: Question) -> Mapping[str, Assignment]:
    """Return the assignments. An assignor that would never end fails at a number of checkpoints that none needs."""
    steps = simple.assign(question.spec, question.assignable)
    for _ in range(CHECKPOINTS_MAX):
        try:
            next(steps)
        except StopIteration as end:
            assignments: Mapping[str, Assignment] = end.value
            return assignments
    raise AssertionError("the assignor does not end")


def play(dice: Random, questions: int, *, is_sound: bool = False) -> Iterator[Question]:
    """Yield the questions of one group, whose members, subscriptions and topics change.

    Where it `is_sound`, members hold no partition that may not be assigned: Kafka's class leaves them with it, and that
    counts among what they have.
    """
    every = {dice.randbytes(16): _draw_topic(dice) for _ in range(dice.choice((1, 1, 2, 3, 5)))}
    existing = list(every)
    are_alike = dice.random() < 0.5
    ids = [_draw_id(dice) for _ in range(dice.choice((1, 2, 3, 5, 8, 14, 26)))]
    members = {one: MemberSpec(_draw_subscription(dice, existing, are_alike)) for one in ids}
    for _ in range(questions):
        yield (question := _ask(members, every, existing))
        targets = assign(question)
        members = {one: MemberSpec(member.topics, targets.get(one, {})) for one, member in members.items()}
        if dice.random() < 0.5:
            _change_topics(dice, every, existing)
        if dice.random() < 0.2:
            are_alike = not are_alike
        members = _change_members(dice, members, existing, are_alike)
        if dice.random() < 0.3:
            members = _overshare(dice, members, every)
        if not is_sound and dice.random() < 0.2:
            _take_back(dice, every)


def _ask(members: Mapping[str, MemberSpec], every: Mapping[bytes, Topic], existing: list[bytes]) -> Question:
    subscribed = {topic_id for member in members.values() for topic_id in member.topics}
    is_homogeneous = len({member.topics for member in members.values()}) == 1
    counts = {topic_id: every[topic_id].count for topic_id in existing if topic_id in subscribed}
    assignable = {topic_id: topic.assignable for topic_id, topic in every.items() if topic.assignable}
    return Question(GroupSpec(members, counts, is_homogeneous), assignable)


def _draw_topic(dice: Random) -> Topic:
    count = dice.randint(1, dice.choice((1, 4, 8, 20)))
    return Topic(count, tuple(range(count)) if dice.random() < 0.7 else _draw_some(dice, range(count)))


def _draw_some(dice: Random, numbers: range) -> tuple[int, ...]:
    return tuple(number for number in numbers if dice.random() < 0.6)


def _draw_id(dice: Random) -> str:
    if dice.random() < 0.7:
        return f"m-{dice.randrange(10**4)}"
    return base64.urlsafe_b64encode(dice.randbytes(16)).decode().rstrip("=")


def _draw_subscription(dice: Random, existing: list[bytes], are_alike: bool) -> tuple[bytes, ...]:
    return tuple(topic_id for topic_id in existing if are_alike or dice.random() < 0.6)


def _change_topics(dice: Random, every: dict[bytes, Topic], existing: list[bytes]) -> None:
    """Let a topic grow, or have more partitions that may be assigned, vanish, come back, or come anew."""
    topic_id = dice.choice(list(every))
    count, assignable = every[topic_id]
    chance = dice.random()
    if chance < 0.3:
        every[topic_id] = Topic(count + dice.randint(1, 4), assignable)
    elif chance < 0.7:
        every[topic_id] = Topic(count, tuple(sorted({*assignable, *_draw_some(dice, range(count))})))
    elif chance < 0.9:
        (existing.remove if topic_id in existing else existing.append)(topic_id)
    else:
        every[new := dice.randbytes(16)] = _draw_topic(dice)
        existing.append(new)


def _change_members(
    dice: Random, members: Mapping[str, MemberSpec], existing: list[bytes], are_alike: bool
) -> Mapping[str, MemberSpec]:
    """Let some leave, some join, some subscribe anew, or some forget what they had."""
    ids = list(members)
    leaving = dice.sample(ids, dice.choice((0, 0, 1, len(ids) // 3, len(ids) // 2)))
    ids = [one for one in ids if one not in leaving] + [_draw_id(dice) for _ in range(dice.choice((0, 1, 1, 4)))]
    changed = {}
    for one in ids or [_draw_id(dice)]:
        old = members.get(one, MemberSpec(()))
        keeps = not are_alike and dice.random() < 0.8 and one in members
        topics = tuple(topic_id for topic_id in existing if topic_id in old.topics)
        topics = topics if keeps else _draw_subscription(dice, existing, are_alike)
        changed[one] = MemberSpec(topics, {} if dice.random() < 0.05 else old.previous)
    return changed


def _overshare(
    dice: Random, members: Mapping[str, MemberSpec], every: Mapping[bytes, Topic]
) -> Mapping[str, MemberSpec]:
    """Let some members hold more of a topic than any assignor would have given to them all."""
    topic_id = dice.choice(list(every))
    assignable = every[topic_id].assignable
    shared = dict(members)
    for one in dice.sample(list(members), dice.randint(1, len(members))):
        previous = members[one].previous
        held = {*previous.get(topic_id, ()), *dice.sample(assignable, min(3, len(assignable)))}
        shared[one] = MemberSpec(members[one].topics, {**previous, topic_id: tuple(sorted(held))})
    return shared


def _take_back(dice: Random, every: dict[bytes, Topic]) -> None:
    """Let a topic have fewer partitions, or fewer that may be assigned, than its members hold."""
    topic_id = dice.choice(list(every))
    count = max(1, every[topic_id].count - dice.randrange(3))
    every[topic_id] = Topic(count, _draw_some(dice, range(count)))


def as_question(question: Question) -> dict[str, Any]:
    """Return a question as `AssignSharePartitions.java` reads it. A topic that does not exist has no partitions."""
    spec = question.spec
    topics = list_topics(question)
    places = {topic_id: place for place, topic_id in enumerate(topics)}
    return {
        "homogeneous": spec.is_homogeneous,
        "topics": [
            (
                base64.urlsafe_b64encode(topic_id).decode().rstrip("="),
                spec.partition_counts.get(topic_id, 0),
                question.assignable.get(topic_id, ()),
            )
            for topic_id in topics
        ],
        "members": [
            (
                member_id,
                [places[topic_id] for topic_id in member.topics],
                [(places[topic_id], held) for topic_id, held in member.previous.items()],
            )
            for member_id, member in spec.members.items()
        ],
    }


def read_question(written: Mapping[str, Any]) -> Question:
    """Return the question that was written so."""
    topics = [base64.urlsafe_b64decode(name + "==") for name, _, _ in written["topics"]]
    members = {
        member_id: MemberSpec(
            tuple(topics[place] for place in subscribed), {topics[place]: tuple(held) for place, held in previous}
        )
        for member_id, subscribed, previous in written["members"]
    }
    counts = {topic_id: count for topic_id, (_, count, _) in zip(topics, written["topics"], strict=True)}
    assignable = {topic_id: tuple(able) for topic_id, (_, _, able) in zip(topics, written["topics"], strict=True)}
    return Question(GroupSpec(members, counts, written["homogeneous"]), assignable)


def as_answer(question: Question) -> dict[str, Any]:
    """Return our assignments in the form of Kafka's."""
    places = {topic_id: str(place) for place, topic_id in enumerate(list_topics(question))}
    return {
        member_id: {places[topic_id]: list(held) for topic_id, held in assignment.items()}
        for member_id, assignment in assign(question).items()
    }


def list_topics(question: Question) -> list[bytes]:
    held = (topic_id for member in question.spec.members.values() for topic_id in member.previous)
    return list(dict.fromkeys((*question.spec.partition_counts, *held)))
