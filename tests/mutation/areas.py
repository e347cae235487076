"""The parts of the product that are mutated, with the tests that must find the faults and the share they must find."""

from msgspec import Struct


class Area(Struct, frozen=True):
    """A part of the product: the files to mutate, and the tests that run against each mutant."""

    only_mutate: tuple[str, ...]
    tests: tuple[str, ...]
    goal: float  # the least share of the mutants that the tests must find
    ignored: tuple[str, ...] = ()  # of the tests: those that would find nothing, and cost much


PROCESSES = (
    *(f"tests/server/test_{name}.py" for name in ("bad_input", "crowd", "live", "neighbours")),
    *(f"tests/admin/test_{name}.py" for name in ("control", "metrics_formats", "page", "watch")),
)
"""Tests of a server in a process of its own: mutmut does not see what runs in it."""
PLANT_FAULTS = ("tests/storage/test_mutants.py",)
"""Tests that break the product themselves, to show that other tests notice."""

AREAS = {
    "core": Area(
        ("coordinator/core/*",),
        ("tests/core", "tests/conformance/test_replay.py::test_muster_says_what_kafka_said"),
        0.85,
    ),
    "runtime": Area(
        ("coordinator/runtime/*",),
        ("tests/runtime", "tests/server", "tests/simulation/test_simulation.py::test_a_history_keeps_all_promises"),
        0.85,
        PROCESSES,
    ),
    "storage": Area(("storage/*",), ("tests/storage",), 0.85, PLANT_FAULTS),
    "server": Area(("coordinator/server/*",), ("tests/server", "tests/control", "tests/admin"), 0.75, PROCESSES),
    "pipeline": Area(("pipeline/tables/*",), ("tests/pipeline",), 0.75),
}

# Mutants that change nothing that anybody could see: the line that they put in, and the reason.
EQUIVALENT = {
    "for number, offset in enumerate(self.latest.values(), 2):": "only where a step of a compaction ends moves by a key",
}

# Mutants that no test on this system can reach, by the beginnings of their names.
OF_OTHER_SYSTEMS = ("coordinator.server.selector.xǁKqueueǁ",)
