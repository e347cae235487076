"""Storage broken on purpose, one guarded line at a time, to show that the campaigns notice.

Each mutant patches one thing for the time of a test; `test_mutants.py` runs the campaign that has to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import pytest

from protocol.record_batch import NO_PRODUCER, BatchHeader
from protocol.records import EndMarker, Record
from storage import checkpoint, cleaner, layout, recovery
from storage.appended_keys import AppendedKeys
from storage.compaction import Batch, DecidedTransactions, KeyIndex, Remainder, Repacker, Survivors
from storage.layout import Layout
from storage.log import Log
from storage.recovery import TornWrite
from storage.segment import Segment, base_offset_of, file_name, walk
from tests.storage import campaign
from tests.storage.crashing_disk import CrashingDisk, CrashingFile
from tests.storage.history import History
from tests.storage.test_compaction import tombstones_stay_their_time

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
Campaign = Callable[[], None]


def acknowledges_before_the_append(patch: Patch) -> None:
    def hasty(self: History, directory: str, batches: list[bytes]) -> None:
        model = self.models[directory]
        model.begin(batches)
        model.written = model.synced = len(model.states) - 1
        self._logs[directory].append(batches)
        self._logs[directory].sync()

    patch.setattr(History, "_append", hasty)


def sync_does_nothing(patch: Patch) -> None:
    patch.setattr(Log, "sync", lambda self: None)


def takes_damage_for_the_end(patch: Patch) -> None:
    """What many logs do: everything from the first bad batch on is dropped."""

    def judge(self: recovery._Reader, segment: Segment, reason: str, rest: bytes, is_last: bool) -> None:
        self.report.cut = TornWrite(segment.path, segment.size, len(rest), segment.end_offset, reason)

    patch.setattr(recovery._Reader, "_judge", judge)


def does_not_look_behind_a_bad_batch(patch: Patch) -> None:
    patch.setattr(recovery, "whole_batches", lambda rest, after_offset: iter(()))
    patch.setattr(recovery, "_compare_with_checkpoint", lambda report, directory: None)
    patch.setattr(checkpoint, "read", lambda files, directory: checkpoint.encode(checkpoint.Checkpoint()))


def does_not_compare_checksums(patch: Patch) -> None:
    patch.setattr(recovery, "walk", lambda file, position, end: walk(file, position, end, checked=False))


def does_not_compare_neighbours(patch: Patch) -> None:
    patch.setattr(recovery._Reader, "_compare", lambda self, found, segment: None)


def believes_any_checkpoint(patch: Patch) -> None:
    def decode(data: bytes) -> checkpoint.Checkpoint:
        pairs = dict(line.split(b" ", 1) for line in data.splitlines()[1:-1] if b" " in line)
        values = {name.decode("latin-1"): value for name, value in pairs.items()}
        known = {n: int(v) for n, v in values.items() if n in checkpoint.Checkpoint.__struct_fields__ and v.isdigit()}
        return checkpoint.Checkpoint(**known)

    patch.setattr(checkpoint, "decode", decode)


def leaves_the_torn_tail(patch: Patch) -> None:
    recover = Log._recover

    def recovered(self: Log, on_progress: recovery.Progress | None) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CrashingFile, "truncate", lambda self, size: None)
            recover(self, on_progress)

    patch.setattr(Log, "_recover", recovered)


def rolls_without_a_sync(patch: Patch) -> None:
    roll, others = Log.roll, _syncs_all_but_segments()

    def rolled(self: Log) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CrashingFile, "sync", others)
            roll(self)

    patch.setattr(Log, "roll", rolled)


def deletes_before_it_remembers(patch: Patch) -> None:
    save = Log._save

    def saved(self: Log, **changes: int) -> None:
        if "start_offset" in changes:
            kept = self._checkpoint
            self._checkpoint = checkpoint.Checkpoint(**{**_fields(kept), **changes})
            self._drop_deleted()
            self._checkpoint = kept
        save(self, **changes)

    patch.setattr(Log, "_save", saved)


def deletes_what_is_not_on_the_disk(patch: Patch) -> None:
    delete_before, others = Log.delete_before, _syncs_all_but_segments()

    def deleted(self: Log, offset: int) -> int:
        with pytest.MonkeyPatch.context() as inner:
            if offset < self.end_offset:
                inner.setattr(CrashingFile, "sync", others)
            return delete_before(self, offset)

    patch.setattr(Log, "delete_before", deleted)


def _syncs_all_but_segments() -> Callable[[CrashingFile], None]:
    sync = CrashingFile.sync
    return lambda file: None if file.path.endswith(".log") else sync(file)


def _fields(value: checkpoint.Checkpoint) -> dict[str, int]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def replaces_the_checkpoint_unsynced(patch: Patch) -> None:
    write = checkpoint.write

    def written(files: CrashingDisk, directory: str, value: checkpoint.Checkpoint) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CrashingFile, "sync", lambda self: None)
            write(files, directory, value)

    patch.setattr(checkpoint, "write", written)


def swaps_an_unsynced_file(patch: Patch) -> None:
    swap_in = cleaner._Target.swap_in

    def unsynced(self: cleaner._Target) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(CrashingFile, "sync", lambda self: None)
            swap_in(self)

    patch.setattr(cleaner._Target, "swap_in", unsynced)


def removes_the_sources_first(patch: Patch) -> None:
    def rewritten(self: cleaner._Target) -> None:
        self._file.sync()
        for base in self._swap.sources:
            self._files.remove(f"{self._directory}/{file_name(base)}")
        self._files.rename(self._path, f"{self._directory}/{file_name(self._swap.base_offset)}")
        self.is_swapped = True

    patch.setattr(cleaner._Target, "swap_in", rewritten)


def ignores_a_finished_swap(patch: Patch) -> None:
    look = layout.look

    def blind(files: CrashingDisk, directory: str) -> Layout:
        found = look(files, directory)
        names = files.list(directory)
        bases = [base for name in names if (base := base_offset_of(name)) is not None]
        return Layout(tuple((base, file_name(base)) for base in sorted(bases)), (), found.rubbish)

    patch.setattr(layout, "look", blind)


def forgets_end_markers(patch: Patch) -> None:
    patch.setattr(Survivors, "_marker", lambda self, header, marker, horizon, is_over: ([], None))


def compacts_by_aborted_records(patch: Patch) -> None:
    """The latest value of a key is taken from a transaction that was aborted, and the one before it goes."""

    note = KeyIndex.note
    patch.setattr(
        KeyIndex, "note", lambda self, batch, decided: note(self, batch, DecidedTransactions({}, frozenset()))
    )


def compacts_by_noted_records_that_were_aborted(patch: Patch) -> None:
    def note(self: AppendedKeys, header: BatchHeader, records: list[Record], marker: EndMarker | None) -> None:
        original(self, header, records, EndMarker(commits=True) if marker is not None else None)

    original = AppendedKeys.note
    patch.setattr(AppendedKeys, "note", note)


def compacts_by_noted_records_of_open_transactions(patch: Patch) -> None:
    def note(self: AppendedKeys, header: BatchHeader, records: list[Record], marker: EndMarker | None) -> None:
        producer_id = header.producer_id if header.is_control else NO_PRODUCER
        noted = msgspec.structs.replace(header, producer_id=producer_id)
        original(self, noted, records, marker)

    original = AppendedKeys.note
    patch.setattr(AppendedKeys, "note", note)


def passes_over_survivors(patch: Patch) -> None:
    """The next stop is taken for one that is further on."""
    next_stop = KeyIndex.next_stop
    patch.setattr(KeyIndex, "next_stop", lambda self, offset: next_stop(self, next_stop(self, offset) + 1))


def compacts_past_the_last_stable_offset(patch: Patch) -> None:
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.end_offset))


def drops_tombstones_too_early(patch: Patch) -> None:
    of = Survivors.of

    def hasty(self: Survivors, batch: Batch) -> Remainder | None:
        kept = of(self, batch)
        if kept is None or kept.outlines is None or batch.header.is_control:
            return kept
        outlines = [outline for outline in kept.outlines if not outline.is_tombstone]
        return Remainder(outlines, None) if outlines else None

    patch.setattr(Survivors, "of", hasty)


def never_drops_tombstones(patch: Patch) -> None:
    begin = Survivors.__init__

    def timeless(
        self: Survivors, noted: KeyIndex, decided: DecidedTransactions, now_ms: int, delete_retention_ms: int
    ) -> None:
        begin(self, noted, decided, now_ms, delete_retention_ms)
        self._now_ms = 0

    patch.setattr(Survivors, "__init__", timeless)


def leaves_gaps_in_the_offsets(patch: Patch) -> None:
    upto = Repacker.upto

    def gappy(self: Repacker, end_offset: int, leader_epoch: int) -> list[bytes]:
        if self._plain:
            return upto(self, end_offset, leader_epoch)
        self._next = end_offset
        return []

    patch.setattr(Repacker, "upto", gappy)


def crashes() -> None:
    for seed in (8, 3):  # 8 is cut off within the swap of several segments, 3 within a deletion
        campaign.crash_points(seed, 64, every=3)


def days() -> None:
    for seed in range(4):
        campaign.days(seed)


def damage() -> None:
    campaign.bit_flips(1, 4000, 16 * 1024)


CAMPAIGNS: Final[tuple[Campaign, ...]] = (crashes, days, damage, tombstones_stay_their_time)

MUTANTS: Final[Mapping[Mutant, tuple[Campaign, str]]] = {  # who finds it, and as what
    acknowledges_before_the_append: (crashes, r"killed: \S+ ends at \d+, which is none of"),
    sync_does_nothing: (crashes, r"power cut.*: \S+ ends at \d+, which is none of"),
    takes_damage_for_the_end: (damage, "blamed on .* a segment is missing before this one"),
    does_not_look_behind_a_bad_batch: (damage, r"\.log .*goes unseen"),
    does_not_compare_checksums: (damage, r"\.log .*goes unseen"),
    does_not_compare_neighbours: (damage, r"\.log .*goes unseen"),
    believes_any_checkpoint: (damage, r"muster\.checkpoint .*goes unseen"),
    leaves_the_torn_tail: (
        crashes,
        r"ends at \d+ instead of \d+ when opened once more|no batch's, which was on the disk",
    ),
    rolls_without_a_sync: (crashes, "power cut.* does not open: data/orders-0/.* is cut off"),
    deletes_before_it_remembers: (crashes, r"\(remove data/orders.* killed: .* at or before offset 0 is missing"),
    deletes_what_is_not_on_the_disk: (crashes, r"power cut.* begins at \d+, behind its end at \d+"),
    replaces_the_checkpoint_unsynced: (crashes, "power cut.* does not open: .*the checkpoint's own checksum"),
    swaps_an_unsynced_file: (crashes, r"\(rename .*\.log\.cleaned\), power cut.* does not open"),
    removes_the_sources_first: (
        crashes,
        r"\(remove .*\.log(\.cleaned)?\), killed: .* at or before offset 0 is missing",
    ),
    ignores_a_finished_swap: (crashes, "killed: .* does not open: .*a segment is missing before this one"),
    forgets_end_markers: (days, "is None instead of b"),
    compacts_by_aborted_records: (days, "is None instead of b"),
    compacts_by_noted_records_that_were_aborted: (days, "is None instead of b"),
    compacts_by_noted_records_of_open_transactions: (days, "is None instead of b"),
    passes_over_survivors: (days, "is None instead of b"),
    compacts_past_the_last_stable_offset: (days, "is (None|b.+) instead of b"),
    leaves_gaps_in_the_offsets: (days, "does not open: .*a segment is missing before this one"),
    drops_tombstones_too_early: (tombstones_stay_their_time, "seen for the first time"),
    never_drops_tombstones: (tombstones_stay_their_time, "^over"),
}
