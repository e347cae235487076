"""Which directories are logs: what stands beside them, cannot be read or goes away is no reason to stop."""

from pathlib import Path
from random import Random

import pytest

from pipeline.decode.files import Entry, Store
from pipeline.decode.layout import TOPIC, high_watermarks, log_dirs, logs_at, skipped_files
from pipeline.synth import Writer
from tests.pipeline.group_logs import fill


@pytest.fixture
def fail_to_list(monkeypatch: pytest.MonkeyPatch) -> dict[str, OSError]:
    """Errors of directories by name: for root, as which tests may run, any directory can be read."""
    errors: dict[str, OSError] = {}
    read = Store.list

    def list_or_fail(store: Store, path: str = "") -> list[Entry]:
        if path in errors:
            raise errors[path]
        return read(store, path)

    monkeypatch.setattr(Store, "list", list_or_fail)
    return errors


def names(directory: Path) -> list[str]:
    return [log.name for log in logs_at([str(directory)])]


def test_directories_beside_logs_need_not_be_readable(tmp_path: Path, fail_to_list: dict[str, OSError]) -> None:
    fill(Writer(tmp_path / f"{TOPIC}-0"), [0])
    for name in ("lost+found", "orders-0"):
        (tmp_path / name).mkdir()
        fail_to_list[name] = PermissionError(f"Cannot list directory {name}")
    assert names(tmp_path) == [f"{TOPIC}-0"]


def test_a_directory_that_may_be_a_brokers_must_be_readable(tmp_path: Path, fail_to_list: dict[str, OSError]) -> None:
    fill(Writer(tmp_path / "broker-1" / f"{TOPIC}-0"), [0])
    (tmp_path / "broker-2").mkdir()
    fail_to_list["broker-2"] = PermissionError("Cannot list directory broker-2")
    with pytest.raises(
        PermissionError, match=r"broker-2 cannot be read: make it readable, or name the others one by o"
    ):
        names(tmp_path)


def test_a_directory_may_go_away_while_it_is_listed(tmp_path: Path, fail_to_list: dict[str, OSError]) -> None:
    """As that of a topic that is deleted, while `follow` looks for logs."""
    fill(Writer(tmp_path / f"{TOPIC}-0"), [0])
    (tmp_path / "orders-0").mkdir()
    fail_to_list["orders-0"] = FileNotFoundError("Cannot list directory orders-0")
    assert names(tmp_path) == [f"{TOPIC}-0"]


@pytest.mark.parametrize("seed", range(25))
def test_each_log_below_the_paths_is_found_once_by_a_name_of_its_own(seed: int, tmp_path: Path) -> None:
    """Logs of several brokers, beside each other's and beside what is none; paths may lead to the same one."""
    dice = Random(seed)
    folders = [tmp_path, *(tmp_path / name for name in dice.sample(["a", "b", "c"], dice.randrange(4)))]
    there: list[Path] = []
    for folder in folders:
        for number in dice.sample([0, 1, 2, 10, 11], dice.randrange(3)):
            there.append(folder / f"{TOPIC}-{number}")
            there[-1].mkdir(parents=True)
        for name in dice.sample(
            [f"{TOPIC}-x", f"{TOPIC}-1.0123-delete", "orders-0", TOPIC, "__share_group_state-1"], 2
        ):
            (folder / name).mkdir(parents=True)
        (folder / f"{TOPIC}-3").touch()
    paths = [dice.choice([*folders, *there]) for _ in range(dice.randrange(1, 4))]
    names: dict[Path, tuple[str, Path]] = {}  # by log: how it is called below the first path that leads to it
    for path in paths:
        for log in there:
            if log == path:
                names.setdefault(log, (log.name, path))
            elif path in (log.parent, log.parent.parent):
                names.setdefault(log, (str(log.relative_to(path)), path))
    called = [name for name, _ in names.values()]
    found = log_dirs([str(path) for path in paths])
    want = {
        (str(log), name if called.count(name) == 1 else f"{path}/{name}", int(log.name.rpartition("-")[2]))
        for log, (name, path) in names.items()
    }
    assert {(log.place, log.name, log.partition) for log in found} == want
    assert len(found) == len({log.name for log in found}) == len(names)
    assert [(log.partition, log.name) for log in found] == sorted((log.partition, log.name) for log in found)
    assert {log.topic for log in found} <= {TOPIC}


def test_where_no_log_is_every_path_is_named(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    with pytest.raises(FileNotFoundError, match=f"no directory {TOPIC}-<n> at or below {tmp_path}/a, {tmp_path}/b$"):
        logs_at([f"{tmp_path}/a", f"{tmp_path}/b"])


def test_files_of_a_cleaner_are_named(tmp_path: Path) -> None:
    names = [f"{0:020}.{end}" for end in ("index", "log", "log.cleaned", "log.deleted", "log.swap", "timeindex.swap")]
    assert skipped_files([Entry(name, 1, is_dir=False) for name in names]) == names[2:]


def test_high_watermarks_of_topics_of_any_name(tmp_path: Path) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text("0\n3\norders 0 42\nor.de_rs-1 12 7\n12 5 0\n")
    assert high_watermarks(Store.of(tmp_path)) == {("orders", 0): 42, ("or.de_rs-1", 12): 7, ("12", 5): 0}
    assert high_watermarks(Store.of(tmp_path / "nowhere")) == {}
