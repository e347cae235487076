"""The memory that the process may take."""

from pathlib import Path

from coordinator.server.memory import memory_limit


def make(tmp_path: Path, group: str, limits: dict[str, str]) -> int:
    own = tmp_path / "cgroup"
    own.write_text(f"0::{group}\n")
    for folder, text in limits.items():
        (tmp_path / "root" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / folder / "memory.max").write_text(text + "\n")
    return memory_limit(tmp_path / "root", own)


def test_a_container_sees_its_own_limit(tmp_path: Path) -> None:
    assert make(tmp_path, "/", {".": "1048576"}) == 1_048_576


def test_a_service_has_the_least_limit_on_its_way_up(tmp_path: Path) -> None:
    limits = {"system.slice/muster.service": "max", "system.slice": "4096", ".": "8192"}
    assert make(tmp_path, "/system.slice/muster.service", limits) == 4096


def test_without_a_limit_it_is_the_machine(tmp_path: Path) -> None:
    machine = make(tmp_path, "/", {".": "max"})
    assert machine > 1 << 20
    assert memory_limit(tmp_path / "nowhere", tmp_path / "nothing") == machine
