"""Logs that are removed as a whole: their records never come back, whatever stays of their files."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import removal
from storage.files import Files, StorageError
from storage.memory_files import MemoryFiles
from storage.real_files import RealFiles
from tests.storage.crashing_disk import CrashingDisk


@pytest.fixture(params=["real", "memory", "fake"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """A data directory with two partitions of a topic and one of another."""
    files: Files = {"real": RealFiles(), "memory": MemoryFiles(), "fake": CrashingDisk()}[request.param]
    for name in ("t-0", "t-1", "u-0"):
        files.make_directory(f"{tmp_path}/{name}")
        files.open(f"{tmp_path}/{name}/{0:020d}.log", create=True).append(b"records")
    return files, str(tmp_path)


def test_a_retired_log_has_no_name_and_then_no_files(data: tuple[Files, str]) -> None:
    files, directory = data
    removal.retire(files, directory, ["t-0", "t-1"])
    assert files.list(directory) == ["muster.deleted.0", "muster.deleted.1", "u-0"]
    removal.retire(files, directory, ["u-0"])
    assert files.list(directory) == ["muster.deleted.0", "muster.deleted.1", "muster.deleted.2"]
    assert list(removal.purge(files, directory)) == [[], [], []]
    assert files.list(directory) == []


@given(st.lists(st.sampled_from(["retire", "purge one", "start to purge"]), max_size=10))
def test_logs_are_retired_whatever_of_earlier_ones_is_there(acts: list[str]) -> None:
    """A purge goes on while others are retired, and what cannot be removed stays for as long as it likes."""
    files, purges = CrashingDisk(), list[Iterator[object]]()
    files.make_directory("data")
    left = 0
    for number, act in enumerate(acts):
        if act == "retire":
            files.put(f"data/t-{number}/{0:020d}.log", b"%d" % number)
            removal.retire(files, "data", [f"t-{number}"])
            left += 1
        elif act == "start to purge":
            purges.append(removal.purge(files, "data"))
        elif purges and next(purges[-1], None) is not None:
            left -= 1
        names = files.list("data")
        assert len(names) == left and all(name.startswith("muster.deleted.") for name in names)


@pytest.mark.parametrize("kind", [CrashingDisk, MemoryFiles])
@given(st.lists(st.one_of(st.integers(0, 5), st.sampled_from(["purge", "step"])), max_size=20), st.randoms())
def test_logs_of_many_files_are_removed_in_steps_by_several_at_once(
    kind: type[Files], acts: list[int | str], random: Random
) -> None:
    """A number retires a log of so many files."""
    files, purges, failures = kind(), list[Iterator[list[StorageError]]](), list[StorageError]()
    files.make_directory("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(removal, "FILES_AT_ONCE", 2)
        retired = removal.RetiredLogs(files, "data")
        for number, act in enumerate((*acts, "purge")):
            if isinstance(act, int):
                files.make_directory(f"data/t-{number}")
                for name in range(act):
                    files.open(f"data/t-{number}/{name}", create=True).append(b"records")
                retired.retire([f"t-{number}"])
            elif act == "purge":
                purges.append(retired.purge())
            elif purges:
                before = _count_files(files)
                failures += next(random.choice(purges), [])
                assert before - _count_files(files) <= 2
        while purges:
            if (found := next(chosen := random.choice(purges), None)) is None:
                purges.remove(chosen)
            failures += found or ()
        assert not failures
        assert files.list("data") == []
        assert list(retired.purge()) == []


def _count_files(files: Files) -> int:
    return sum(len(files.list(f"data/{name}")) for name in files.list("data"))


def test_a_retired_log_does_not_come_back_with_a_power_cut() -> None:
    files = CrashingDisk()
    for name in ("t-0", "t-1"):
        files.put(f"data/{name}/{0:020d}.log", b"records")
    removal.retire(files, "data", ["t-0", "t-1"])
    assert {how: left.list("data") for how, left in files.crashes()} == {
        how: ["muster.deleted.0", "muster.deleted.1"] for how, _ in files.crashes()
    }


def test_a_directory_inside_stays_and_is_told() -> None:
    files = CrashingDisk()
    files.put("data/t-0/segment.log", b"records")
    files.make_directory("data/t-0/lost+found")
    removal.retire(files, "data", ["t-0"])
    ((failure,),) = removal.purge(files, "data")
    assert failure.path == "data/muster.deleted.0/lost+found"
    assert files.list("data/muster.deleted.0") == ["lost+found"]
    files.remove_directory("data/muster.deleted.0/lost+found")
    assert list(removal.purge(files, "data")) == [[]]
    assert files.list("data") == []
