"""Storage broken on purpose, one guarded line at a time, to show that the campaigns notice.

Each mutant is registered with the campaign that has to find it, and as what; `test_mutants.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import pytest

from protocol.compression import Meter
from protocol.record_batch import NO_PRODUCER, BatchHeader
from protocol.records import EndMarker, Record
from storage import checkpoint, cleaner, layout, recovery
from storage.appended_keys import AppendedKeys
from storage.compaction import Batch, DecidedTransactions, KeyIndex, Remainder, Repacker, Survivors
from storage.layout import Layout
from storage.log import Log
from storage.recovery import TornWrite
from storage.segment import Segment, base_offset_of, file_name
from tests.mistakes import Faulty, Plant, replacing
from tests.storage import campaign
from tests.storage.crashing_disk import CrashingFile
from tests.storage.history import History
from tests.storage.tombstones import tombstones_stay_their_time

Campaign = Callable[[], None]


def crashes() -> None:
    for seed in (8, 3):  # 8 is cut off within the swap of several segments, 3 within a deletion
        campaign.crash_points(seed, 64, every=3)


def days() -> None:
    for seed in range(4):
        campaign.days(seed)


def damage() -> None:
    campaign.bit_flips(1, 4000, 16 * 1024)


CAMPAIGNS: Final[tuple[Campaign, ...]] = (crashes, days, damage, tombstones_stay_their_time)
MUTANTS: Final[dict[str, tuple[Plant, Campaign, str]]] = {}  # by name: with who finds it, and as what


def found_by(campaign: Campaign, as_: str) -> Callable[[Plant], Plant]:
    """Register what plants a mistake."""

    def register(plant: Plant) -> Plant:
        MUTANTS[plant.__name__] = (plant, campaign, as_)
        return plant

    return register


def instead(owner: Any, name: str, campaign: Campaign, as_: str) -> Callable[[Faulty], Faulty]:
    """Register a mistake that is called as `faulty(method, *arguments)` in place of a method or function."""

    def register(faulty: Faulty) -> Faulty:
        MUTANTS[faulty.__name__] = (replacing(owner, name, faulty), campaign, as_)
        return faulty

    return register


@contextmanager
def without(call: str, of: str = "") -> Iterator[None]:
    """For a while a call of files does nothing, of those whose names end so."""
    with pytest.MonkeyPatch.context() as patch:
        real = getattr(CrashingFile, call)
        patch.setattr(CrashingFile, call, lambda file, *args: None if file.path.endswith(of) else real(file, *args))
        yield


# -- appends and recovery ----------------------------------------------------------------------------------------------


@instead(History, "_append", crashes, r"killed: \S+ ends at \d+, which is none of")
def acknowledges_before_the_append(append: Any, history: History, directory: str, batches: list[bytes]) -> None:
    model = history.models[directory]
    model.begin(batches)
    model.written = model.synced = len(model.states) - 1
    history._logs[directory].append(batches)
    history._logs[directory].sync()


@instead(Log, "sync", crashes, r"power cut.*: \S+ ends at \d+, which is none of")
def sync_does_nothing(sync: Any, log: Log) -> None:
    pass


@instead(recovery._Reader, "_judge", damage, "blamed on .* a segment is missing before this one")
def takes_damage_for_the_end(judge: Any, reader: Any, segment: Segment, reason: str, rest: bytes, *_: Any) -> None:
    """What many logs do: everything from the first bad batch on is dropped."""
    reader.report.cut = TornWrite(segment.path, segment.size, len(rest), segment.end_offset, reason)


@found_by(damage, r"\.log .*goes unseen")
def does_not_look_behind_a_bad_batch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "whole_batches", lambda rest, after_offset: iter(()))
    patch.setattr(recovery, "_compare_with_checkpoint", lambda report, directory: None)
    patch.setattr(checkpoint, "read", lambda files, directory: checkpoint.encode(checkpoint.Checkpoint()))


@instead(recovery, "walk", damage, r"\.log .*goes unseen")
def does_not_compare_checksums(walk: Any, *args: Any) -> Any:
    return walk(*args, checked=False)


@instead(recovery._Reader, "_compare", damage, r"\.log .*goes unseen")
def does_not_compare_neighbours(compare: Any, *args: Any) -> None:
    pass


@instead(checkpoint, "decode", damage, r"muster\.checkpoint .*goes unseen")
def believes_any_checkpoint(decode: Any, data: bytes) -> checkpoint.Checkpoint:
    pairs = dict(line.split(b" ", 1) for line in data.splitlines()[1:-1] if b" " in line)
    values = {name.decode("latin-1"): value for name, value in pairs.items()}
    known = {n: int(v) for n, v in values.items() if n in checkpoint.Checkpoint.__struct_fields__ and v.isdigit()}
    return checkpoint.Checkpoint(**known)


@instead(
    Log, "_recover", crashes, r"ends at \d+ instead of \d+ when opened once more|no batch's, which was on the disk"
)
def leaves_the_torn_tail(recover: Any, *args: Any) -> None:
    with without("truncate"):
        recover(*args)


@instead(Log, "roll", crashes, "power cut.* does not open: data/orders-0/.* is cut off")
def rolls_without_a_sync(roll: Any, log: Log) -> None:
    with without("sync", ".log"):
        roll(log)


@instead(Log, "_save", crashes, r"\(remove data/orders.* killed: .* at or before offset 0 is missing")
def deletes_before_it_remembers(save: Any, log: Log, **changes: int) -> None:
    if "start_offset" in changes:
        kept = log._checkpoint
        log._checkpoint = msgspec.structs.replace(kept, **changes)
        log._drop_deleted_segments()
        log._checkpoint = kept
    save(log, **changes)


@instead(Log, "delete_before", crashes, r"power cut.* begins at \d+, behind its end at \d+")
def deletes_what_is_not_on_the_disk(delete_before: Any, log: Log, offset: int) -> Any:
    with without("sync", ".log" if offset < log.end_offset else "no file"):
        return delete_before(log, offset)


@instead(checkpoint, "write", crashes, "power cut.* does not open: .*the checkpoint's own checksum")
def replaces_the_checkpoint_unsynced(write: Any, *args: Any) -> None:
    with without("sync"):
        write(*args)


# -- compaction --------------------------------------------------------------------------------------------------------


@instead(cleaner._Target, "swap_in", crashes, r"\(rename .*\.log\.cleaned\), power cut.* does not open")
def swaps_an_unsynced_file(swap_in: Any, target: Any) -> None:
    with without("sync"):
        swap_in(target)


@instead(
    cleaner._Target, "swap_in", crashes, r"\(remove .*\.log(\.cleaned)?\), killed: .* at or before offset 0 is missing"
)
def removes_the_sources_first(swap_in: Any, target: Any) -> None:
    target._file.sync()
    for base in target._swap.sources:
        target._files.remove(f"{target._directory}/{file_name(base)}")
    target._files.rename(target._path, f"{target._directory}/{file_name(target._swap.base_offset)}")
    target.is_swapped = True


@instead(layout, "look", crashes, "killed: .* does not open: .*a segment is missing before this one")
def ignores_a_finished_swap(look: Any, files: Any, directory: str) -> Layout:
    bases = [base for name in files.list(directory) if (base := base_offset_of(name)) is not None]
    return Layout(tuple((base, file_name(base)) for base in sorted(bases)), (), look(files, directory).rubbish)


@instead(Survivors, "_marker", days, "is None instead of b")
def forgets_end_markers(marker: Any, *args: Any) -> tuple[list[Any], None]:
    return [], None


@instead(KeyIndex, "note", days, "is None instead of b")
def compacts_by_aborted_records(
    note: Any, index: KeyIndex, batch: Any, decided: DecidedTransactions, meter: Meter
) -> Any:
    """The latest value of a key is taken from a transaction that was aborted, and the one before it goes."""
    return note(index, batch, DecidedTransactions({}, frozenset()), meter)


@instead(AppendedKeys, "note", days, "is None instead of b")
def compacts_by_noted_records_that_were_aborted(
    note: Any, keys: AppendedKeys, header: BatchHeader, records: list[Record], marker: EndMarker | None
) -> None:
    note(keys, header, records, EndMarker(commits=True) if marker is not None else None)


@instead(AppendedKeys, "note", days, "is None instead of b")
def compacts_by_noted_records_of_open_transactions(
    note: Any, keys: AppendedKeys, header: BatchHeader, *rest: Any
) -> None:
    producer_id = header.producer_id if header.is_control else NO_PRODUCER
    note(keys, msgspec.structs.replace(header, producer_id=producer_id), *rest)


@instead(KeyIndex, "next_stop", days, "is None instead of b")
def passes_over_survivors(next_stop: Any, index: KeyIndex, offset: int) -> Any:
    """The next stop is taken for one that is further on."""
    return next_stop(index, next_stop(index, offset) + 1)


@found_by(days, "is (None|b.+) instead of b")
def compacts_past_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "last_stable_offset", property(lambda self: self.end_offset))


@instead(Repacker, "upto", days, "does not open: .*(a segment is missing before this one|contradicts its neighbours)")
def leaves_gaps_in_the_offsets(upto: Any, repacker: Repacker, end_offset: int, leader_epoch: int) -> Any:
    if repacker._plain:
        return upto(repacker, end_offset, leader_epoch)
    repacker._next = end_offset
    return []


@instead(Survivors, "of", tombstones_stay_their_time, "seen for the first time")
def drops_tombstones_too_early(
    of: Any, survivors: Survivors, batch: Batch, meter: Meter
) -> Generator[None, None, Remainder | None]:
    kept = yield from of(survivors, batch, meter)
    if kept is None or kept.outlines is None or batch.header.is_control:
        return kept
    outlines = [outline for outline in kept.outlines if not outline.is_tombstone]
    return Remainder(outlines, None) if outlines else None


@instead(Survivors, "__init__", tombstones_stay_their_time, "^over")
def never_drops_tombstones(begin: Any, survivors: Survivors, *args: Any) -> None:
    begin(survivors, *args)
    survivors._now_ms = 0
