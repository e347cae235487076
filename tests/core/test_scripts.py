"""Every script under `scripts/` reads as it did when somebody last read it."""

from pathlib import Path

import pytest

from tests.core import classic_commands, offset_commands, world_commands  # noqa: F401 - they add their commands
from tests.core.kinds.consumer import commands  # noqa: F401 - as above
from tests.core.script import played

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.txt")), ids=lambda path: str(path.relative_to(SCRIPTS)))
def test_script(path: Path, request: pytest.FixtureRequest) -> None:
    text = played(path)
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert text == path.read_text()


def test_there_are_scripts() -> None:
    assert len(list(SCRIPTS.rglob("*.txt"))) >= 40  # a wrong path would find none
