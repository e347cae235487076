"""What scripts say to the world around a shard, and what operators ask of any group."""

from coordinator.core.list_groups import Filters
from coordinator.core.topics import Topic, Topics
from protocol.messages.list_groups import ListGroupsRequest
from tests.core import rendering
from tests.core.world import START_MS, Words, World, command, milliseconds, topic_id


@command("advance")
def advance(world: World, words: Words) -> list[str]:
    """`advance 3s`: the clock moves, and what is due meanwhile happens."""
    (how_long,) = words.plain
    return world.pass_time(world.now_ms + milliseconds(how_long))


@command("limits")
def limits(world: World, words: Words) -> None:
    """`limits group_max_size=2`: settings by their names in `Limits`."""
    world.configure(words.rest())


@command("topics")
def topics(world: World, words: Words) -> list[str]:
    """`topics t:3 v:1`: from now on these exist and no others; `t:3:new` has another id than before."""
    found = []
    for word in words.plain:
        name, partitions, *again = word.split(":")
        found.append(Topic(name, topic_id(name + again[0] if again else name), int(partitions)))
    return world.observe(lambda: world.set_topics(Topics(found, world.topics.version + 1)))


@command("restart")
def restart(world: World, words: Words) -> list[str]:
    """The shard is rebuilt from its log; what is durable must be the same."""
    return world.restart()


@command("describe")
def describe(world: World, words: Words) -> list[str]:
    """`describe`, `describe v=6 group=h`."""
    return rendering.response(world.describe("classic", words.text("group", "g"), words.number("v", 6))).split("\n")


@command("list")
def list_groups(world: World, words: Words) -> list[str]:
    """`list states=Stable types=classic`; `_` stands for a blank."""
    request = ListGroupsRequest(
        tuple(word.replace("_", " ") for word in words.list("states")),
        tuple(word.replace("_", " ") for word in words.list("types")),
    )
    wanted = Filters(request)
    return [
        f"{group.group_id or '-'} {group.group_state} {group.group_type} {group.protocol_type or '-'}"
        for group in world.shard.list_groups()
        if wanted.has(group)
    ] or ["none"]


@command("delete")
def delete(world: World, words: Words) -> list[str]:
    """`delete`, `delete group=h`."""

    def act() -> None:
        result = world.shard.delete(words.text("group", "g"), world.call_of(words, 2))
        world.take(result)
        world.say(rendering.error(result.response.error_code))

    return world.observe(act)


@command("waiting")
def waiting(world: World, words: Words) -> list[str]:
    """Who still waits for an answer."""
    return [", ".join(world.waiting.values()) or "nobody"]


@command("timers")
def timers(world: World, words: Words) -> list[str]:
    """All timers that are set, but for the pass over all offsets."""
    return [
        f"timer {rendering.timer(key)} at {rendering.clock(at_ms - START_MS)}"
        for key, at_ms in world.shard.timers.items()
        if key[0] != "expiry"
    ] or ["none"]
