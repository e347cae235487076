"""Play the stories against a real Apache Kafka and keep what it said.

    python -m tests.conformance.record [--only TEXT] [--chapter NAME] [--server NAME] [--check] [--seed N] [--at ONCE]

`--only` keeps stories whose name holds the text. `--check` writes nothing: it plays the stories again and says where
Kafka now answers otherwise than in the transcript, which shows stories that are not steady. `--seed` shuffles the order.
"""

import argparse
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.conformance import kafka
from tests.conformance.compare import differences
from tests.conformance.servers import MECHANISMS, RESTARTING, SERVERS, USERS, settings
from tests.conformance.stage import prefix_of
from tests.conformance.story import Story, choose, options_of, play, warm

SETTLE_MS = 300


def main() -> int:
    """Record or check; 1 if a story broke or differed."""
    options = arguments()
    chosen = [one for one in choose(options) if not (options.new and one.path.exists())]
    random.Random(options.seed).shuffle(chosen)
    failed = 0
    for server in SERVERS:
        if mine := [one for one in chosen if one.server == server]:
            failed += session(server, mine, options.at, options.check)
    print(f"{len(chosen)} stories, {failed} broke or differ")
    return 1 if failed else 0


def session(server: str, stories: list[Story], at_once: int, check: bool) -> int:
    """All stories of one server, some at once; how many broke or differ."""
    started = time.monotonic()
    users = [prefix_of(one.name) + user for one in stories for user in USERS]
    with kafka.broker(settings(server), users) as broker:
        warm(kafka.Connections(broker))
        if MECHANISMS in settings(server):  # the first authentications take Java half a second
            play(stories[0], kafka.Connections(broker))
        with ThreadPoolExecutor(1 if server in RESTARTING else at_once) as pool:
            failed = sum(pool.map(lambda one: checked(one, broker) if check else kept(one, broker), stories))
    print(f"{server}: {len(stories)} stories in {time.monotonic() - started:.0f} s", flush=True)
    return failed


def kept(one: Story, broker: kafka.Broker) -> int:
    """Record one story."""
    events = play(one, kafka.Connections(broker), SETTLE_MS)
    if "broke" in events[-1]:
        print(
            f"{one.chapter}.{one.name} broke: {events[-1]['broke']}\n"
            + "\n".join(f"    {event}" for event in events[-5:-1]),
            flush=True,
        )
        return 1
    one.save(events)
    return 0


def checked(one: Story, broker: kafka.Broker) -> int:
    """Play one story again and print where it first differs."""
    found = differences(one.transcript(), play(one, kafka.Connections(broker), SETTLE_MS))
    if found:
        print(f"{one.chapter}.{one.name}: {found[0]} (and {len(found) - 1} more)", flush=True)
    return 1 if found else 0


def arguments() -> argparse.Namespace:
    parser = options_of(__doc__)
    parser.add_argument("--new", action="store_true", help="stories that have no transcript yet")
    parser.add_argument("--check", action="store_true", help="compare with the transcripts, write nothing")
    parser.add_argument("--seed", type=int, default=0, help="the order of the stories")
    parser.add_argument("--at", type=int, default=12, help="how many stories play at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
