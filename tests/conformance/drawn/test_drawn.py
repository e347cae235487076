"""Drawn stories against Muster: each says what Apache Kafka said to it."""

import pytest

from tests.conformance.compare import differences
from tests.conformance.drawn import CHAPTERS, drawn, kept
from tests.conformance.replay import replay


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_muster_says_what_kafka_said(chapter: str) -> None:
    """Draw them anew after a change of their chapter: `python -m tests.conformance.drawn CHAPTER --keep`."""
    stories = dict(kept(chapter))
    assert stories
    for seed, said in stories.items():
        found = differences(said, replay(drawn(chapter, seed)))
        assert not found, f"seed {seed}: {found[0]}"
