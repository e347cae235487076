"""Mistakes planted in meters, prices and the replacement of a data directory, and in code that was new, each of which
tests must notice.

    python -m tests.mutation.limits [--only TEXT] [--selection nearest|default]

Each is one change of a line, made in a copy of the tree, against the tests that guard it, or as far as these are known
against those that were nearest to it at first, or against all of the default run that may touch the line. A test of the default
run says that all lines are there still.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutation.all_parts import FIFTH, SIXTH, PlantedFault
from tests.mutation.drawn_modules import DRAWN
from tests.mutation.new_code import FAULTS
from tests.mutation.siblings import SIBLINGS
from tests.mutation.where_features_meet import SEVENTH

ROOT: Final = Path(__file__).parents[2]
LEFT_OUT: Final = ("__pycache__", ".*", "site", "dist")  # of the copy
SELECTIONS: Final = ("now", "nearest", "default")
PACKED, BOMBS = "tests/protocol/test_record_batch_compressed.py", "tests/dataplane/test_bombs.py"
COMPACTION, REPLACEMENT = "tests/storage/test_compaction.py", "tests/storage/test_replacement.py"
PRICES, ROOM = "tests/core/test_prices.py", "tests/dataplane/test_room.py"
BUDGET, GROWTH = "tests/core/test_response_budget.py", "tests/worst/test_growth.py"
MEMBERS, STORE = "tests/runtime/test_members_full.py", "tests/core/test_store.py"


class Mistake(NamedTuple):
    """A line of a file, what it becomes, and the tests that must fail then."""

    what: str
    path: str
    line: str
    instead: str
    tests: tuple[str, ...]


MISTAKES: Final = (
    Mistake("a chunk is not charged", "protocol/compression.py",
            "            meter.charge(len(chunk))\n", "", (PACKED, BOMBS)),
    Mistake("a frame costs nothing", "protocol/compression.py",
            "        meter.charge(0, FRAME_BYTES)\n", "", (PACKED, BOMBS)),
    Mistake("a block of snappy is not charged", "protocol/compression.py",
            "        meter.charge(size, FRAME_BYTES)\n", "", (PACKED,)),
    Mistake("a meter without anything left does not refuse", "protocol/compression.py",
            "    limit = min(limit, meter.left)\n", "", (PACKED, BOMBS)),
    Mistake("a batch may unpack to twice as much", "protocol/batch_validation.py",
            "decompressed_bytes_max: int = BATCH_UNPACKED_BYTES_MAX", "decompressed_bytes_max: int = 2 * BATCH_UNPACKED_BYTES_MAX",
            (BOMBS,)),
    Mistake("headers are walked over in one go", "protocol/record_walk.py",
            "STEP_HEADERS = 8_192", "STEP_HEADERS = 8_192_000", (BOMBS,)),
    Mistake("a search by time is one step", "protocol/time_search.py",
            "            if self._meter.end_step():\n                yield\n",
            "            if self._meter.end_step() and self._data is None:\n                yield\n", (BOMBS,)),
    Mistake("empty arrays in elements cost nothing", "protocol/bounds.py",
            "NESTED_HEAP = 48", "NESTED_HEAP = 0", ("tests/protocol/test_amplification.py",)),
    Mistake("a check of each entry is one step", "coordinator/runtime/partial_refusal.py",
            "    for at, entry in enumerate(entries):\n        if pace.is_due():\n            yield\n",
            "    for at, entry in enumerate(entries):\n", ("tests/runtime/test_authorization.py",)),
    Mistake("a check of all names is one step", "coordinator/runtime/authorization/guard.py",
            "            if pace.is_due():\n                yield\n            if not self.need",
            "            if pace is None:\n                yield\n            if not self.need",
            ("tests/runtime/test_authorization.py",)),
    Mistake("a response may take twice as much", "coordinator/core/response_budget.py",
            "RESPONSE_BYTES_MAX: Final = 64 << 20", "RESPONSE_BYTES_MAX: Final = 128 << 20", (BUDGET,)),
    Mistake("a list of groups is charged to nothing", "coordinator/runtime/group_requests.py",
            "                budget.charge_elements(1)\n", "", (BUDGET,)),
    Mistake("Metadata is charged to nothing", "coordinator/dataplane/metadata.py",
            "        budget.charge_elements(1 + len(topic.partitions))\n", "", (GROWTH,)),
    Mistake("a failure that no response can tell is an empty list", "coordinator/runtime/error_response.py",
            "    if any(error_walker(response.__class__)(response)):\n", "    if response is not None:\n", (BUDGET,)),
    Mistake("a step takes ten times as long", "coordinator/runtime/steps.py",
            "STEP_S: Final = 0.002", "STEP_S: Final = 0.02", ("tests/runtime/test_steps.py",)),
    Mistake("a long name is looked up as fast as a short one", "coordinator/core/pace.py",
            "CHARACTERS_A_UNIT: Final = 512", "CHARACTERS_A_UNIT: Final = 51_200", ("tests/runtime/test_steps.py",)),
    Mistake("producers of a partition are one step", "coordinator/dataplane/describe_producers.py",
            "        if pace.count_entry():\n            yield\n", "", ("tests/dataplane/test_steps.py",)),
    Mistake("another module unpacks", "coordinator/dataplane/fetch.py",
            "from typing import", "import gzip  # noqa\nfrom typing import", ("tests/protocol/test_unpacking_doors.py",)),
    Mistake("a compaction unpacks what it leaves", "storage/compaction.py",
            "        if not (batch.is_packed and outlines):\n", "        if True:\n", (COMPACTION,)),
    Mistake("a packed batch is compacted in one step", "storage/compaction.py",
            "PORTION_RECORDS = 4_000", "PORTION_RECORDS = 4_000_000", (COMPACTION,)),
    Mistake("what was held of a key before is not given back", "coordinator/core/prices.py",
            "change = size - self._sizes.get(key, 0)", "change = size", (PRICES,)),
    Mistake("a kind may take twice its bound", "coordinator/core/prices.py",
            "+ more > bound:", "+ more > 2 * bound:", (PRICES, ROOM)),
    Mistake("a new transactional id needs no room", "coordinator/core/transactions/init_producer_id.py",
            "    full = transactions.held.refuse(begun.record)\n", "    full = None\n", (ROOM,)),
    Mistake("partitions of a transaction need no room", "coordinator/core/transactions/membership.py",
            "    full = transactions.held.refuse(record)\n", "    full = None\n", (ROOM,)),
    Mistake("a member that goes gives back nothing", "coordinator/core/weights.py",
            "                change -= 0 if was is None else ENTRY_BYTES + weigh(was)\n", "",
            (MEMBERS, "tests/core/test_scripts.py")),
    Mistake("a member that changes costs what it did", "coordinator/core/weights.py",
            "                change += _weigh_replacement(was, now)\n", "                change += 0\n",
            (MEMBERS, "tests/core/test_scripts.py")),
    Mistake("a group that goes gives back nothing of its members", "coordinator/core/shard.py",
            "            self._release(group_id)\n            self.renewals", "            self.renewals",
            ("tests/core/test_scripts.py", "tests/core/test_model.py")),
    Mistake("a member of a classic group that goes gives back nothing", "coordinator/core/kinds/classic/group.py",
            "members_bytes=self.members_bytes - weigh_member(member)", "members_bytes=self.members_bytes",
            ("tests/core/test_scripts.py", "tests/core/test_model.py")),
    Mistake("a group that is replaced by one of another kind gives back nothing", "coordinator/core/shard.py",
            "                self._release(group_id)\n                before", "                before",
            ("tests/core/test_scripts.py", "tests/core/test_model.py")),
    Mistake("an offset that goes leaves its metadata", "coordinator/core/offsets/store.py",
            "            self._note_metadata(gone, None)\n", "", (STORE,)),
    Mistake("a group's records may be twice as large", "coordinator/runtime/partition.py",
            "or size <= self._settings().max_message_bytes", "or size <= 2 * self._settings().max_message_bytes", (MEMBERS,)),
    Mistake("a target that is too large is computed again and again", "coordinator/core/kinds/modern/long_targets.py",
            "replace(group, long_target=replace(taken.target, is_too_large=True))", "replace(group, long_target=None)",
            ("tests/runtime/test_large_targets_refused.py",)),
    Mistake("no producer id is forgotten", "storage/producers.py",
            "            if self._total.count > self._total.most:\n", "            if self._total.count < 0:\n",
            ("tests/storage/test_producers.py",)),
    Mistake("long lists are counted as single entries", "coordinator/core/catalog/alterations.py",
            "        price = _price_of(asked)\n", "        price = 1\n", ("tests/dataplane/test_steps.py",)),
    Mistake("new logs count before they are on the disk", "storage/replacement.py",
            "        file.sync()\n", "", (REPLACEMENT,)),
    Mistake("the flip is not on the disk before the old logs go", "storage/replacement.py",
            "    if REPLACING in names:\n        files.sync_directory(data_dir)\n", "    if REPLACING in names:\n", (REPLACEMENT,)),
    Mistake("what fails before the flip is left to count", "storage/replacement.py",
            '        files.rename(incoming, f"{data_dir}/{REPLACING}")\n',
            '        files.rename(incoming, f"{data_dir}/{REPLACING}")\n        files.sync_directory(data_dir)\n', (REPLACEMENT,)),
    Mistake("a newer format is read", "storage/data_format.py",
            "    if int(text) > FORMAT:\n", "    if int(text) > FORMAT + 1:\n", ("tests/storage/test_data_format.py",)),
)  # fmt: skip


def find_place(mistake: Mistake, root: Path = ROOT) -> str:
    """Return the file's text. Raises ValueError unless the line is there once."""
    text = (root / mistake.path).read_text()
    if text.count(mistake.line) != 1:
        raise ValueError(f"{mistake.what}: {text.count(mistake.line)} times in {mistake.path}: {mistake.line!r}")
    return text


def is_found(mistake: Mistake, copy: Path) -> bool:
    """Plant a mistake in a copy of the tree, and return whether its tests fail."""
    path = copy / mistake.path
    text = find_place(mistake, copy)
    path.write_text(text.replace(mistake.line, mistake.instead))
    try:
        return not do_pass(mistake.tests, copy)
    finally:
        path.write_text(text)


def do_pass(tests: Iterable[str], copy: Path) -> bool:
    """Return whether tests pass in a copy of the tree: files one after the other, folders by several processes."""
    chosen = tuple(tests)
    workers = "2" if any((copy / one).is_dir() for one in chosen) else "0"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", workers, "-p", "no:cacheprovider", *chosen]
    paths = os.pathsep.join((str(copy), str(copy / "pytest-muster" / "src")))
    environment = {**os.environ, "PYTHONPATH": paths}  # Spark asks for the home directory
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=1800)
    has_failed = done.returncode == 1 or (done.returncode == 2 and b"stopping after 1 failures" in done.stdout)
    if done.returncode and not has_failed:
        raise RuntimeError(done.stdout.decode() + done.stderr.decode())
    return not has_failed


def choose_tests(fault: PlantedFault, selection: str) -> Mistake:
    """Return a fault with the tests of a selection."""
    tests = {"now": fault.tests, "nearest": fault.nearest, "default": fault.default}[selection]
    return Mistake(fault.what, fault.path, fault.line, fault.instead, tests)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only mistakes with this text in their name")
    parser.add_argument(
        "--selection",
        choices=SELECTIONS,
        default=SELECTIONS[0],
        help="the tests, of faults of which more than one is known",
    )
    given = parser.parse_args()
    faults = [choose_tests(fault, given.selection) for fault in (*FIFTH, *SIXTH, *SEVENTH, *chain.from_iterable(DRAWN))]
    if given.selection == SELECTIONS[0]:
        faults = [*MISTAKES, *(Mistake(*fault[:5]) for fault in (*FAULTS, *SIBLINGS)), *faults]
    chosen = [mistake for mistake in faults if given.only in mistake.what]
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for test in dict.fromkeys(test for mistake in chosen for test in mistake.tests):
            if not do_pass([test], copy):
                print(f"without a mistake {test} fails", file=sys.stderr)
                return 2
        for mistake in chosen:
            found = is_found(mistake, copy)
            unseen += not found
            print(f"{'found ' if found else 'UNSEEN'}  {mistake.what}", flush=True)
    print(f"{len(chosen) - unseen} of {len(chosen)}")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
