"""Targets of groups in histories, whose groups are small."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coordinator.core.kinds.modern import long_targets


@contextmanager
def targets_in_steps(seed: int) -> Iterator[None]:
    """Compute all targets in steps, as those of large groups, in every other history."""
    with pytest.MonkeyPatch.context() as patch:
        if seed % 2:
            patch.setattr(long_targets, "is_long", lambda work: work > 0)
        yield
