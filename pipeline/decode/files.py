"""Directories of files: a local path, or whatever `pyarrow.fs` opens (`s3://`, `gs://`, `hdfs://`, `abfss://`).

A `Store` is named by one string, so that it travels to a worker as that string and is opened there. The string never
holds a secret: credentials come from the object store's own chain (environment, profile, the machine's role), and a
path that holds some is refused. So no manifest, report or error line can show one.
"""

import re
import secrets
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs

from pipeline.errors import UsageError

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_SECRET = re.compile(r"secret|password|token|credential|signature|key", re.IGNORECASE)  # names of query parameters
_PATTERN = re.compile(r"[\\*?\[\]{}]")  # characters of Hadoop's patterns
GCS_RETRY_S = 60
CHAIN = "the environment (AWS_ACCESS_KEY_ID, ...), a profile, or the machine's role"


class Entry(msgspec.Struct, frozen=True):
    """A file or directory: its name, its size in bytes (0 for a directory)."""

    name: str
    size: int
    is_dir: bool


class File(msgspec.Struct, frozen=True):
    """A file below a store's root: its path from there, its size in bytes, when it was changed last (seconds)."""

    path: str
    size: int
    changed_s: float


def is_uri(path: str) -> bool:
    """Return whether the path names a file system by a scheme."""
    return _SCHEME.match(path) is not None


def is_cluster(path: str) -> bool:
    """Return whether the path names a cluster, which `pipeline.decode.cluster` reads."""
    return path.startswith("kafka://")


def with_command_config(paths: Iterable[str], file: str) -> list[str]:
    """Return the paths; those of clusters with a file of client settings, unless they name one or there is none."""
    query = f"?command_config={quote(str(Path(file).absolute()), safe='/')}" if file else ""
    return [f"{path}{query}" if is_cluster(path) and "?" not in path else path for path in paths]


def without_secrets(text: str) -> str:
    """Return the text with the user part and the query of every URI in it left out."""
    return re.sub(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)([^/@\s'\"]*:[^@\s'\"]*@|[^/@:\s'\"]*@(?=[^/\s.]+/))?([^\s?'\"]*)(\?[^\s'\"]*?(?=[:,]?(?:[\s'\"]|\Z)))?",
                  r"\1\3", text)  # fmt: skip


def escape_pattern(path: str) -> str:
    """Return the path with a backslash before each character that Spark would take for a part of a pattern.

    Spark does so with the paths of files that it reads, but not with those that it writes, and Delta never does.
    """
    return _PATTERN.sub(r"\\\g<0>", path)


def normalize(path: str) -> str:
    """Return the path as `pyarrow.fs` takes it: absolute if local, `s3://` for `s3a://`.

    Raises UsageError for secrets, and for what the source's option `path` or Arrow cannot hold.
    """
    if not path:
        raise UsageError("invalid path '': expected a path or a URI")
    if re.search(r"[\n\r\ud800-\udfff]", path):  # surrogates are bytes that are no UTF-8
        raise UsageError(f"invalid path {path!r}: expected text in UTF-8 without line breaks")
    if not is_uri(path):
        return str(Path(path).absolute())
    if path.startswith("s3a://"):
        path = "s3://" + path.removeprefix("s3a://")
    parts = urlsplit(path)
    user, at, _ = parts.netloc.rpartition("@")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if (at and (":" in user or parts.scheme in ("s3", "kafka"))) or any(_SECRET.search(name) for name in names):
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise UsageError(f"invalid path {shown}: expected credentials in {CHAIN}, never in a path")
    return path


@lru_cache(maxsize=32)
def _filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """Open what a path or URI names. A query such as `?endpoint_override=...` is for the file system alone."""
    uri = normalize(uri)
    if not is_uri(uri):
        return pafs.LocalFileSystem(), uri
    try:
        filesystem, path = pafs.FileSystem.from_uri(_with_retry_limit(uri))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(without_secrets(str(error))) from None
    if not path:
        raise UsageError(f"invalid path {without_secrets(uri)}: expected a bucket or a directory in it")
    return filesystem, path


def _with_retry_limit(uri: str) -> str:
    """Return the URI; that of Google's store with a limit for retries unless it has one: Arrow tries for 15 minutes."""
    parts = urlsplit(uri)
    if parts.scheme not in ("gs", "gcs") or "retry_limit_seconds" in parts.query:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={GCS_RETRY_S}"


class Store(msgspec.Struct, frozen=True):
    """A directory tree. Paths handed to it are relative to its root; "" is the root itself."""

    uri: str

    @classmethod
    def of(cls, place: "Store | str | Path") -> "Store":
        """Return the store at a path or URI, checked. Raises UsageError for credentials in it."""
        return place if isinstance(place, Store) else cls(normalize(str(place)))

    @property
    def display_uri(self) -> str:
        """The URI without its query and without credentials: what rows and files may say."""
        return without_secrets(self.uri)

    @property
    def local(self) -> Path | None:
        """The directory as a path, if it lies on this machine's file system."""
        return None if is_uri(self.uri) else Path(self.uri)

    def under(self, path: str) -> "Store":
        """Return the store of a directory below this one. The query stays at the end."""
        head, query = self._split_query()
        return Store(f"{head.rstrip('/')}/{path}{query}")

    def spark_uri(self, path: str = "") -> str:
        """Return the same place as Spark names it: `s3a://` for S3, no query; no escapes, which it does not read."""
        head = self._split_query()[0].rstrip("/")
        head = unquote(head) if is_uri(head) else head
        full = f"{head}/{path}" if path else head
        return "s3a://" + full.removeprefix("s3://") if full.startswith("s3://") else full

    def _split_query(self) -> tuple[str, str]:
        """Return the URI without its query, and the query with its question mark. A local path has none."""
        head, mark, query = self.uri.partition("?") if is_uri(self.uri) else (self.uri, "", "")
        return head, mark + query

    def open_root(self) -> tuple[pafs.FileSystem, str]:
        """Return the file system, and the root's path in it."""
        return _filesystem(self.uri)

    def _at(self, path: str) -> tuple[pafs.FileSystem, str]:
        filesystem, root = _filesystem(self.uri)
        return filesystem, f"{root.rstrip('/')}/{path}" if path else root

    def name(self) -> str:
        """Return the last part of the root's path."""
        return _filesystem(self.uri)[1].rstrip("/").rsplit("/", 1)[-1]

    def list(self, path: str = "") -> list[Entry]:
        """Return the entries of a directory, by name. A missing directory raises FileNotFoundError."""
        filesystem, full = self._at(path)
        found = filesystem.get_file_info(pafs.FileSelector(full))
        entries = [Entry(i.base_name, i.size or 0, i.type == pafs.FileType.Directory) for i in found]
        return sorted(entries, key=lambda entry: entry.name)

    def tree(self, path: str = "") -> tuple[File, ...]:
        """Return every file below a directory; none if it is missing."""
        filesystem, full = self._at(path)
        found = filesystem.get_file_info(pafs.FileSelector(full, recursive=True, allow_not_found=True))
        _, root = self._at("")
        above = root.rstrip("/") + "/"
        return tuple(
            File(i.path.removeprefix(above), i.size or 0, i.mtime.timestamp() if i.mtime else 0.0)
            for i in found
            if i.type == pafs.FileType.File
        )

    def exists(self, path: str = "") -> bool:
        """Return whether a file or directory is there."""
        filesystem, full = self._at(path)
        return bool(filesystem.get_file_info(full).type != pafs.FileType.NotFound)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return bytes of a file from `start`; fewer than `length` when the file ends before."""
        filesystem, full = self._at(path)
        with filesystem.open_input_file(full) as file:
            size = file.size()
            if start >= size:
                return b""
            wanted = size - start if length is None else min(length, size - start)
            return bytes(file.read_at(wanted, start))

    def size(self, path: str) -> int:
        """Return the size of a file now, in bytes."""
        filesystem, full = self._at(path)
        info = filesystem.get_file_info(full)
        if info.type != pafs.FileType.File:
            raise FileNotFoundError(full)
        return int(info.size)

    def changed_ms(self, path: str) -> int:
        """Return when a file was changed last."""
        filesystem, full = self._at(path)
        info = filesystem.get_file_info(full)
        return int(info.mtime.timestamp() * 1000) if info.mtime else 0

    def make(self, path: str = "") -> None:
        """Create a directory and those above it; nothing if it is there."""
        filesystem, full = self._at(path)
        filesystem.create_dir(full, recursive=True)

    def open_output(self, path: str) -> Any:
        """Return a stream that writes a file. On an object store the file appears when the stream is closed."""
        filesystem, full = self._at(path)
        return filesystem.open_output_stream(full)

    def open_input(self, path: str) -> Any:
        """Return a file to read from, at any position."""
        filesystem, full = self._at(path)
        return filesystem.open_input_file(full)

    def replace(self, path: str, data: bytes) -> None:
        """Write a file as a whole: readers see the old one or the new one.

        An object store shows a file once its stream is closed, and a stream is also closed by what interrupts the
        writing: so there, too, the file is written under another name first.
        """
        unfinished = f"{path}.{secrets.token_hex(4)}"
        with self.open_output(unfinished) as file:
            file.write(data)
        self.rename(unfinished, path)

    def rename(self, path: str, to: str) -> None:
        """Rename a file, over another one if need be. In an object store that is a copy, since not all of them move."""
        filesystem, full = self._at(path)
        if filesystem.type_name in ("local", "hdfs"):
            filesystem.move(full, self._at(to)[1])
        else:
            filesystem.copy_file(full, self._at(to)[1])
            filesystem.delete_file(full)

    def remove(self, path: str) -> None:
        """Remove a file; nothing if it is not there."""
        filesystem, full = self._at(path)
        if filesystem.get_file_info(full).type == pafs.FileType.File:
            filesystem.delete_file(full)

    def remove_dir(self, path: str) -> None:
        """Remove a directory with all that is in it; nothing if it is not there."""
        filesystem, full = self._at(path)
        if filesystem.get_file_info(full).type == pafs.FileType.Directory:
            filesystem.delete_dir(full)


Place = Store | Path | str  # of a set of tables
