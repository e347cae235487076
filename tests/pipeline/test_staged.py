"""What a broker has written about a group is compared with what was told, as `python -m tests.pipeline.staged` does."""

import pytest

from pipeline.history.records import Rebalance
from tests.pipeline.staged.broker_log import compare, read

LINES = """
Preparing to rebalance group shop in state PreparingRebalance with old generation 0 (reason: Adding new member a-1 with group instance id null; client reason: x).
Preparing to rebalance group other in state PreparingRebalance with old generation 4 (reason: Adding new member z-1 with group instance id null; client reason: x).
Dynamic member with unknown member id joins group shop in PreparingRebalance state. Created a new member id a-2 and requesting the member to rejoin with this id.
[Group shop] Member a-1 has left group through explicit `LeaveGroup` request; client reason: not provided
Member b-1 in group shop has failed, removing it from the group.
Group shop removed dynamic members who haven't joined: [c-1, c-2]
Preparing to rebalance group shop in state PreparingRebalance with old generation 6 (__consumer_offsets-1) (reason: Leader d-1 re-joining group during Stable; client reason: x)
Static member with groupInstanceId=till-1 and unknown member id joins group shop in Stable state. Replacing previously mapped member e-1 with this groupInstanceId.
""".splitlines()


def told(*causes: str, generation: int = 1, joined: tuple[str, ...] = (), left: tuple[str, ...] = ()) -> Rebalance:
    return Rebalance("shop", "classic", generation, 0, 0, list(causes), "", 1, 1, list(joined), list(left))


@pytest.mark.parametrize(
    ("rebalance", "words"),
    [
        (told("join", joined=("a-1",)), ["same"]),
        (told("join", joined=("a-1", "a-2")), ["same"]),
        (told("join", joined=("a-1", "z-1")), ["WRONG"]),
        (told("leave", left=("a-1",)), ["same"]),
        (told("leave", left=("b-1",)), ["WRONG"]),
        (told("leave", left=("a-1", "b-1")), ["WRONG"]),
        (told("leave", "leave_or_timeout", left=("a-1", "b-1")), ["same", "open"]),
        (told("leave", left=("c-2",)), ["WRONG"]),
        (told("leave_or_timeout", left=("d-1",)), ["WRONG"]),
        (told("static_rejoin"), ["same"]),
        (told("partition_count_change", generation=7), ["consistent"]),
        (told("partition_count_change", generation=6), ["WRONG"]),
        (told("migrated"), ["WRONG"]),
    ],
)
def test_what_was_told_is_compared_with_the_broker(rebalance: Rebalance, words: list[str]) -> None:
    assert [one.word for one in compare([rebalance], read(LINES, "shop"))] == words
