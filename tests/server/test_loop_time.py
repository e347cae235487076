"""What keeps the loop is counted by what it is."""

import trio

from coordinator.metrics import Stats
from coordinator.server.loop_time import REQUESTS, UPKEEP, VERBS, WORK, LoopTime, doing


def test_long_steps_are_counted_by_the_work_of_their_task() -> None:
    stats, now_s = Stats(), [100.0]

    async def work(name: str, *steps_s: float) -> None:
        WORK.set(name)
        for seconds in steps_s:
            now_s[0] += seconds
            await trio.lowlevel.checkpoint()

    async def verb() -> None:
        """A task that inherits its work, and does something else for a while."""
        now_s[0] += 0.02
        await trio.lowlevel.checkpoint()
        with doing("snapshots"):
            now_s[0] += 0.03
            await trio.lowlevel.checkpoint()
        now_s[0] += 0.04
        await trio.lowlevel.checkpoint()

    async def main() -> None:
        WORK.set(VERBS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, UPKEEP, 0.015, 0.001, 0.010)
            nursery.start_soon(work, REQUESTS, 0.5)
            nursery.start_soon(verb)

    trio.run(main, instruments=[LoopTime(stats, lambda: now_s[0])])
    counts = {name: sum(latency.buckets) for name, latency in stats.long_work.items()}
    assert counts == {REQUESTS: 0, UPKEEP: 2, VERBS: 2, "snapshots": 1}


def test_a_stretch_counts_no_more_than_its_time() -> None:
    stats = Stats()
    stats.count_work(UPKEEP, 1.0, 1.0 + 1e-9)
    assert stats.long_work[UPKEEP].longest <= 1e-9 * 1.1
