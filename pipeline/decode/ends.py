"""Where topics ended, and when: read from the topics' own logs, which lie beside the groups' logs in a data directory.

A batch says up to which offset its log had come, and when. Closed segments are taken from their `.timeindex` where
there is one; of the others every batch header is read.

The times are those that producers wrote, so a record may have none, or one to come. A time counts if the segment was
written, or the groups' logs were read, at that time or later.
"""

import re
import struct
from pathlib import Path

import msgspec

from pipeline.decode.files import Entry, Store
from pipeline.decode.layout import entries, segments
from pipeline.decode.logs import LogDir, Segment, Span
from pipeline.errors import UsageError

CHECKPOINT = "replication-offset-checkpoint"
SAMPLES = 1_000  # of each partition, evenly over its offsets, the first and the last among them
_DIRECTORY = re.compile(r"^(?!__)(.+)-(\d+)$")


class End(msgspec.Struct, frozen=True):
    """The log end offset of a partition at a moment (ms); 0 where it is not known since when."""

    topic: str
    partition: int
    ts: int
    leo: int
    source: str = "log"


def check_path(path: Path) -> None:
    """Raise for a path that cannot hold log ends, as far as that can be seen without reading it."""
    if not path.exists():
        raise FileNotFoundError(f"invalid --ends {path}: expected a directory of topics' logs, or a file of log ends")
    if path.is_file() and path.suffix not in (".parquet", ".json", ".jsonl", ".ndjson") and path.name != CHECKPOINT:
        raise UsageError(f"invalid --ends {path}: expected .parquet, .json, .jsonl, a directory or {CHECKPOINT}")


def log_ends(path: str, read_ms: int) -> list[End]:
    """Return the ends of every topic whose log is in the directory, until the groups' logs were read (`read_ms`).

    What a topic took in later is left out: it would look like lag. So are topics of the cluster's own (`__...`).
    """
    store = Store(path)
    found: list[End] = []
    for entry in store.list():
        if entry.is_dir and (match := _DIRECTORY.match(entry.name)):
            topic, partition = match[1], int(match[2])
            log = LogDir(store, entry.name, entry.name, partition)
            found += [End(topic, partition, ts, leo) for ts, leo in _thin(_samples(log, read_ms))]
    return found


def _samples(log: LogDir, read_ms: int) -> list[tuple[int, int]]:
    """Return (ms, log end offset) in the order of offsets; times never go back, since a log end stays reached.

    A batch whose time does not count is as old as the one before. In a log without any time that counts, and in an
    empty one, only the end is known, if the log was not written to since.
    """
    listing = entries(log)
    found = segments(log, listing)
    samples: list[tuple[int, int]] = []
    latest, end, written_ms = -1, 0, 0
    for i, segment in enumerate(found):
        closed = i + 1 < len(found)
        end, written_ms = segment.base_offset, log.store.changed_ms(segment.path)
        indexed = _by_index(log, segment, listing) if closed else []
        for ts, leo in indexed or _by_headers(log, segment):
            end = leo
            if ts <= max(written_ms, read_ms):
                latest = max(latest, ts)
            if 0 <= latest <= read_ms:
                samples.append((latest, leo))
    if found and latest < 0 and written_ms <= read_ms:
        return [(0, end)]
    if samples and end > samples[-1][1] and latest <= read_ms:
        samples.append((latest, end))  # a compaction has begun a segment, and what an index tells may end before it
    return samples


def _by_index(log: LogDir, segment: Segment, listing: list[Entry]) -> list[tuple[int, int]]:
    """Read a `.timeindex`: entries of (time, offset within the segment). Unused entries are zero."""
    name = segment.path.removesuffix(".log") + ".timeindex"
    if not any(entry.name == name.rsplit("/", 1)[-1] and entry.size >= 12 for entry in listing):
        return []
    raw = log.store.read(name)
    pairs = struct.iter_unpack(">qi", raw[: len(raw) // 12 * 12])
    return [(ts, segment.base_offset + offset + 1) for ts, offset in pairs if ts > 0]


def _by_headers(log: LogDir, segment: Segment) -> list[tuple[int, int]]:
    from pipeline.decode.spans import SpanReader  # numba with it, which a check of the path does without

    span = Span(log, segment, 0, segment.size, segment.base_offset, None, active=True)
    samples: list[tuple[int, int]] = []
    for chunk in SpanReader(span):
        headers = chunk.headers
        samples += zip(headers.max_ts.tolist(), (headers.last_offset + 1).tolist(), strict=True)
    return samples


def _thin(samples: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if len(samples) <= SAMPLES:
        return samples
    step = (len(samples) - 1) / (SAMPLES - 1)
    return [samples[round(i * step)] for i in range(SAMPLES)]
