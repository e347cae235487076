"""A server that is killed while it resets or restores: it starts, with the old state or with the new one.

    python -m tests.admin.restart_kills --rounds 200 [--seed N] [--groups 300]

Each round makes a state, takes a snapshot, makes another state, asks for a restore or a reset, and sends SIGKILL at a
moment that the seed names.
"""

import argparse
import json
import secrets
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.live import Muster

KILL_WITHIN_S = 0.12
TOPICS = {f"t{number}": 4 for number in range(5)}


def ask(muster: Muster, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{muster.ready['admin']}/v1{path}", data, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def state(groups: int, offset: int) -> dict[str, Any]:
    offsets = {f"g{number}": {f"t{number % 5}": {"0": offset, "3": number}} for number in range(groups)}
    return {"topics": TOPICS, "offsets": offsets}


def play_round(muster: Muster, dice: Random, groups: int) -> str:
    """Kill the server once on its way. Returns what it was asked for, and which state it has found."""
    kept, before = state(groups, dice.randrange(1_000)), state(groups, 1_000 + dice.randrange(1_000))
    ask(muster, "POST", "/reset")
    ask(muster, "POST", "/state", kept)
    ask(muster, "PUT", "/snapshots/kept")
    ask(muster, "POST", "/state", before)
    path, after = dice.choice([("/snapshots/kept/restore", kept), ("/reset", {"topics": {}, "offsets": {}})])

    def restart() -> None:
        with suppress(OSError):  # it is killed meanwhile
            ask(muster, "POST", path)

    asking = threading.Thread(target=restart)
    asking.start()
    time.sleep(dice.random() * KILL_WITHIN_S)
    muster.kill()
    asking.join()
    muster.start()
    found = ask(muster, "GET", "/state")
    assert found in (before, after), f"{path}: neither the old state nor the new one, but {str(found)[:1_000]}"
    return f"{path}: the {'new' if found == after else 'old'} state"


def play(folder: Path, rounds: int, seed: int, groups: int = 300) -> Counter[str]:
    """Play so many rounds. Returns how often there was what."""
    dice = Random(seed)
    with Muster(folder) as muster:
        return Counter(play_round(muster, dice, groups) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--groups", type=int, default=300)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for what, count in sorted(play(Path(folder), args.rounds, args.seed, args.groups).items()):
            print(f"{count:>5}  {what}")


if __name__ == "__main__":
    main()
