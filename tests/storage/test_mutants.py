"""The campaigns can fail: each mutant of storage, and of its caller, is found by the campaign that guards its line.

And they do not fail of themselves: with the same seeds, and nothing broken, each passes. This is about the tests
alone, so it is no part of the default run.
"""

from __future__ import annotations

import pytest

from tests.mistakes import Plant
from tests.storage.mutants import CAMPAIGNS, MUTANTS, Campaign

pytestmark = pytest.mark.long


@pytest.mark.parametrize("campaign", [pytest.param(one, id=one.__name__) for one in CAMPAIGNS])
def test_what_is_not_broken_passes(campaign: Campaign) -> None:
    campaign()


@pytest.mark.parametrize(("plant", "campaign", "found_as"), MUTANTS.values(), ids=MUTANTS)
def test_is_found_for_what_it_does(
    plant: Plant, campaign: Campaign, found_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=found_as):
        campaign()
