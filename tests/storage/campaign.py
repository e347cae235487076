"""Crashes, torn writes, flipped bits and failing calls, by the thousand.

`python -m tests.storage.campaign --histories 50 --seed 1` is the long run; the tests do a part of each. What is found
is raised as an AssertionError that names the seed, the call and the state, so that it can be played again.
"""

from __future__ import annotations

import argparse
import errno
import random
import time
from collections.abc import Callable, Iterable, Iterator

from protocol.record_batch import encode
from protocol.records import Record
from storage import checkpoint, cleaner
from storage.files import StorageError
from storage.layout import INDEXES, SWAP, DamagedLog
from storage.log import Log, LogConfig
from storage.segment import file_name
from tests.storage.crashing_disk import HOLE, CrashingDisk
from tests.storage.history import CONFIG, DATA, History, Model, state_of

ERRORS = (errno.EIO, errno.ENOSPC, errno.EINTR, errno.EDQUOT)


def judged(disk: CrashingDisk, before: CrashingDisk, models: dict[str, Model], where: str) -> None:
    """Recover both logs of what a crash has left, twice: what was mended once must stay so, and must take appends.

    Where a write of several batches has left a hole with a whole batch behind it, that cannot be told from damage,
    and the only right answer is to refuse, at a byte that was never synced.
    """
    power_cut = not where.endswith("killed")
    for directory, model in models.items():
        try:
            log = Log.open(disk, directory, CONFIG)
            wrong = model.verdict(log, power_cut=power_cut) or _find_leftovers(disk, log)
            end = log.end_offset
            if log.start_offset > end:
                wrong = f"begins at {log.start_offset}, behind its end at {end}"
            log.append(encode([Record(b"after", b"the crash", (), 0, 1)]))
            log.release()
            again = Log.open(disk, directory, CONFIG)
            if again.end_offset != end + 1:
                wrong = wrong or f"ends at {again.end_offset} instead of {end + 1} when opened once more"
        except DamagedLog as damage:
            if where.endswith(HOLE) and damage.position >= before.synced_size(damage.path):
                continue
            wrong = f"does not open: {damage}"
        assert wrong is None, f"{where}: {directory} {wrong}"


def _find_leftovers(disk: CrashingDisk, log: Log) -> str | None:
    """What an opened log has in its directory beside its segments, their indexes and what was torn, or None."""
    known = {file_name(one.base_offset, suffix) for one in log.segments for suffix in (".log", *INDEXES)}
    left = [name for name in disk.list(log.directory) if name not in known and ".torn." not in name]
    return None if left in ([], [checkpoint.NAME]) else f"leaves {left}"


def crash_points(seed: int, operations: int = 300, every: int = 1, every_call: int = 1) -> int:
    """R1: crash after every storage call of one history, in every way that the disk knows. Returns how many were
    judged.

    Of the calls only every nth is looked at, by `every_call`, and of its power cuts every nth, by `every`; a killed
    process is judged at each of them.
    """
    disk = CrashingDisk()
    history = History(disk, seed, operations)
    calls = seen = points = 0

    def crash(operation: str, path: str) -> None:
        nonlocal calls, seen, points
        calls += 1
        for how, left in disk.crashes() if calls % every_call == 0 else ():
            seen += 1
            if how == "killed" or seen % every == 0:
                where = f"seed {seed}, call {disk.calls} ({operation} {path}), {how}"
                judged(left, disk, history.models, where)
                points += 1

    disk.after_call = crash
    history.play()
    assert history.compactions >= operations // 60, "the history compacts"
    return points


def days(seed: int, operations: int = 300) -> int:
    """No crash at all: after each compaction the log as it stands says what the model says."""
    disk = CrashingDisk()
    history = History(disk, seed, operations)

    def look(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith(SWAP):
            judged(disk.copy(), disk, history.models, f"seed {seed}, call {disk.calls}, killed")

    disk.after_call = look
    history.play()
    return history.compactions


def failing_calls(seed: int, operations: int, errors: Iterable[int] = ERRORS, every_call: int = 1) -> int:
    """R6: fail each storage call of one history in turn, or every nth. The process ends there; nothing acknowledged
    may be missing."""
    whole = CrashingDisk()
    History(whole, seed, operations).play()
    rounds = 0
    for number in range(1, whole.calls + 1, every_call):
        for error in errors:
            disk = CrashingDisk()
            disk.fail = {number: error}
            history = History(disk, seed, operations)
            try:
                history.play()
            except StorageError as failure:
                _expect(failure.errno == error, f"call {number} was to fail with {error}, not with {failure}")
            for how, left in disk.crashes():
                where = f"seed {seed}, call {number} fails with {errno.errorcode[error]}, {how}"
                judged(left, disk, history.models, where)
            rounds += 1
    return rounds


# -- torn writes -------------------------------------------------------------------------------------------------------


def _spoilt(data: bytes, at: int, dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """What a torn write of `data` may leave from byte `at` on."""
    rest = len(data) - at
    yield "cut", data[:at]
    yield "zeros", data[:at] + bytes(rest)
    yield "garbage", data[:at] + dice.randbytes(rest)


def torn_tails(seed: int, batches: int = 6, spoilt_batches: int = 3) -> int:
    """R2: spoil the last batches of a log from every byte on; what came before opens, and nothing else does."""
    dice = random.Random(seed)
    disk = CrashingDisk()
    log = Log.open(disk, DATA, LogConfig())
    ends: list[tuple[int, int]] = []
    for number in range(batches):
        records = [Record(b"key-%d" % n, b"value %d of %d" % (n, number), (), 0, 1000 + n) for n in range(4)]
        log.append(encode(records))
        ends.append((log.segments[-1].size, log.end_offset))
    opens = 0
    path = log.segments[-1].path
    data = disk.contents()[path]
    for at in range(ends[-1 - spoilt_batches][0], len(data)):
        for how, left in _spoilt(data, at, dice):
            size, end = max((size, end) for size, end in ends if left[:size] == data[:size])
            torn = disk.copy()
            torn.put(path, left)
            try:
                recovered = Log.open(torn, DATA, LogConfig())
            except DamagedLog:
                assert _bits_apart(left, data[: len(left)]) == 1, f"seed {seed}, {how} from byte {at} is no torn write"
                continue
            assert recovered.end_offset == end, f"seed {seed}, {how} from byte {at}"
            cut = recovered.cut and (recovered.cut.position, recovered.cut.size)
            assert cut == ((size, len(left) - size) if len(left) > size else None), f"seed {seed}, {how} from byte {at}"
            opens += 1
    return opens


def _bits_apart(one: bytes, other: bytes) -> int:
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))


def torn_compactions(seed: int, every_byte: int = 3) -> int:
    """R2: spoil the file of a compaction from every nth byte on, before and after it is the truth."""
    dice = random.Random(seed)
    disk = CrashingDisk()
    history = History(disk, seed, 40)
    history.play()
    opens = 0
    seen: list[tuple[str, CrashingDisk]] = []
    log = Log.open(disk, "data/__consumer_offsets-0", CONFIG)
    state, end = state_of(log), log.end_offset
    disk.after_call = lambda operation, path: seen.append((f"{operation} {path}", disk.copy()))
    cleaner.run(log, 2_000_000)
    stages = [(what, left) for what, left in seen if what.startswith(("append to", "rename"))]
    for what, left in stages:
        for path, data in left.contents().items():
            if not path.endswith((".cleaned", ".swap")):
                continue
            for at in range(0, len(data), every_byte):
                for how, spoilt in _spoilt(data, at, dice):
                    torn = left.copy()
                    torn.put(path, spoilt)
                    try:
                        recovered = Log.open(torn, log.directory, CONFIG)
                    except DamagedLog:
                        assert path.endswith(".swap"), (
                            f"seed {seed}, {what}: {path} {how} from byte {at} is not refused"
                        )
                    else:
                        right = (recovered.end_offset, state_of(recovered)) == (end, state)
                        assert right or spoilt == data, f"seed {seed}, {what}: {path} {how} from byte {at} is believed"
                    opens += 1
    return opens


# -- damage ------------------------------------------------------------------------------------------------------------


def bit_flips(seed: int, flips: int | None = None, size: int = 64 * 1024, *, is_closed: bool = True) -> int:
    """R3: flip single bits of a log; every one in a segment or the checkpoint is told with its file.

    None flips all of them.
    """
    disk = CrashingDisk()
    config = LogConfig(segment_bytes=size // 4)
    log = Log.open(disk, DATA, config)
    dice = random.Random(seed)
    while log.size < size:
        records = [Record(b"key-%d" % n, dice.randbytes(120), (), 0, 1000 + n) for n in range(dice.randint(1, 12))]
        log.append(encode(records))
    if is_closed:
        log.close()
    contents = {p: d for p, d in disk.contents().items() if p.endswith((".log", ".checkpoint"))}
    bits = [(path, bit) for path, data in contents.items() for bit in range(8 * len(data))]
    for path, bit in dice.sample(bits, flips) if flips is not None else bits:
        data = bytearray(contents[path])
        data[bit // 8] ^= 1 << bit % 8
        disk.put(path, bytes(data))
        _detected(disk, config, path, bit)
        disk.put(path, contents[path])
    return flips or len(bits)


def _detected(disk: CrashingDisk, config: LogConfig, path: str, bit: int) -> None:
    try:
        Log.open(disk, DATA, config)
    except DamagedLog as damage:
        _expect(damage.path == path, f"bit {bit} of {path} is blamed on {damage}")
        _expect(damage.position <= bit // 8, f"bit {bit} of {path} is found too late: {damage}")
    else:
        raise AssertionError(f"bit {bit} of {path} (byte {bit // 8}) goes unseen")


def _expect(is_so: bool, message: str) -> None:
    assert is_so, message


def main() -> None:
    parser = argparse.ArgumentParser(
        description="crashes, torn writes, flipped bits and failing calls, by the thousand"
    )
    parser.add_argument("--histories", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=8, help="judge only every nth of the power cuts; 1 for all")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.histories)
    campaigns: list[tuple[str, Callable[[int], int], range]] = [
        ("crash points", lambda seed: crash_points(seed, every=arguments.every), seeds),
        ("days without a crash", days, seeds),
        ("torn tails", lambda seed: torn_tails(seed, 60, 58), seeds[:10]),
        ("torn compactions", torn_compactions, seeds),
        ("failing calls", lambda seed: failing_calls(seed, 60), seeds[:10]),
        ("bit flips", bit_flips, seeds[:1]),
        ("bit flips in a log that was not closed", lambda seed: bit_flips(seed, is_closed=False), seeds[:1]),
    ]
    for name, campaign, its_seeds in campaigns:
        began = time.monotonic()
        total = sum(campaign(seed) for seed in its_seeds)
        print(
            f"{name}, seeds {its_seeds[0]} to {its_seeds[-1]}: {total:,} in {time.monotonic() - began:.0f} s, nothing lost",
            flush=True,
        )


if __name__ == "__main__":
    main()
