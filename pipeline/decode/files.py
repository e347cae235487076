"""Where logs are read from: a local path, or whatever `pyarrow.fs` opens (`s3://`, `gs://`, `hdfs://`, `abfss://`).

A `Store` is named by one string, so that it travels to a worker as that string and is opened there.
"""

import re
from functools import lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs

from pipeline.errors import UsageError


class Entry(msgspec.Struct, frozen=True):
    """A file or directory: its name, its size in bytes (0 for a directory)."""

    name: str
    size: int
    is_dir: bool


@lru_cache(maxsize=32)
def _filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """Open what a path or URI names. A query such as `?endpoint_override=...` is for the file system alone."""
    if "://" in uri:
        try:
            filesystem, path = pafs.FileSystem.from_uri(uri)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(str(error)) from None
        return filesystem, path
    return pafs.LocalFileSystem(), str(Path(uri).absolute())


class Store(msgspec.Struct, frozen=True):
    """A directory tree. Paths handed to it are relative to its root; "" is the root itself."""

    uri: str

    @property
    def shown(self) -> str:
        """The URI without its query and without credentials: what rows and files may say."""
        return re.sub(r"//[^/@]*@", "//", self.uri.split("?")[0])

    def _at(self, path: str) -> tuple[pafs.FileSystem, str]:
        filesystem, root = _filesystem(self.uri)
        return filesystem, f"{root.rstrip('/')}/{path}" if path else root

    def name(self) -> str:
        """The last part of the root's path."""
        return _filesystem(self.uri)[1].rstrip("/").rsplit("/", 1)[-1]

    def list(self, path: str = "") -> list[Entry]:
        """The entries of a directory, by name. A missing directory raises FileNotFoundError."""
        filesystem, full = self._at(path)
        found = filesystem.get_file_info(pafs.FileSelector(full))
        entries = [Entry(i.base_name, i.size or 0, i.type == pafs.FileType.Directory) for i in found]
        return sorted(entries, key=lambda entry: entry.name)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file from `start`; fewer than `length` when the file ends before."""
        filesystem, full = self._at(path)
        with filesystem.open_input_file(full) as file:
            size = file.size()
            if start >= size:
                return b""
            wanted = size - start if length is None else min(length, size - start)
            return bytes(file.read_at(wanted, start))

    def size(self, path: str) -> int:
        """Bytes of a file now."""
        filesystem, full = self._at(path)
        info = filesystem.get_file_info(full)
        if info.type != pafs.FileType.File:
            raise FileNotFoundError(full)
        return int(info.size)
