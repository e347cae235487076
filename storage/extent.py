"""How large a log is and where it ends, without opening it.

To open a log is to read and check all of it. Metrics need less: the sizes of its files, and the headers of the batches
in its last segment.
"""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from storage.files import Files
from storage.outdated import segment_paths, segments_size
from storage.segment import BadBatch, base_offset_of, walk

STEP_BYTES = 1 << 20
"""Between two yields."""


class Extent(msgspec.Struct, frozen=True):
    """What is known of a log that is not open."""

    size: int  # bytes of all segments
    end_offset: int  # of the next record


def measure(files: Files, directory: str) -> Generator[None, None, Extent]:
    """Find the extent of a log, in short steps. A torn write at its end does not count, since opening cuts it off."""
    paths = segment_paths(files, directory)
    if not paths:
        return Extent(0, 0)
    end_offset = base_offset_of(paths[-1].rpartition("/")[2])
    assert end_offset is not None, "the path of a segment has its base offset"
    file = files.open(paths[-1], readonly=True)
    try:
        read = 0
        for batch in walk(file, checked=False):
            end_offset = batch.header.next_offset
            if batch.position - read >= STEP_BYTES:
                read = batch.position
                yield
    except BadBatch:
        pass
    finally:
        file.close()
    return Extent(segments_size(files, directory), end_offset)
