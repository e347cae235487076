"""Questions for an assignor, drawn from a seed, and the form in which they are recorded.

A question is one JSON object:

    {"assignor": "uniform", "homogeneous": true,
     "topics": [["0f..32 hex digits of the id", 12], ...],          partitions of each
     "members": [["m-1", null, [0, 1], [[0, [3, 4]]]], ...]}        id, instance id, subscribed topics, previous target

and its answer a list beside `members`: what each owns, as `[[topic index, [partitions]], ...]`. An input is a chapter
in the life of a group: each begins where a former one ended, after members joined, left, bounced or resubscribed and
topics grew, came and went.
"""

import random
import uuid
from collections.abc import Iterator
from typing import Any

from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import Assignment, GroupSpec, MemberSpec

Question = dict[str, Any]
Answer = list[list[list[Any]]]


def spec_of(question: Question) -> GroupSpec:
    """A recorded question as our assignors take it."""
    ids = [bytes.fromhex(hex_id) for hex_id, _ in question["topics"]]
    return GroupSpec(
        members={
            member_id: MemberSpec(
                topics=tuple(ids[topic] for topic in topics),
                previous={ids[topic]: tuple(partitions) for topic, partitions in previous},
                instance_id=instance_id,
            )
            for member_id, instance_id, topics, previous in question["members"]
        },
        partition_counts={ids[i]: count for i, (_, count) in enumerate(question["topics"])},
        is_homogeneous=question["homogeneous"],
    )


def answer_of(question: Question, owned: dict[str, Assignment]) -> Answer:
    """Our answer in the recorded form."""
    index = {bytes.fromhex(hex_id): i for i, (hex_id, _) in enumerate(question["topics"])}
    return [
        sorted([index[topic], list(partitions)] for topic, partitions in owned.get(member_id, {}).items())
        for member_id, *_ in question["members"]
    ]


def ours(question: Question) -> Answer:
    """What our assignor answers."""
    return answer_of(question, dict(BUILT_IN[question["assignor"]](spec_of(question))))


class Life:
    """One group's life: `question()` asks about it as it is, `live(answer)` goes on from what was answered."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.assignor = dice.choice(("uniform", "uniform", "uniform", "range"))
        self.homogeneous = dice.random() < 0.5
        self.topics = [self._topic() for _ in range(dice.choice((1, 1, 2, 3, 5, 8, 20)))]
        self.members = [self._member() for _ in range(dice.choice((1, 2, 2, 3, 3, 4, 5, 8, 13, 30)))]

    def _topic(self) -> list[Any]:
        count = self.dice.choice((1, 2, 3, 5, 6, 8, 12, 16, 20, 40))
        return [uuid.UUID(int=self.dice.getrandbits(128)).hex, count]

    def _member(self) -> list[Any]:
        dice = self.dice
        number = dice.randrange(10_000)
        named = dice.choice((f"m-{number}", uuid.UUID(int=dice.getrandbits(128)).hex, f"größe-{number}-\U0001f600"))
        instance_id = f"i-{number}" if dice.random() < 0.25 else None
        return [named, instance_id, self._subscription(), []]

    def _subscription(self) -> list[int]:
        every = list(range(len(self.topics)))
        if self.homogeneous:
            return every
        return sorted(self.dice.sample(every, self.dice.randrange(len(every) + 1)))

    def question(self) -> Question:
        alike = len({tuple(member[2]) for member in self.members}) == 1
        return {
            "assignor": self.assignor,
            "homogeneous": alike,
            "topics": [list(topic) for topic in self.topics],
            "members": [list(member) for member in self.members],
        }

    def live(self, answer: Answer) -> None:
        for member, owned in zip(self.members, answer, strict=True):
            member[3] = owned
        for _ in range(self.dice.choice((1, 1, 1, 2, 4))):
            self.dice.choice((self._join, self._join, self._leave, self._bounce, self._grow, self._subscribe))()

    def _join(self) -> None:
        newcomer = self._member()
        if newcomer[0] not in {member[0] for member in self.members}:
            self.members.append(newcomer)

    def _leave(self) -> None:
        if len(self.members) > 1:
            self.members.pop(self.dice.randrange(len(self.members)))

    def _bounce(self) -> None:
        """A static member comes back under a new id with the target it had."""
        static = [member for member in self.members if member[1] is not None]
        if static:
            self.dice.choice(static)[0] = uuid.UUID(int=self.dice.getrandbits(128)).hex

    def _grow(self) -> None:
        if self.dice.random() < 0.5:
            self.dice.choice(self.topics)[1] += self.dice.choice((1, 3, 10))
        else:
            self.topics.append(self._topic())
            if self.homogeneous:
                self._everybody_to_everything()

    def _subscribe(self) -> None:
        if self.homogeneous and len(self.topics) > 1:  # everybody drops the last topic
            self.topics.pop()
            self._everybody_to_everything()
        elif not self.homogeneous:
            self.dice.choice(self.members)[2] = self._subscription()

    def _everybody_to_everything(self) -> None:
        for member in self.members:
            member[2] = list(range(len(self.topics)))
            member[3] = [owned for owned in member[3] if owned[0] < len(self.topics)]


def questions(seed: int, lives: int, chapters: int) -> Iterator[Question]:
    """The same questions for the same seed."""
    dice = random.Random(seed)
    for _ in range(lives):
        life = Life(dice)
        for _ in range(chapters):
            question = life.question()
            yield question
            life.live(ours(question))
