"""Carries a compaction out, in steps that are short enough to be taken between two turns of the server.

Neighbouring segments are rewritten together into one file of at most the segment size. The swap is drawn in
`layout.py` and may be cut off anywhere. Appends go on meanwhile: the active segment is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from protocol import record_batch
from protocol.compression import Meter
from protocol.steps import finish_steps
from storage import layout
from storage.compaction import Batch, DecidedTransactions, KeyIndex, Repacker, Survivors
from storage.files import File, Files, StorageError
from storage.index import RELATIVE_MAX
from storage.layout import CLEANED, SWAP, Swap
from storage.segment import Segment, file_name

if TYPE_CHECKING:
    from storage.log import Log

STEP_BYTES = 64 * 1024
"""Two to three milliseconds of work: a client that asks meanwhile waits for one of them, on a busy machine a few times
that."""
KEYS_MAX = 1_000_000
"""How many keys one compaction takes note of; the rest of a longer log waits for the next one. Some 200 bytes each."""

Wait = Callable[[], None]
"""Syncs a file, or lets one go that is removed, and touches nothing else: it may be called on another thread. The step
behind it does not rely on it, but has less to wait for."""
Steps = Generator[Wait | None, None, "CompactionReport | None"]


class CompactionReport(msgspec.Struct, frozen=True):
    """What a compaction has done: bytes of the segments it has looked at, and up to which offset keys are unique
    now."""

    bytes_before: int
    bytes_after: int
    cleaned_to: int


def is_due(log: Log) -> bool:
    """Return whether so much of the log is new since the last compaction that another one pays."""
    if log.failure is not None or log.compaction_failure is not None:
        return False
    stable, cleaned_to = log.last_stable_offset, log.checkpoint.cleaned_to
    ready = [segment for segment in log.segments if segment.end_offset <= stable]
    total = sum([segment.size for segment in ready])
    dirty = sum([segment.size for segment in ready if segment.end_offset > cleaned_to])
    return dirty >= max(log.config.compaction_bytes_min, log.config.min_cleanable_dirty_ratio * total)


def compact(log: Log, now_ms: int, *, step_bytes: int = STEP_BYTES, keys_max: int = KEYS_MAX) -> Steps:
    """Compact all that is decided. Each `next` is a short step; the generator's value says what was done.

    A step that leaves much to be synced hands out a `Wait`, for who can call it before the next step without keeping
    others waiting.

    None when there was nothing to do, or when the log's segments have changed under it (records deleted, or the whole
    log): then nothing of them is touched. Closing the generator early does no harm either.
    """
    if log.segments and log.last_stable_offset == log.end_offset:
        yield _sync_ahead(log.files, log.segments[-1].path)
    appended = log.take_appended_keys()
    if log.segments and log.last_stable_offset == log.end_offset:
        log.roll(with_indexes=False)  # so that what is active now can be compacted as well
        yield None
    stable = log.last_stable_offset
    sources = [segment for segment in log.segments[:-1] if segment.end_offset <= stable]
    decided = DecidedTransactions.of(log.producers)
    key_index = yield from _index_keys(log, sources, appended, decided, step_bytes, keys_max)
    if key_index is None:
        return None
    cleaned_to = key_index.offsets.stop
    sources = [segment for segment in sources if segment.base_offset < cleaned_to]
    survivors = Survivors(key_index, decided, now_ms, log.config.delete_retention_ms)
    before = after = 0
    target = None
    epochs: set[int] = set()  # of the batches that were read to be copied
    least_epoch = min(key_index.epochs, default=log.leader_epoch)
    for group in _groups(sources, log.config.segment_bytes):
        if not any(segment.size for segment in group):
            continue
        target = yield from _rewritten(log, group, survivors, epochs, least_epoch, step_bytes)
        if target is None:
            return None
        before, after = before + sum([segment.size for segment in group]), after + target.size
    if target is None or target not in log.segments:
        return None
    log.note_compaction(cleaned_to, sources[-1].end_offset, is_ours=epochs | key_index.epochs <= {log.leader_epoch})
    return CompactionReport(before, after, cleaned_to)


def run(log: Log, now_ms: int) -> CompactionReport | None:
    """Run a whole compaction at once, for tools and tests."""
    return finish_steps(compact(log, now_ms))


def _sync_ahead(files: Files, path: str) -> Wait:
    """Return a function that syncs the file by a descriptor of its own: the system tells a failure to the log's too."""

    def sync() -> None:
        with suppress(StorageError):
            file = files.open(path, readonly=True)
            try:
                file.sync()
            finally:
                file.close()

    return sync


@contextmanager
def hold_open(files: Files, path: str) -> Iterator[Wait]:
    """Hold a file that is about to be removed, until the function is called, or the block ends."""
    file: File | None = files.open(path, readonly=True)

    def let_go() -> None:
        nonlocal file
        if file is not None:
            held, file = file, None
            held.close()

    try:
        yield let_go
    finally:
        let_go()


def _index_keys(
    log: Log,
    sources: Sequence[Segment],
    appended: KeyIndex,
    decided: DecidedTransactions,
    step_bytes: int,
    keys_max: int,
) -> Generator[None, None, KeyIndex | None]:
    """Yield the latest offsets of the keys in what is new: those of `appended`, and what was appended before it is
    read, up to where there are too many keys."""
    cleaned_to, until = log.checkpoint.cleaned_to, appended.offsets.start
    key_index = KeyIndex(range(cleaned_to, cleaned_to))
    meter = Meter(step=step_bytes)
    for segment in sources:
        if segment.end_offset <= cleaned_to or segment.base_offset >= until or len(key_index.latest) >= keys_max:
            continue
        if segment not in log.segments:
            return None
        for found in segment.batches(cleaned_to):
            if found.header.base_offset >= until or len(key_index.latest) >= keys_max:
                break
            yield from key_index.note(Batch(found.chunk, found.at, found.header), decided, meter)
            meter.charge(0, found.header.size)
            if meter.end_step():
                yield
    if key_index.offsets.stop >= until:
        key_index.extend(appended)
    yield from key_index.set_marks(decided)
    return key_index


def _groups(sources: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Yield neighbours that fit into one segment together: by their bytes, and by the offsets that they span.

    Segments without batches, which other brokers leave, are joined to a neighbour: to rewrite one would change nothing.
    """
    group: list[Segment] = []
    for segment in sources:
        is_too_large = segment.size and sum([s.size for s in group]) + segment.size > segment_bytes
        if group and (is_too_large or segment.end_offset - group[0].base_offset > RELATIVE_MAX):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _rewritten(
    log: Log, group: list[Segment], survivors: Survivors, epochs: set[int], least_epoch: int, step_bytes: int
) -> Generator[Wait | None, None, Segment | None]:
    """Rewrite one group and swap it in; None, and no trace of it, when the log no longer has these segments."""
    if any(segment not in log.segments for segment in group):  # before there is a file, which needs its directory
        return None
    target = _Target(log.files, log.directory, group, log.config.index_interval_bytes)
    meter = Meter(step=step_bytes)
    try:
        for segment in group:
            if segment not in log.segments:
                return None
            yield from _copy_survivors(segment, target, survivors, epochs, meter)
        end = group[-1].end_offset  # the epoch there is that of the last batch that was read, if it is not known better
        is_ours = end > log.checkpoint.contiguous_from
        target.add(target.repacker.upto(end, log.leader_epoch if is_ours else max(epochs, default=least_epoch)))
        target.write()
        yield _sync_ahead(log.files, target.path)
        if any(segment not in log.segments for segment in group):
            return None
        largest = max(group, key=lambda segment: segment.size).path
        with hold_open(log.files, largest) as let_go:  # to free the blocks of a file takes milliseconds
            target.swap_in()
            log.replace(group, target.segment)
            yield let_go
        return target.segment
    except StorageError as failure:
        if target.is_swapped:  # only the next start knows which of the files are the log
            log.compaction_failure = failure
        raise
    finally:
        target.give_up()


def _copy_survivors(
    segment: Segment, target: _Target, survivors: Survivors, epochs: set[int], meter: Meter
) -> Iterator[None]:
    """Write what survives of one segment; each `next` is a short step."""
    for found in segment.batches(survivors.next_stop(segment.base_offset), next_stop=survivors.next_stop):
        header = found.header
        epochs.add(header.leader_epoch)
        meter.charge(0, header.size)
        if survivors.has_any(header):
            batch = Batch(found.chunk, found.at, header)
            kept = yield from survivors.of(batch, meter)
            target.add((yield from target.repacker.take(batch, kept, meter)))
        if meter.end_step():
            target.write()
            yield


class _Target:
    """The file that will take the place of a group of segments."""

    def __init__(self, files: Files, directory: str, group: list[Segment], index_every_bytes: int) -> None:
        base = group[0].base_offset
        self.segment = Segment(files, f"{directory}/{file_name(base)}", base, index_every_bytes)
        self.segment.modified_ms = group[-1].modified_ms  # so that a compaction does not make the records younger
        self.repacker = Repacker(base)
        self._files, self._directory = files, directory
        self._swap = Swap(base, tuple([segment.base_offset for segment in group]))
        self.path = f"{directory}/{file_name(base, CLEANED)}"
        self._file = files.open(self.path, create=True)
        self._file.truncate(0)  # an earlier attempt may have been given up
        self._pending: list[bytes] = []
        self._is_open = True
        self.is_swapped = False
        """Whether the file is the truth for the offsets that it spans."""

    def add(self, batches: list[bytes]) -> None:
        for batch in batches:
            self.segment.learn(record_batch.header_at(batch))
        self._pending += batches

    def write(self) -> None:
        if self._pending:
            data = b"".join(self._pending)
            self._pending = []
            self._file.append(data)
            self._file.start_writing_back(self.segment.size - len(data), len(data))

    def swap_in(self) -> None:
        if self.segment.modified_ms >= 0:
            self._file.set_modified_ms(self.segment.modified_ms)
        self._file.sync()
        self._close()
        self._files.rename(self.path, f"{self._directory}/{file_name(self._swap.base_offset, SWAP)}")
        self.is_swapped = True
        self._files.sync_directory(self._directory)
        layout.finish(self._files, self._directory, self._swap)
        self.segment.write_indexes(b"")  # nothing of an aborted transaction is left

    def give_up(self) -> None:
        """Remove what was written, unless it was swapped in."""
        with suppress(StorageError):
            self._close()
        if not self.is_swapped:
            layout.remove_if_possible(self._files, self.path)  # a log that is removed takes it along

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._file.close()
