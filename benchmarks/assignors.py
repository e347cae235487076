"""The uniform assignor against Kafka's own, and a change of one member against a full assignment.

    python -m benchmarks.assignors                             our milliseconds and the ratio change / full
    python -m benchmarks.assignors --kafka CLASSPATH           and Kafka's beside them, measured in the same run

CLASSPATH holds the compiled `tests/conformance/assignors/Assignors.java` and Kafka's jars. Both sides are asked the
same shapes, warm: everybody subscribed to 100 topics, and three kinds of members with overlapping subscriptions.
"""

import argparse
import gc
import json
import random
import subprocess
import time
import uuid

from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import NOTHING, Assignment, GroupSpec, MemberSpec

SHAPES = ((1_000, 100, 100), (10_000, 100, 1_000))  # members, topics, partitions of each
ROUNDS = 15


Topics = tuple[bytes, ...]


def spec(
    member_ids: list[str], subscribed: list[Topics], counts: dict[bytes, int], had: dict[str, Assignment]
) -> GroupSpec:
    """The question for members whose previous targets are `had`."""
    members = {
        member_id: MemberSpec(topics=topics, previous=had.get(member_id, NOTHING))
        for member_id, topics in zip(member_ids, subscribed, strict=False)
    }
    return GroupSpec(members=members, partition_counts=counts, is_homogeneous=len(set(subscribed)) == 1)


def measure(members: int, topics: int, partitions: int, homogeneous: bool) -> tuple[float, float]:
    """Milliseconds of a full assignment and of one after a single member has joined: the best of some rounds."""
    dice = random.Random(7)
    counts = {uuid.UUID(int=dice.getrandbits(128)).bytes: partitions for _ in range(topics)}
    names = tuple(counts)
    third = topics // 3
    kinds = (names, names[: topics - third], names[third:])
    member_ids = [str(uuid.UUID(int=dice.getrandbits(128))) for _ in range(members + 1)]
    subscribed = [names if homogeneous else kinds[i % 3] for i in range(members + 1)]
    full, changed = [], []
    for _ in range(ROUNDS):
        asked = spec(member_ids[:-1], subscribed, counts, {})
        gc.collect()
        started = time.perf_counter()
        answer = BUILT_IN["uniform"](asked)
        full.append(time.perf_counter() - started)
        asked = spec(member_ids, subscribed, counts, dict(answer))
        gc.collect()
        started = time.perf_counter()
        BUILT_IN["uniform"](asked)
        changed.append(time.perf_counter() - started)
    return min(full) * 1e3, min(changed) * 1e3


def kafka(classpath: str, members: int, topics: int, partitions: int) -> dict[bool, tuple[float, float]]:
    """The same of Kafka's, by its homogeneity."""
    command = ["java", "-cp", classpath, "Assignors", "time", str(members), str(topics), str(partitions)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
    answers = [json.loads(line) for line in lines if line.startswith("{")]
    return {answer["homogeneous"]: (answer["full_ms"], answer["joined_ms"]) for answer in answers}


def main() -> None:
    """Print one table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kafka", metavar="CLASSPATH")
    classpath = arguments.parse_args().kafka
    beside = "   x Kafka full  joined" if classpath else ""
    print("members x partitions  subscriptions    full ms  one joined ms  ratio" + beside)
    for members, topics, partitions in SHAPES:
        theirs = kafka(classpath, members, topics, partitions) if classpath else {}
        for homogeneous in (True, False):
            full, changed = measure(members, topics, partitions, homogeneous)
            kind = "alike" if homogeneous else "differing"
            row = f"{members:>7} x {topics * partitions:>8}    {kind:<13}"
            row += f" {full:>9.2f} {changed:>14.2f} {changed / full:>6.2f}"
            if classpath:
                row += f" {full / theirs[homogeneous][0]:>14.1f} {changed / theirs[homogeneous][1]:>7.1f}"
            print(row)


if __name__ == "__main__":
    main()
