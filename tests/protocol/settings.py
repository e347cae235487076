"""How Hypothesis runs where each example takes long."""

from __future__ import annotations

from hypothesis import settings

SETTINGS = settings(max_examples=15, deadline=None, database=None, derandomize=True)
