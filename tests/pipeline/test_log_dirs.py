"""Which directories are logs: what stands beside them, cannot be read or goes away is no reason to stop."""

from pathlib import Path

import pytest

from pipeline.decode.files import Entry, Store
from pipeline.decode.layout import TOPIC, logs_at
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
