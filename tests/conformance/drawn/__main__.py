"""Draw stories, play them against a real Apache Kafka and against Muster, and say where the two differ.

    python -m tests.conformance.drawn CHAPTER [--seed N] [--count N] [--reduce] [--show] [--keep]

A story that differs is played again, until Kafka has said the same twice; where it does not, in four plays, the story is
not steady and is not counted. Told alike once is told alike. `--reduce` takes out steps while it still differs.
`--show` prints the transcripts up to the difference. `--keep` keeps what Kafka said to those in which both say the same, for the default run.
"""

import argparse
import json
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from tests.conformance import kafka
from tests.conformance.compare import Difference, differences
from tests.conformance.drawn import CHAPTERS, drawn, keep
from tests.conformance.drawn.play import STEPS
from tests.conformance.record import SETTLE_MS
from tests.conformance.replay import replay
from tests.conformance.servers import RESTARTING, USERS, has_users, settings
from tests.conformance.stage import Event, prefix_of
from tests.conformance.story import play, warm

PLAYS = 4
TELLINGS = PLAYS * (STEPS + 2)  # of a story that is reduced


class Trial:
    """One drawn story, on both brokers."""

    def __init__(self, chapter: str, seed: int, broker: kafka.Broker) -> None:
        self.chapter, self.seed, self.broker = chapter, seed, broker
        self.tries = 0
        self.is_steady = True
        self.kafka: list[Event] = []
        self.here: list[Event] = []

    def differs(self, without: Collection[int] = ()) -> list[Difference]:
        """Play it, on groups and topics of its own, and return how it differs; nothing if Kafka is not steady."""
        before: list[Event] = []
        for _ in range(PLAYS):
            self.tries += 1
            one = drawn(self.chapter, self.seed, without, self.tries)
            self.kafka = play(one, kafka.Connections(self.broker), SETTLE_MS)
            self.here = replay(one)
            found = differences(self.kafka, self.here)
            self.is_steady = not found or (bool(before) and not differences(before, self.kafka))
            if self.is_steady:
                return found
            before = self.kafka
        return []

    def reduced(self) -> tuple[list[int], list[Difference]]:
        """Return the steps that it does without, and how it then differs."""
        out: list[int] = []
        found = self.differs()
        for step in reversed(range(STEPS)):
            if less := self.differs([*out, step]):
                out, found = [*out, step], less
        self.differs(out)
        return sorted(out), found


def main() -> int:
    """Play, and print what differs; 1 if anything does."""
    options = arguments()
    known = settings(CHAPTERS[options.chapter].server)
    tellings = TELLINGS if options.reduce else PLAYS
    seeds = range(options.seed, options.seed + options.count)
    names = [drawn(options.chapter, seed, (), n + 1).name for seed in seeds for n in range(tellings)]
    users = [prefix_of(name) + user for name in names for user in USERS] if has_users(known) else ()
    with kafka.broker(known, users) as broker:
        warm(kafka.Connections(broker))
        trials = [Trial(options.chapter, options.seed + n, broker) for n in range(options.count)]
        with ThreadPoolExecutor(1 if CHAPTERS[options.chapter].server in RESTARTING else options.at) as pool:
            found = [
                tell(trial, differing) for trial, differing in zip(trials, pool.map(Trial.differs, trials), strict=True)
            ]
        for trial, differing in zip(trials, found, strict=True):
            if differing:
                without: list[int] = []
                if options.reduce:
                    without, differing = trial.reduced()
                    print(f"{trial.seed} without {without}: {differing[0] if differing else 'not steady'}", flush=True)
                if options.show:
                    show(trial, differing)
    steady = [trial for trial, differing in zip(trials, found, strict=True) if trial.is_steady and not differing]
    if options.keep:
        keep(options.chapter, {trial.seed: trial.kafka for trial in steady})
    print(
        f"{len(trials)} stories of {options.chapter} from seed {options.seed}: {len(steady)} are told alike, {sum(map(bool, found))} differ"
    )
    return 1 if any(found) else 0


def tell(trial: Trial, found: list[Difference]) -> list[Difference]:
    """Print the first difference as soon as it is known."""
    if found:
        print(f"{trial.chapter} {trial.seed}: {found[0]} (and {len(found) - 1} more)", flush=True)
    return found


def show(trial: Trial, found: list[Difference]) -> None:
    """Print Kafka's transcript up to the difference, and Muster's event there."""
    at = found[0].event if found else len(trial.kafka)
    for event in trial.kafka[: at + 1]:
        print(f"    {json.dumps(event)}")
    print(f"    here: {json.dumps(trial.here[at]) if at < len(trial.here) else 'nothing'}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapter", choices=CHAPTERS)
    parser.add_argument("--seed", type=int, default=1, help="of the first story")
    parser.add_argument("--count", type=int, default=100, help="how many stories")
    parser.add_argument("--at", type=int, default=12, help="how many play at once")
    parser.add_argument("--reduce", action="store_true", help="take out steps while a story still differs")
    parser.add_argument("--keep", action="store_true", help="keep the stories, in place of those of the chapter")
    parser.add_argument("--show", action="store_true", help="print the transcripts up to the difference")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
