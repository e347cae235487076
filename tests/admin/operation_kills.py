"""A server that is killed while an operator changes many things one after the other: each of them is as before, or done.

    python -m tests.admin.operation_kills --rounds 200 [--seed N] [--groups 100]

Each round commits a state twice, begins one of the operations below, and sends SIGKILL at a moment that the seed names.
The server starts; each group, topic and offset is as it was or as it was to be, a reset of a prefix is whole, and so are
the offsets of each group that an import sets. (So are a reset of everything and a restore:
`tests/admin/restart_kills.py`.)
"""

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.admin import restart_kills
from tests.admin.restart_kills import ask
from tests.live import Muster
from tests.ports import reserve_row

KILL_WITHIN_S = 0.3
LARGE, WIDE = "a", "wide"  # a group with more offsets than one request sets as a whole, and the topic that it reads
TOPICS = {**restart_kills.TOPICS, WIDE: 2_400}
State = dict[str, Any]
Operation = Callable[[Muster, Path], None]


def state(groups: int, offset: int) -> State:
    """A state in which one group is set in a transaction by an import, and the others by a request each."""
    offsets = restart_kills.state(groups, offset)["offsets"]
    return {"topics": TOPICS, "offsets": {LARGE: {WIDE: {str(at): offset for at in range(TOPICS[WIDE])}}, **offsets}}


def reset_groups(muster: Muster, folder: Path) -> None:
    ask(muster, "POST", "/reset", {"prefix": "g1"})


def delete_topics(muster: Muster, folder: Path) -> None:
    ask(muster, "POST", "/reset", {"prefix": "t"})


def seed_state(muster: Muster, folder: Path) -> None:
    ask(muster, "POST", "/state", json.loads((folder / "after.json").read_text()))


def import_offsets(muster: Muster, folder: Path) -> None:
    command = [sys.executable, "-m", "coordinator", "offsets", "import", str(folder / "exported.json")]
    command += ["--bootstrap-server", muster.ready["kafka"], "--out-of-range", "commit", "--timeout", "5"]
    subprocess.run(command, check=False, capture_output=True, timeout=60)


def restart_brokers(muster: Muster, folder: Path) -> None:
    ask(muster, "POST", "/brokers/rolling-restart", {})


def move_groups(muster: Muster, folder: Path) -> None:
    for number in range(20):
        ask(muster, "POST", f"/coordinators/g{number}/move", {"to": number % 3, "lose_last_commits": 1})


OPERATIONS: tuple[Operation, ...] = (
    reset_groups, delete_topics, seed_state, import_offsets, restart_brokers, move_groups,
)  # fmt: skip


def check(what: Operation, found: State, earlier: State, before: State, after: State) -> None:
    """Raise unless each thing is as it was or as it was to be."""
    if what in (reset_groups, delete_topics):
        rest = without(before, "g1" if what is reset_groups else "t")
        assert found in (before, rest), f"{what.__name__}: neither as before nor all done"
        return
    for name, partitions in found["topics"].items():
        assert TOPICS[name] == partitions, f"{what.__name__}: topic {name}"
    assert set(found["topics"]) == set(TOPICS), f"{what.__name__}: topics are gone"
    allowed = [before]
    if what in (seed_state, import_offsets):
        allowed.append(after)
    if what is move_groups:
        allowed.append(earlier)  # what the lost commits had replaced
    if what is import_offsets:
        for group, offsets in found["offsets"].items():
            whole = (before["offsets"][group], after["offsets"][group])
            assert offsets in whole, f"import_offsets: {group} has some of the new offsets: {offsets}"
    for group, topics in before["offsets"].items():
        for topic, partitions in topics.items():
            for partition in partitions:
                offset = found["offsets"].get(group, {}).get(topic, {}).get(partition)
                known = {one["offsets"][group][topic][partition] for one in allowed}
                assert offset in known, f"{what.__name__}: {group} {topic}-{partition} is {offset}, not one of {known}"


def without(one: State, prefix: str) -> State:
    """The state without the groups and topics of a prefix; an offset goes with its topic, and a group with its last."""
    topics = {name: count for name, count in one["topics"].items() if not name.startswith(prefix)}
    offsets = {
        group: {name: each for name, each in of.items() if name in topics}
        for group, of in one["offsets"].items()
        if not group.startswith(prefix)
    }
    return {"topics": topics, "offsets": {group: of for group, of in offsets.items() if of}}


def export_of(one: State) -> dict[str, Any]:
    """The state as `muster offsets export` prints it."""
    groups = {
        group: {topic: {at: {"offset": offset} for at, offset in each.items()} for topic, each in topics.items()}
        for group, topics in one["offsets"].items()
    }
    return {"version": 1, "topics": one["topics"], "groups": groups}


def play_round(muster: Muster, folder: Path, dice: Random, groups: int) -> str:
    """Kill the server once in an operation. Returns which it was, and whether anything had changed."""
    earlier, before, after = (state(groups, 1_000 * number + dice.randrange(1_000)) for number in range(3))
    ask(muster, "POST", "/reset")
    ask(muster, "POST", "/state", earlier)
    ask(muster, "POST", "/state", before)
    (folder / "after.json").write_text(json.dumps(after))
    (folder / "exported.json").write_text(json.dumps(export_of(after)))
    what = dice.choice(OPERATIONS)

    def operate() -> None:
        with suppress(OSError):  # it is killed meanwhile
            what(muster, folder)

    operating = threading.Thread(target=operate)
    operating.start()
    time.sleep(dice.random() * KILL_WITHIN_S * (5 if what is import_offsets else 1))  # a process has to start first
    muster.kill()
    operating.join()
    muster.start()
    found = ask(muster, "GET", "/state")
    check(what, found, earlier, before, after)
    return f"{what.__name__}: {'nothing had changed' if found == before else 'some or all was done'}"


def play(folder: Path, rounds: int, seed: int, groups: int = 100, port: int | None = None) -> Counter[str]:
    """Play so many rounds. Returns how often there was what. `port`: that of the first broker, which others follow."""
    dice = Random(seed)
    with (
        nullcontext(port) if port else reserve_row(3) as first,
        Muster(folder, "--brokers", "3", "--listen", f"127.0.0.1:{first}", has_listen=False) as muster,
    ):
        return Counter(play_round(muster, folder, dice, groups) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--port", type=int, help="of the first of three brokers: below those that the system gives")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for what, count in sorted(play(Path(folder), args.rounds, args.seed, args.groups, args.port).items()):
            print(f"{count:>5}  {what}")


if __name__ == "__main__":
    main()
