"""Cut what is to be made into portions: each is decided in one step, and clients are served between two."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from coordinator.core.catalog.settings import PARTITIONS_PER_REQUEST_MAX
from coordinator.server.verbs.state import State

TOPICS_MAX: Final = 100
OFFSETS_MAX: Final = 1_000  # of one group


def cut_state(state: State) -> Iterator[State]:
    """Yield the topics, so many at a time, and then offsets and queues, for which the topics must be there."""
    portion, size = dict[str, int](), 0
    for name, count in state.topics.items():
        size += max(count, 0)
        if portion and (len(portion) >= TOPICS_MAX or size > PARTITIONS_PER_REQUEST_MAX):
            yield State(topics=portion)
            portion, size = {}, max(count, 0)
        portion[name] = count
    if portion:
        yield State(topics=portion)
    for group, offsets in state.offsets.items():
        places = ((topic, index, offset) for topic, of in offsets.items() for index, offset in of.items())
        while some := list(islice(places, OFFSETS_MAX)):
            by_topic: dict[str, dict[str, int]] = {}
            for topic, index, offset in some:
                by_topic.setdefault(topic, {})[index] = offset
            yield State(offsets={group: by_topic})
    for group, queues in (state.queues or {}).items():
        for topic, partitions in queues.items():
            for index, queue in partitions.items():
                yield State(queues={group: {topic: {index: queue}}})
