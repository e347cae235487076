"""Frames made wrong for as long as you like; nothing but `ProtocolError` may come out, and the codecs must agree.

    python -m tests.protocol.fuzz --seconds 60 --seed 7 [--target join_group]

Frames that clients really sent (`golden/`) and made-up ones are changed a little, again and again; a change that is read
as a message becomes a seed itself. A short run with a fixed seed is part of the tests.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from protocol import codec, interpret
from protocol.codec import decode_request, encode_request
from protocol.errors import ProtocolError
from protocol.header import request_frame
from tests.protocol.mutate import mutated
from tests.protocol.targets import REQUESTS, Target
from tests.protocol.values import Choices, message_of

codec.is_strict = True
GOLDEN = Path(__file__).parent / "golden"
SEEDS_MAX = 5_000


def check(frame: bytes) -> bool:
    """Whether the frame is read. Fails if the codecs differ, or if what is read is not what is written again."""
    try:
        request = decode_request(frame)
    except ProtocolError:
        return False  # decode_request has asserted that construct refuses it as well
    key, version, correlation_id = request.api_key, request.version, request.correlation_id
    target = next(target for target in REQUESTS if (target.api.key, target.version) == (key, version))
    assert interpret.parse(request_frame(target.api, version), frame) == request
    again = encode_request(key, version, correlation_id, request.client_id, request.body)[4:]
    assert decode_request(again) == request
    return True


def seeds(targets: Sequence[Target], random: Random) -> list[bytes]:
    """Frames to begin with: what clients sent, and three made-up ones for each API and version."""
    sent = [
        path.read_bytes()
        for path in sorted(GOLDEN.glob("*_request_*.bin"))
        if any(path.name.startswith(str(target)) for target in targets)
    ]
    made = [
        target.encode(message_of(target.body, Choices(random.randbytes(size))))
        for target in targets
        for size in (0, 20, 60)
    ]
    return sent + [frame for frame in made if len(frame) < 4096]


def campaign(
    targets: Sequence[Target], seed: int, seconds: float, executions_max: int | None = None
) -> tuple[int, int]:
    """How many frames were tried, and how many of them were read. Stops at the time or the number."""
    random = Random(seed)
    corpus = seeds(targets, random)
    tried = read = 0
    end = time.monotonic() + seconds
    while (executions_max is None or tried < executions_max) and (tried % 256 or time.monotonic() < end):
        frame = mutated(random.choice(corpus), random)
        tried += 1
        try:
            if not check(frame):
                continue
        except Exception:
            print(f"seed {seed}, frame {tried}: {frame.hex()}", file=sys.stderr)
            raise
        read += 1
        if len(corpus) < SEEDS_MAX and len(frame) < 4096:
            corpus.append(frame)
    return tried, read


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the reading of requests.")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="", help="only those with this in their name: join_group, heartbeat_v4")
    options = parser.parse_args()
    targets = [target for target in REQUESTS if options.target in str(target)]
    tried, read = campaign(targets, options.seed, options.seconds)
    print(f"seed {options.seed}: {tried} frames, {read} of them read, nothing but ProtocolError for the others")
    return 0


if __name__ == "__main__":
    sys.exit(main())
