"""What the tables say is what the server itself knows after reading the same log."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.decode.layout import TOPIC
from pipeline.jobs.compact import compact
from pipeline.jobs.verify import verify
from storage import cleaner
from storage.log import Log
from storage.real_files import RealFiles
from tests.pipeline.engine import START_MS
from tests.pipeline.golden_tables import of_tables
from tests.pipeline.histories import History, Offsets, States, of_server

pytestmark = pytest.mark.xdist_group("spark")

SEEDS = range(6)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history in each of six partitions."""
    directory = tmp_path_factory.mktemp("histories")
    for seed in SEEDS:
        History(directory / f"{TOPIC}-{seed}", seed, seed).live(150)
    return directory


def check(spark: Any, logs: Path) -> tuple[Offsets, States]:
    offsets, states = of_server(logs)
    got_offsets, got_states = of_tables(spark, logs)
    assert got_offsets == offsets
    assert got_states == states
    assert verify([str(logs)]).equal
    return offsets, states


def test_tables_say_what_the_server_knows(spark: Any, logs: Path) -> None:
    offsets, states = check(spark, logs)
    assert len(offsets) > 50
    assert {kind for kind, _, _ in states.values()} == {"classic", "consumer"}
    assert any(members == 0 for _, _, members in states.values())
    assert any(members > 1 for _, _, members in states.values())


def test_also_after_compaction_by_the_pipeline(spark: Any, logs: Path, tmp_path: Path) -> None:
    before = of_server(logs)
    results = list(compact(str(logs), tmp_path / "compacted"))
    assert all(result.equal for result in results)
    assert sum(result.records_after for result in results) < sum(result.records_before for result in results)
    assert check(spark, tmp_path / "compacted") == before


def test_also_after_compaction_by_the_server(spark: Any, logs: Path, tmp_path: Path) -> None:
    before = of_server(logs)
    for seed in SEEDS:
        directory = tmp_path / f"{TOPIC}-{seed}"
        directory.mkdir()
        for file in (logs / directory.name).glob("*.log"):
            (directory / file.name).write_bytes(file.read_bytes())
        log = Log.open(RealFiles(), str(directory))
        cleaner.run(log, START_MS)
        log.close()
    sizes = [sum(file.stat().st_size for file in root.rglob("*.log")) for root in (logs, tmp_path)]
    assert sizes[1] < sizes[0] * 0.8
    assert check(spark, tmp_path) == before
