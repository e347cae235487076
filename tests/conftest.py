"""What all tests share: one option, and that what is marked `long` runs only when it is asked for.

That is by `-m long`, or by the test's own name. Another mark expression (`-m "not other"`) does not ask for it.
"""

import re

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what scripts print into them, instead of comparing; then read it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if asks_for_long(config.option.markexpr) or any("::" in argument for argument in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in set(long)]


def asks_for_long(expression: str) -> bool:
    """Whether a mark expression (`-m`) names `long`, and does not say that it shall not be."""
    return bool(re.search(r"\blong\b", expression)) and not re.search(r"\bnot\s+long\b", expression)
