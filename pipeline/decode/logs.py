"""What the pipeline reads, as values: logs, their segments, spans of these, and how far reading got.

`layout` finds the logs of directories, `cluster` those of a cluster.
"""

from pathlib import Path
from typing import Final

import msgspec

from pipeline.decode.files import Entry, Store, is_uri

RECORD_BYTES: Final = 128  # of a commit on a cluster, about: a range of offsets has no size before it is read


class LogDir(msgspec.Struct, frozen=True):
    """One partition's log. `name` is how rows call it; it is unique among the paths that were given.

    `listing` is its files at one moment (`layout.hold`): what is written later is not read. None: as they are then.
    """

    store: Store
    path: str
    name: str
    partition: int
    listing: tuple[Entry, ...] | None = None

    @property
    def topic(self) -> str:
        """The topic whose partition it is."""
        return self.name.rpartition("/")[2].rpartition("-")[0]

    @property
    def place(self) -> str:
        """Where it lies, whatever it is called: the same for every way to name the directory, without credentials."""
        uri = self.store.display_uri
        root = uri.rstrip("/") if is_uri(uri) else str(Path(uri).resolve())
        return join_path(root, self.path) if self.path else root

    @property
    def is_on_cluster(self) -> bool:
        """Whether it is read by Fetch (`pipeline.decode.cluster`), and lies in no directory here."""
        return False


class Segment(msgspec.Struct, frozen=True):
    """One `.log` file: its path in the store, the offset in its name, its size in bytes when it was listed."""

    path: str
    base_offset: int
    size: int


class Span(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` of a segment, beginning and ending between two batches; what one task reads.

    `floor` is the lowest offset that may stand here, `ceiling` the offset the next span begins with (None when this is
    the end of the log), `active` whether the segment is the last, which no cleaner has touched. Rows outside of
    `from_offset` and `until_offset` are left out: they were read before, or will be.
    """

    log: LogDir
    segment: Segment
    start: int
    end: int
    floor: int
    ceiling: int | None
    active: bool
    from_offset: int = -1
    until_offset: int | None = None
    is_followed: bool = False  # of a cluster: a further span of the same log is read after it

    @property
    def size(self) -> int:
        """Bytes, about."""
        if self.log.is_on_cluster:
            return ((self.until_offset or 0) - max(0, self.from_offset)) * RECORD_BYTES
        return self.end - self.start


class Position(msgspec.Struct, frozen=True):
    """Where reading a log stopped: the next offset to read, in which segment and at which byte it may be found."""

    next_offset: int = 0
    segment: int = -1
    pos: int = 0


START = Position()


class Identity(msgspec.Struct, frozen=True):
    """The first batch of a segment: its base offset, its checksum, its highest timestamp in ms.

    `tail` is the checksum of the last bytes that were read; None of earlier releases, and where none were. `topic_id`
    is all that identifies a log on a cluster.
    """

    segment: int
    base_offset: int
    checksum: int
    max_ts: int
    tail: int | None = None
    topic_id: str | None = None


def join_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder of a store, whose root is empty."""
    return f"{folder}/{name}" if folder else name
