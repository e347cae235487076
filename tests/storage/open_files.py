"""The files that this process has open."""

from contextlib import suppress
from pathlib import Path


def open_files(directory: Path) -> list[str]:
    """The files under a directory that this process has open. Threads of other tests may open and close theirs."""
    files = []
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(OSError):  # closed since, as the one that listed them is
            files.append(str(descriptor.readlink()))
    return [file for file in files if file.startswith(f"{directory}/")]
