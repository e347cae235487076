"""What all tests share: one option."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what scripts print into them, instead of comparing; then read it"
    )
