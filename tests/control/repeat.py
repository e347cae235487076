"""One run of a server under a seed: `python -m tests.control.repeat SEED` prints a digest of all that it did.

The digest is over every response, every event, every byte of the logs and of the
journal, so two runs with one seed print the same.
"""

import hashlib
import random
import sys

from msgspec.json import encode

from coordinator.control.journal_file import write_journal
from tests.control.steered import ClassicMember, ConsumerMember, SteeredNode
from tests.requests import commit

STEPS = 120


def play(seed: int) -> str:
    """Play a random day of groups of both protocols. Returns the digest."""
    server = SteeredNode(offsets_topic_num_partitions=4, virtual_brokers=2, seed=seed, journal_bytes=16_777_216)
    dice = random.Random(seed)
    members: list[ClassicMember | ConsumerMember] = []
    for number in range(STEPS):
        choice = dice.randrange(7)
        if choice == 0 or not members:
            members.append(_join(server, dice, number))
        elif choice == 1:
            _commit(server, f"{dice.choice(members).group}-offsets", dice.randrange(4), number)
        elif choice == 2:
            server.operator.clock.advance(dice.randrange(40_000), lambda group, member: dice.random() < 0.9)
        elif choice == 3:
            _move(server, dice, dice.choice(members).group)
        else:
            _beat(dice.choice(members))
    digest = hashlib.sha256()
    for peer in server.receivers().values():
        digest.update(repr(peer.answers).encode())
    for event in server.events:
        digest.update(encode(event))
    for path, content in sorted(server.take_snapshot().items()):
        digest.update(path.encode() + content)
    digest.update(write_journal(server.operator.requests.journal))
    return f"{digest.hexdigest()} {len(server.events)} events"


def _join(server: SteeredNode, dice: random.Random, number: int) -> ClassicMember | ConsumerMember:
    kind = dice.choice((ClassicMember, ConsumerMember))
    member = kind(server, f"m{number}", f"{kind.__name__}-{dice.randrange(3)}")
    if isinstance(member, ClassicMember):
        member.send_join()
    return member


def _move(server: SteeredNode, dice: random.Random, group: str) -> None:
    """Move a coordinator, or restart a broker. All clients are at the first one, which may not be the right one then."""
    brokers = server.operator.brokers
    if dice.random() < 0.7:
        keeps = dice.random() < 0.8
        brokers.move_group(group, dice.randrange(2), load_ms=dice.choice((0, 300)), keep_members=keeps)
    else:
        brokers.stop(1)
        brokers.start(1)


def _beat(member: ClassicMember | ConsumerMember) -> None:
    if isinstance(member, ConsumerMember):
        member.beat()
    elif member.peer.answers and not member.peer.connection.parked:
        if member.generation < 0:
            member.take_join()
        else:
            member.beat()


def _commit(server: SteeredNode, group: str, index: int, offset: int) -> None:
    server.connect("tool").ask(commit(group, {"orders": {index: offset}}), 8)


if __name__ == "__main__":
    print(play(int(sys.argv[1])))
