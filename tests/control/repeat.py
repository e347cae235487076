"""One run of a server under a seed: `python -m tests.control.repeat SEED` prints a digest of all that it did.

The digest is over every response, every event, every byte of the logs and of the
journal, so two runs with one seed print the same.
"""

import hashlib
import sys

from msgspec.json import encode

from tests.control.recorded_sequences import RecordedSequence

REQUESTS = 120


def play(seed: int) -> str:
    """Play random requests and verbs of an operator. Returns the digest."""
    sequence = RecordedSequence(seed)
    sequence.play(REQUESTS)
    server, digest = sequence.server, hashlib.sha256(sequence.journal())
    for peer in server.receivers().values():
        digest.update(repr(peer.answers).encode())
    for event in server.events:
        digest.update(encode(event))
    for path, content in sorted(server.take_snapshot().items()):
        digest.update(path.encode() + content)
    return f"{digest.hexdigest()} {len(server.events)} events"


if __name__ == "__main__":
    print(play(int(sys.argv[1])))
