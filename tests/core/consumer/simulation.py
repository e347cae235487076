"""Simulated hours of a group of mixed clients, under a seed: the same seed is the same story, to the last record.

    python -m tests.core.consumer.simulation --seed 7 --hours 24

Every five seconds everybody speaks; now and then somebody comes, goes, dies, bounces, resubscribes, loses an answer, a
topic changes, or the server starts again from its log. What must be true is checked after each change, and twice an
hour inputs stop and the group has to settle. What happened is counted, so that nobody mistakes silence for health.
"""

import argparse
import hashlib
import random
from collections import Counter
from typing import Any

from coordinator.core.result import Result
from coordinator.core.topics import Topic
from tests.core.consumer.crowd import TOPICS, Classic, Client, Consumer, Crowd
from tests.core.world import topic_id

TICK_MS = 5_000
CALM_EVERY = 360  # ticks: half an hour
CLIENTS_MAX = 8
SETTLE_ROUNDS = 24


class Story(Crowd):
    """A crowd, driven by dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        super().__init__(group_consumer_assignment_interval_ms=self.dice.choice((0, 1_000)))
        self.happened: Counter[str] = Counter()

    def take(self, result: Result[Any]) -> None:
        for event in result.events:
            self.happened[event.cause.value] += 1
        super().take(result)

    def live(self, hours: float) -> None:
        """That long, by the group's clock."""
        for tick in range(round(hours * 3_600_000 / TICK_MS)):
            if self.dice.random() < 0.08:
                self.dice.choice(self.troubles)()
            self.advance(TICK_MS)
            for client in tuple(self.clients.values()):
                client.step(promptly=self.dice.random() < 0.9)
            if tick % CALM_EVERY == CALM_EVERY - 1:
                self.settle(SETTLE_ROUNDS)

    @property
    def fingerprint(self) -> str:
        """Of the whole log: two runs of one seed have the same."""
        digest = hashlib.sha256()
        for key, value in self.log:
            digest.update(key + b"|" + (value or b"-"))
        return digest.hexdigest()[:16]

    @property
    def troubles(self) -> tuple[Any, ...]:
        return (
            *(self._consumer, self._consumer, self._classic, self._leaves, self._dies, self._bounces),
            *(self._resubscribes, self._loses_an_answer, self._topic, self._restarts),
        )

    def _some(self, kind: type[Client] = Client) -> Any:
        clients = [client for client in self.clients.values() if isinstance(client, kind)]
        return self.dice.choice(clients) if clients else None

    def _names(self) -> list[str]:
        return sorted(self.dice.sample(TOPICS, self.dice.randrange(len(TOPICS) + 1)))

    def _instance(self) -> str | None:
        return f"i{self.number()}" if self.dice.random() < 0.4 else None

    def _consumer(self) -> None:
        if len(self.clients) < CLIENTS_MAX:
            pattern = self.dice.choice(("", "", "[tu]", ".*"))
            self.add(Consumer(self, self._names(), self._instance(), pattern))

    def _classic(self) -> None:
        if len(self.clients) < CLIENTS_MAX:
            self.add(Classic(self, self._names(), self._instance()))

    def _leaves(self) -> None:
        if client := self._some():
            client.leave()
            self.drop(client.name)

    def _dies(self) -> None:
        if client := self._some():
            self.drop(client.name)

    def _bounces(self) -> None:
        client = self._some(Consumer)
        if client and client.instance_id is not None and client.epoch > 0:
            client.away()
            self.drop(client.name)
            self.add(Consumer(self, client.names, client.instance_id, client.regex))

    def _resubscribes(self) -> None:
        if client := self._some(Consumer):
            client.names, client.says_all = tuple(self._names()), True

    def _loses_an_answer(self) -> None:
        if client := self._some(Consumer):
            client.deaf = True
            client.step(promptly=True)
            client.deaf, client.says_all = False, True

    def _topic(self) -> None:
        name = self.dice.choice(TOPICS)
        topic = self.topics.get(name)
        if topic is not None and topic.partitions < 12 and self.dice.random() < 0.7:
            self.set_topics(self.topics.with_topic(Topic(name, topic.id, topic.partitions + 1)))
            return
        for client in self.clients.values():
            client.owned = {partition for partition in client.owned if partition[0] != name}
        made = Topic(name, topic_id(f"{name}{self.number()}"), self.dice.randrange(1, 6))
        self.set_topics(self.topics.without(name).with_topic(made))

    def _restarts(self) -> None:
        self.happened["restarts"] += 1
        self.restart(compacted=self.dice.random() < 0.5)


def main() -> None:
    """Run one story and say what happened in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=24)
    options = parser.parse_args()
    story = Story(options.seed)
    story.live(options.hours)
    print(f"seed {options.seed}, {options.hours:g} hours, log {len(story.log)} records, {story.fingerprint}")
    for what, times in story.happened.most_common():
        print(f"{times:>8}  {what}")


if __name__ == "__main__":
    main()
