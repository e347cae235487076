"""Play the stories against Muster and say where it differs from Kafka's transcripts.

    python -m tests.conformance.replay [--only TEXT] [--chapter NAME] [--server NAME] [--full] [--show] [--tcp [--at ONCE]]

One line a difference, the first of each story unless `--full`. `--show` prints the whole transcript of Muster.
What is listed in docs/differences.md is left out.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.client import Pump
from tests.conformance.compare import Difference, differences
from tests.conformance.in_process import InProcess
from tests.conformance.listed import LISTED
from tests.conformance.servers import MECHANISMS, ONLY_IN_PROCESS, SERVERS, USERS, pairs, settings
from tests.conformance.stage import Event, prefix_of
from tests.conformance.story import Story, choose, options_of, play, warm
from tests.live import Muster


def replay(one: Story, messages: set[str] | None = None) -> list[Event]:
    """What Muster says to a story, in this process, on a clock that jumps to what happens next.

    Error messages for people, and events of groups, are added to `messages`.
    """
    users = [prefix_of(one.name) + user for user in USERS] if MECHANISMS in settings(one.server) else ()
    here = InProcess(settings(one.server), users)
    events = play(one, here, messages=messages)
    here.check()
    if messages is not None:
        messages |= here.tell_events()
    return events


def replay_over_tcp(server: str, stories: list[Story], at_once: int = 48) -> dict[str, list[Event]]:
    """What a fresh Muster with the server's settings says to each of the stories, in real time."""
    options = [word for pair in pairs(settings(server)) for word in ("--set", pair)]
    with TemporaryDirectory() as folder, Muster(Path(folder), "--ephemeral", "--no-fast", *options) as muster:
        warm(Pump(*muster.address))
        with ThreadPoolExecutor(at_once) as pool:
            played = pool.map(lambda one: play(one, Pump(*muster.address)), stories)
            return dict(zip((one.name for one in stories), played, strict=True))


def unlisted(one: Story, events: list[Event]) -> list[Difference]:
    """The differences that docs/differences.md does not name."""
    return [
        found
        for found in differences(one.transcript(), events)
        if not any(row.covers(one.name, found) for row in LISTED)
    ]


def main() -> int:
    """Replay, print the differences; 1 if there are any."""
    options = arguments()
    chosen = choose(options)
    differing = 0
    for server in SERVERS:
        if mine := [one for one in chosen if one.server == server]:
            is_live = options.tcp and server not in ONLY_IN_PROCESS
            said = replay_over_tcp(server, mine, options.at) if is_live else {one.name: replay(one) for one in mine}
            differing += sum(show(one, said[one.name], options) for one in mine)
            print(f"{server}: {len(mine)} stories", flush=True)
    print(f"{differing} stories differ")
    return 1 if differing else 0


def show(one: Story, events: list[Event], options: argparse.Namespace) -> bool:
    """Print what differs in one story; whether anything does."""
    if options.show:
        print("\n".join(json.dumps(event) for event in events))
    found = unlisted(one, events)
    for difference in found if options.full else found[:1]:
        print(f"{one.chapter}.{one.name}: {difference} ({len(found)} in all)", flush=True)
    return bool(found)


def arguments() -> argparse.Namespace:
    parser = options_of(__doc__)
    parser.add_argument("--full", action="store_true", help="every difference, not the first of each story")
    parser.add_argument("--show", action="store_true", help="the whole transcript of Muster")
    parser.add_argument("--tcp", action="store_true", help="a Muster in a process of its own, in real time")
    parser.add_argument("--at", type=int, default=48, help="with --tcp, how many stories play at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
