"""Commands of `muster`, run to their ends in this process."""

import json
from typing import Any

import pytest

from coordinator.cli import main


class Shell:
    """Runs `muster` with these first words and others; it has to end with the exit code that the test names."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *first: str) -> None:
        self._capsys = capsys
        self._first = first

    def __call__(self, code: int, *words: object) -> str:
        """What it prints, and then its complaint."""
        return "".join(self._run(code, *words))

    def json(self, code: int, *words: object) -> Any:
        """The last line that it prints, decoded."""
        return json.loads(self._run(code, *words, "--json")[0].splitlines()[-1])

    def _run(self, code: int, *words: object) -> tuple[str, str]:
        self._capsys.readouterr()
        ended = main([*self._first, *map(str, words)])
        printed = self._capsys.readouterr()
        assert ended == code, printed
        return printed


def shell_fixture(*first: str) -> Any:
    """A fixture that is a shell for commands that begin with these words."""

    @pytest.fixture
    def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
        return Shell(capsys, *first)

    return shell
