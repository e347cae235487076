"""The campaigns can fail: each mutant of storage, and of its caller, is found by the campaign that guards its line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.files import StorageFailed
from storage.layout import DamagedLog
from tests.storage.mutants import MUTANTS, Mutant


@pytest.mark.parametrize(("mutant", "campaign"), [pytest.param(m, c, id=m.__name__) for m, c in MUTANTS])
def test_is_found(mutant: Mutant, campaign: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, DamagedLog, StorageFailed)):
        campaign()
