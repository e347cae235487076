"""Programs of other people's that a test needs, and that may not be there."""

import shutil
import warnings

import pytest


def need(program: str, package: str) -> str:
    """Return the path of a program, or skip the test, loudly."""
    path = shutil.which(program)
    if path is None:
        warnings.warn(f"NO {program.upper()}: what it would check is skipped. Install {package}", stacklevel=2)
        pytest.skip(f"no {program} on this machine")
    return path
