"""Files of a real disk that are closed after the test: a process may have as few as 1,024 descriptors."""

from collections.abc import Callable, Iterator

import pytest

from storage.files import File, Files

SomeFiles = Callable[[Files, str, int], list[File]]


@pytest.fixture
def some_files() -> Iterator[SomeFiles]:
    """Return what makes so many files in a directory, with a byte in each that is not synced."""
    opened: list[File] = []

    def make(files: Files, root: str, count: int) -> list[File]:
        files.make_directory(root)
        made = [files.open(f"{root}/{number}", create=True) for number in range(count)]
        opened.extend(made)
        for file in made:
            file.append(b"x")
        return made

    yield make
    for file in opened:
        file.close()
