"""A test is a script: commands, a line of dashes, and what happened. `pytest --rewrite` writes the second part.

    # Rule numbers and the story, in a sentence.
    limits group_initial_rebalance_delay_ms=3000

    join client=a
    advance 3s
    ----
    0:03 join fires
    a <- joined generation=1 leader=a-1 members=(a-1)

A block is as many commands as belong together; blocks are parted by empty lines. Lines that begin with # are kept.
"""

from pathlib import Path

from coordinator.core.records import OffsetCommitKey, decode
from tests.core.shard_checks import check_shard, check_views
from tests.core.world import World

DASHES = "----"


def played(path: Path) -> str:
    """The script as it reads when its commands have been run, one after the other, in one world."""
    world = World()
    blocks = path.read_text().strip("\n").split("\n\n")
    text = "\n\n".join(_played(block, world, path) for block in blocks) + "\n"
    check_tally(world)
    return text


def check_tally(world: World) -> None:
    """Check that nothing is counted that the log does not have; it may have more, from before a restart."""
    offsets = [one[1] for one in world.log if len(one) == 3 and isinstance(decode(one[0], one[1]).key, OffsetCommitKey)]
    gone, tally = offsets.count(None), world.shard.tally
    assert tally.commits <= len(offsets) - gone and tally.deletions + tally.expirations <= gone


def _played(block: str, world: World, path: Path) -> str:
    lines = block.split("\n")
    commands = lines[: lines.index(DASHES)] if DASHES in lines else lines
    told: list[str] = []
    for command in commands:
        if command and not command.startswith("#"):
            try:
                told += world.run(command)
                check_shard(world.shard)
                check_views(world.shard)
            except Exception as error:
                raise AssertionError(f"{path.name}: {command}: {type(error).__name__}: {error}") from error
    if not told:
        return "\n".join(commands)
    return "\n".join([*commands, DASHES, *told])
