"""Sizes of internal topics: beside a plain reading of what Kafka does, and with as many steps as there are links."""

import pytest
from hypothesis import given, settings

from coordinator.core.assignors.hash_order import members_in_order
from coordinator.core.kinds.streams import sizes
from coordinator.core.kinds.streams.sizes import InvalidTopologyError, WrongSizeError, decide_sizes
from coordinator.core.kinds.streams.topology import Topology
from coordinator.core.topics import Topics
from tests.core.kinds.streams.topologies import connected_topologies, part, topics, topologies, topology

EXISTING = topics(s0=1, s1=3, s2=4)


def sizes_by_passes(known: Topology, existing: Topics) -> dict[str, int]:
    """Size repartition topics as Kafka does, in passes over all subtopologies."""
    parts = [known.subtopologies[number] for number in members_in_order(known.subtopologies)]
    found = {
        topic.name: topic.partitions for each in parts for topic in each.repartition_source_topics if topic.partitions
    }
    while True:
        has_progress = is_needed = False
        for each in parts:
            for sink in each.repartition_sink_topics:
                if sink in found:
                    continue
                candidates = [found[topic.name] for topic in each.repartition_source_topics if topic.name in found]
                candidates += [existing[name].partitions for name in each.source_topics]
                if candidates:
                    found[sink] = max(candidates)
                    has_progress = True
                else:
                    is_needed = True
        if not is_needed:
            break
        if not has_progress:
            raise InvalidTopologyError("a circle")
    if any(topic.name not in found for each in parts for topic in each.repartition_source_topics):
        raise InvalidTopologyError("never written")
    return found


@pytest.mark.rule("S-028")
@settings(max_examples=500)
@given(topologies() | connected_topologies())
def test_sizes_are_those_of_passes_over_all_subtopologies(known: Topology) -> None:
    parts = [known.subtopologies[number] for number in members_in_order(known.subtopologies)]
    try:
        expected: dict[str, int] | None = sizes_by_passes(known, EXISTING)
    except InvalidTopologyError:
        expected = None
    try:
        found: dict[str, int] | None = sizes._size_repartitions(parts, EXISTING)
    except InvalidTopologyError:
        found = None
    assert found == expected


def test_a_long_chain_takes_a_step_for_each_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """However its subtopologies are ordered: a request cannot make the server pass over thousands of them thousands of
    times."""
    steps = 0
    largest = sizes._largest

    def counted(*args: object) -> int | None:
        nonlocal steps
        steps += 1
        return largest(*args)  # type: ignore[arg-type]  # whatever it was called with

    monkeypatch.setattr(sizes, "_largest", counted)
    links = 3_000
    chain = [part(str(n), reads={f"r{n}": 0}, sinks=[f"r{n - 1}"]) for n in range(1, links)]
    decide_sizes(topology(*chain, part("0", ["s1"], sinks=[f"r{links - 1}"]), part("end", reads={"r0": 0})), EXISTING)
    assert steps <= 3 * links


@pytest.mark.rule("S-029")
def test_topics_that_are_joined_are_of_one_size() -> None:
    joined = part("0", ["s1", "s2"], joins=[([0, 1], [])])
    with pytest.raises(WrongSizeError, match="s1 3, s2 4"):
        decide_sizes(topology(joined), EXISTING)
    third = part("0", ["s1", "t2", "t1"], joins=[([0, 1, 2], [])])
    with pytest.raises(WrongSizeError, match="s1 3, t1 3, t2 4"):
        decide_sizes(topology(third), topics(s1=3, t1=3, t2=4))
    fixed = part("1", ["s1"], reads={"q": 3, "r": 4}, joins=[([0], [0, 1])])
    with pytest.raises(WrongSizeError, match="repartition topic r has 4 partitions: expected 3"):
        decide_sizes(topology(part("0", ["s0"], sinks=["q", "r"]), fixed), EXISTING)
    taken = part("1", ["s2"], reads={"r": 0}, joins=[([0], [0])])
    assert decide_sizes(topology(part("0", ["s0"], sinks=["r"]), taken), EXISTING) == {"r": 4}


@pytest.mark.rule("S-025 S-028")
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([part("0")], "subtopology 0 reads no topic"),
        ([part("0", ["s0"], reads={"r": 0})], "no subtopology writes to repartition topic r"),
        ([part("0", reads={"r": 0}, sinks=["q"]), part("1", reads={"q": 0}, sinks=["r"])], "depends on itself"),
    ],
)
def test_sizes_that_cannot_be_found(parts: list[sizes.Subtopology], reason: str) -> None:
    with pytest.raises(InvalidTopologyError, match=reason):
        decide_sizes(topology(*parts), EXISTING)
