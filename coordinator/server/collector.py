"""How Python's collector goes through what the server holds: through each object once.

A full pass looks at every object that may be a part of a reference cycle, and nothing can interrupt it: beside 20,000
groups it took 20 to 30 ms, and beside ten times as many ten times as long. What the server holds is freed without the
collector, when nothing refers to it any more. So what has survived a full pass is looked at no more (`gc.freeze`), and
the next one, which comes after some 80,000 more objects, has no more than these to look at.

What is in a cycle and goes after it was frozen stays in memory. To serve makes no cycles
(`tests/server/test_collector.py`); a node is one, and `collect_everything` is for those that a reset has replaced.
"""

import gc


def keep_passes_short() -> None:
    """Let each full pass be the last one that looks at what survives it."""
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def collect_everything() -> None:
    """Look at everything once more. This takes as long as there is much."""
    gc.unfreeze()
    gc.collect()


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
