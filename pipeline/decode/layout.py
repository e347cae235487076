"""Find the directories that are logs and the files that are segments, and cut them into spans of one task each.

A log directory is named `<topic>-<partition>`. A given path may be one, may hold some, or may hold directories that
hold some (copies of several brokers). Names that begin with `_` are ordinary names here: Spark's own file sources
would see nothing in `__consumer_offsets-0` and say nothing about it.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from pipeline.decode.files import Entry, Store, is_cluster, without_secrets
from pipeline.decode.logs import START, LogDir, Segment, Span, join_path

TOPIC = "__consumer_offsets"
TOPICS = (TOPIC, SHARE_STATE_TOPIC)  # of coordinators
HEADER_BYTES = 61
_SEGMENT = re.compile(r"^(\d{20})\.log$")
_PASSED_OVER = (".cleaned", ".deleted", ".swap")  # of unfinished cleaning, and of files about to be deleted


def _partition(name: str, topics: Sequence[str]) -> int | None:
    head, _, number = name.rpartition("-")
    return int(number) if head in topics and number.isdecimal() else None


def log_dirs(paths: Iterable[str], topics: Sequence[str] = (TOPIC,)) -> list[LogDir]:
    """Return all logs of the topics under the paths, by partition and then by name; one that two paths lead to once.

    Of a cluster, those of the topic that the path names, or of the first of these.
    """
    at = {log.place: log for path in reversed(list(paths)) for log in _below(Store.of(path), topics)}
    found = list(at.values())
    shown = [log.name for log in found]
    unique = [
        msgspec.structs.replace(log, name=f"{log.store.display_uri}/{log.name}") if shown.count(log.name) > 1 else log
        for log in found
    ]
    return sorted(unique, key=lambda log: (log.partition, log.name))


def logs_at(paths: Iterable[str], topics: Sequence[str] = (TOPIC,)) -> list[LogDir]:
    """Return the same, at least one: raises FileNotFoundError without any, since nothing to read is hardly what was
    meant."""
    given = list(paths)
    if found := log_dirs(given, topics):
        return found
    shown = ", ".join(without_secrets(path) for path in given)
    raise FileNotFoundError(f"no directory {topics[0]}-<n> at or below {shown}")


def _below(store: Store, topics: Sequence[str]) -> Iterator[LogDir]:
    if is_cluster(store.uri):
        from pipeline.decode.cluster import list_logs

        yield from list_logs(store, topics[0])
        return
    own = _partition(store.name(), topics)
    if own is not None:
        yield LogDir(store, "", store.name(), own)
        return
    try:
        names = [entry.name for entry in store.list() if entry.is_dir]
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"invalid path {store.display_uri}: expected a directory of logs") from None
    logs = [name for name in names if _partition(name, topics) is not None]
    brokers = [name for name in names if name not in logs]
    inner = [f"{name}/{log}" for name in brokers for log in _directories(store, name, is_beside_logs=bool(logs))]
    for path in [*logs, *inner]:
        number = _partition(path.rpartition("/")[2], topics)
        if number is not None:
            yield LogDir(store, path, path, number)


def _directories(store: Store, path: str, *, is_beside_logs: bool) -> list[str]:
    """Return the names of the directories in one that may be a copy of a broker's.

    A topic's directory may be removed while it is listed, and holds no other log. Beside logs stand other topics' and
    the file system's own (`lost+found`), so one that cannot be read is passed over there. Elsewhere it is an error:
    it may be a broker's copy, without which the others would be taken for all.
    """
    try:
        return [entry.name for entry in store.list(path) if entry.is_dir]
    except FileNotFoundError:
        return []
    except PermissionError:
        if is_beside_logs:
            return []
        place = f"{store.display_uri}/{path}"
        raise PermissionError(f"{place} cannot be read: make it readable, or name the others one by one") from None


def entries(log: LogDir) -> list[Entry]:
    """Return the files of a log directory; none of a log on a cluster."""
    if log.listing is not None:
        return list(log.listing)
    return [] if log.is_on_cluster else [entry for entry in log.store.list(log.path) if not entry.is_dir]


def hold(log: LogDir) -> LogDir:
    """Return the log as it is now: all who read it find the same files of the same sizes, though it be written to.

    A log on a cluster has had its end since it was listed.
    """
    return log if log.is_on_cluster else msgspec.structs.replace(log, listing=tuple(entries(log)))


def segments(log: LogDir, listing: list[Entry] | None = None) -> list[Segment]:
    """Return the log's segments by base offset; listing order and modification times mean nothing."""
    found = []
    for entry in entries(log) if listing is None else listing:
        if match := _SEGMENT.match(entry.name):
            found.append(Segment(join_path(log.path, entry.name), int(match[1]), entry.size))
    return sorted(found, key=lambda segment: segment.base_offset)


def segment_path(log: LogDir, base_offset: int) -> str:
    """Return the path of a segment in the log's store."""
    return join_path(log.path, f"{base_offset:020d}.log")


def skipped_files(listing: list[Entry]) -> list[str]:
    """Return the names of the temporary and deleted files, which are not read."""
    return [entry.name for entry in listing if entry.name.endswith(_PASSED_OVER)]


def spans(log: LogDir, split_bytes: int = 32 << 20) -> list[Span]:
    """Return the whole log as spans of about `split_bytes`, cut where the sparse `.index` names a batch."""
    if log.is_on_cluster:
        from pipeline.decode import cluster

        return cluster.between(log, START, None, split_bytes)
    listing = entries(log)
    sizes = {entry.name: entry.size for entry in listing}
    found = segments(log, listing)
    result: list[Span] = []
    for i, segment in enumerate(found):
        after = found[i + 1].base_offset if i + 1 < len(found) else None
        cuts = _cuts(log, segment, split_bytes, sizes)
        starts = [(0, segment.base_offset), *cuts]
        for j, (start, floor) in enumerate(starts):
            end, ceiling = starts[j + 1] if j + 1 < len(starts) else (segment.size, after)
            result.append(Span(log, segment, start, end, floor, ceiling, active=after is None))
    return result


def _cuts(log: LogDir, segment: Segment, split_bytes: int, sizes: dict[str, int]) -> list[tuple[int, int]]:
    """Find (position, base offset) of batches to cut before. Entries that do not lead to a batch are not believed."""
    index = segment.path.removesuffix(".log") + ".index"
    if segment.size <= split_bytes or not sizes.get(index.rsplit("/", 1)[-1]):
        return []
    raw = log.store.read(index)
    cuts: list[tuple[int, int]] = []
    wanted = split_bytes
    for relative, position in struct.iter_unpack(">ii", raw[: len(raw) // 8 * 8]):
        if position < wanted or position >= segment.size:
            continue
        base = _base_offset_at(log.store, segment, position)
        highest = segment.base_offset + relative
        if base is not None and (cuts[-1][1] if cuts else segment.base_offset) < base <= highest:
            cuts.append((position, base))
            wanted = position + split_bytes
    return cuts


def _base_offset_at(store: Store, segment: Segment, position: int) -> int | None:
    head = store.read(segment.path, position, HEADER_BYTES)
    if len(head) < HEADER_BYTES or head[16] != 2:
        return None
    return int.from_bytes(head[:8], "big", signed=True)


def newest_ts(log: LogDir, segment: Segment, listing: list[Entry]) -> int | None:
    """Return the highest timestamp of a segment by its `.timeindex`, in ms; None when that cannot be known."""
    name = segment.path.removesuffix(".log") + ".timeindex"
    size = next((entry.size for entry in listing if entry.name == name.rsplit("/", 1)[-1]), 0)
    if size < 12:
        return None
    last: tuple[int, int] = struct.unpack(">qi", log.store.read(name, size // 12 * 12 - 12, 12))
    return last[0] if last[0] > 0 else None


def high_watermarks(store: Store) -> dict[tuple[str, int], int]:
    """Read the high watermarks by (topic, partition) from a `replication-offset-checkpoint`; none without one."""
    try:
        lines = store.read("replication-offset-checkpoint").decode().splitlines()
    except FileNotFoundError:
        return {}
    rows = [line.rsplit(" ", 2) for line in lines[2:] if line.count(" ") >= 2]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
