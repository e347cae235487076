"""Stage causes of rebalances on a real Kafka with a released client, and compare what `why` tells with the broker's log.

    python -m tests.pipeline.staged [STORY ...] [--classic-only]
    python -m tests.pipeline.staged tables
    python -m tests.pipeline.staged leaders
    python -m tests.pipeline.staged secured
    python -m tests.pipeline.staged rates [--commits N]

Needs what `tests.conformance.kafka` needs; MUSTER_KAFKA_VERSION and MUSTER_KAFKA_JARS choose the broker. The story
`streams` is told where MUSTER_STREAMS_JARS names a directory of Kafka Streams' jars. It prints each cause as it is told,
and at the end of a story how many of the answers the broker's own log says too. A command that follows the group all the
while, over restarts of the broker, must have printed as many rebalances. Exit code 1 if anything differs.

`tables` compares the tables of the cluster with those of its directory, and the latest offsets with what the broker
answers, under load. `leaders` follows a cluster of three nodes whose leaders are killed. `secured` reads a cluster with
TLS, SASL and ACLs, and looks for the passwords in all that was written. `rates` measures how fast Spark reads commits.
"""

import argparse
import os
import sys
from collections import Counter

from tests.conformance import kafka
from tests.pipeline.staged import leaders, rates, secured, tables
from tests.pipeline.staged.broker_log import compare, read
from tests.pipeline.staged.follower import Follower, make_topic_of_groups
from tests.pipeline.staged.stage import Stage
from tests.pipeline.staged.stories import NEED_CONSUMER_GROUPS, NEED_STREAMS_JARS, STORIES

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.session.timeout.ms": "15000",
    "group.streams.min.session.timeout.ms": "10000",
    "group.streams.session.timeout.ms": "15000",
    "group.streams.initial.rebalance.delay.ms": "0",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.staged", description=__doc__.splitlines()[0])
    parser.add_argument(
        "story",
        nargs="*",
        default="all",
        choices=[*STORIES, "all", "tables", "leaders", "secured", "rates"],
        metavar="STORY",
    )
    parser.add_argument("--classic-only", action="store_true", help="for brokers without consumer groups")
    parser.add_argument("--commits", type=int, default=1_000_000, help="how many `rates` makes and reads")
    args = parser.parse_args()
    if args.story == ["tables"]:
        with kafka.broker(tables.SETTINGS) as broker:
            return 1 if tables.check(broker) else 0
    if args.story == ["rates"]:
        with kafka.broker(rates.SETTINGS) as broker:
            return rates.check(broker, args.commits)
    if args.story == ["secured"]:
        with kafka.broker(secured.settings()) as broker:
            return secured.check(broker)
    if args.story == ["leaders"]:
        with kafka.cluster(leaders.SETTINGS) as brokers:
            return 1 if leaders.check(brokers) else 0
    wanted = STORIES if "all" in args.story else args.story
    lacking = {*(NEED_CONSUMER_GROUPS if args.classic_only else ())}
    lacking |= set() if "MUSTER_STREAMS_JARS" in os.environ else {*NEED_STREAMS_JARS}
    names = [one for one in wanted if one not in lacking]
    total = Counter[str]()
    with kafka.broker(SETTINGS) as broker:
        make_topic_of_groups(f"127.0.0.1:{broker.port}")
        for name in names:
            total += play(broker, name)
    print(f"Kafka {kafka.VERSION}: {total.total()} answers: {dict(total)}")
    return 1 if total["WRONG"] else 0


def play(broker: kafka.Broker, name: str) -> Counter[str]:
    """Play a story, and count how its answers compare with the broker's words."""
    story, conf = STORIES[name]
    group = Stage(broker, name, **conf)
    print(group.group, flush=True)
    follower = Follower(group.address, group.group)
    try:
        story(group)
        told = group.rebalances()
        follower.await_events(len(told))
    finally:
        follower.close()
        group.close()
    words = read((broker.directory / "out.log").read_text(errors="replace").splitlines(), group.group)
    verdicts = list(compare(told, words))
    for one in verdicts:
        if one.word == "WRONG":
            print(f"  WRONG: {one.cause} of {one.generation}; the broker says {words.reasons.get(one.generation or 0)}")
    counts = Counter(one.word for one in verdicts)
    print(f"  beside the broker's log: {dict(counts)}", flush=True)
    return counts


if __name__ == "__main__":
    sys.exit(main())
