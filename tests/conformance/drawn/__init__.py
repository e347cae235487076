"""Stories that are drawn by a seed, and not thought of: a real Kafka and Muster play each, and must say the same.

`python -m tests.conformance.drawn CHAPTER` plays new ones against both; those that are kept in `transcripts` are
replayed by `test_drawn.py`.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.conformance.drawn.admin import Admin
from tests.conformance.drawn.classic import Classic, ClassicExpiry, ClassicRestarted
from tests.conformance.drawn.consumer import Consumer, ConsumerExpiry, ConsumerRestarted
from tests.conformance.drawn.migration import Migration, MigrationRestarted
from tests.conformance.drawn.play import Play
from tests.conformance.drawn.records import Records
from tests.conformance.drawn.share import Share
from tests.conformance.drawn.share_groups import ShareGroups
from tests.conformance.drawn.streams import StreamsGroups, StreamsGroupsExpiry, StreamsGroupsRestarted
from tests.conformance.drawn.transactions import Transactions
from tests.conformance.stage import Event, Stage
from tests.conformance.story import Story

TRANSCRIPTS = Path(__file__).parent / "transcripts"
CHAPTERS: Mapping[str, type[Play]] = {
    "admin": Admin,
    "classic": Classic,
    "classic_expiry": ClassicExpiry,
    "classic_restarted": ClassicRestarted,
    "consumer": Consumer,
    "consumer_expiry": ConsumerExpiry,
    "consumer_restarted": ConsumerRestarted,
    "migration": Migration,
    "migration_restarted": MigrationRestarted,
    "records": Records,
    "share": Share,
    "share_groups": ShareGroups,
    "streams": StreamsGroups,
    "streams_expiry": StreamsGroupsExpiry,
    "streams_restarted": StreamsGroupsRestarted,
    "transactions": Transactions,
}


def drawn(chapter: str, seed: int, without: Collection[int] = (), number: int = 0) -> Story:
    """Return the story of a seed, on names that no other telling of it has."""
    cls = CHAPTERS[chapter]
    return Story(chapter, f"{number:04}-{chapter}-{seed:06}", (), cls.server, partial(tell, cls, seed, without))


def tell(cls: type[Play], seed: int, without: Collection[int], k: Stage) -> None:
    """Play the story of a seed."""
    cls(k, f"{cls.__name__} {seed}").play(without)


def kept(chapter: str) -> Iterator[tuple[int, list[Event]]]:
    """The seeds of the stories of a chapter that are kept, with what Kafka said."""
    with (TRANSCRIPTS / f"{chapter}.jsonl").open() as lines:
        for line in lines:
            one = json.loads(line)
            yield one["seed"], one["events"]


def keep(chapter: str, said: Mapping[int, list[Event]]) -> None:
    """Keep what Kafka said to the stories of these seeds, in place of what was kept."""
    lines = (json.dumps({"seed": seed, "events": said[seed]}, separators=(",", ":")) for seed in sorted(said))
    (TRANSCRIPTS / f"{chapter}.jsonl").write_text("".join(f"{line}\n" for line in lines))
