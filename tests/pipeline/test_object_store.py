"""A publish into an object store that dies at any of its steps: readers see all tables of the old build, or of the new one."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import locks, published
from pipeline.decode.files import Store
from pipeline.errors import TablesInUseError
from tests.pipeline.object_store import object_store
from tests.storage.crashing_disk import ProcessKill

TABLES = ("latest_offsets", "rebalances")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory, store_keys: None) -> Iterator[str]:
    """The pattern of a path in an object store."""
    with object_store(tmp_path_factory.mktemp("store")) as pattern:
        yield pattern


class Steps:
    """Counts what is done to the store, and ends the process before step `last`, or half-way through it if it writes."""

    def __init__(self, last: int) -> None:
        self.last, self.done = last, 0

    def take(self) -> None:
        self.done += 1
        if self.done == self.last:
            raise ProcessKill

    def counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any) -> Any:
            self.take()
            return method(*words)

        return call

    def open_output(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The same for a stream: it dies before it is opened, half-way through, and before it is closed."""
        steps = self

        class Stream:
            def __init__(self, stream: Any) -> None:
                self.stream = stream

            def __enter__(self) -> "Stream":
                self.stream.__enter__()
                return self

            def __exit__(self, *error: object) -> None:
                self.stream.__exit__(*error)

            def write(self, data: bytes) -> None:
                self.stream.write(data[: len(data) // 2])
                steps.take()
                self.stream.write(data[len(data) // 2 :])
                steps.take()

        return lambda *words: Stream(self.counted(method)(*words))


def write_build(store: Store, build: str, rows: int) -> published.Snapshot:
    """Write the files of a build of two tables."""
    tables = {}
    for name in TABLES:
        path = f"builds/{build}/{name}"
        with store.open_output(f"{path}/part.parquet") as file:
            pq.write_table(pa.table({"n": list(range(rows))}), file)
        tables[name] = published.Table(path, (f"{path}/part.parquet",), rows)
    return published.Snapshot(build=build, tables=tables)


def publish(store: Store, snapshot: published.Snapshot) -> None:
    published.publish(store, snapshot, published.views(store, snapshot))


def count_rows(store: Store) -> set[int]:
    """The rows of each table that a reader finds who comes now."""
    snapshot = published.load(store)
    return {published.dataset(store, snapshot, name).count_rows() for name in TABLES}


def test_a_publish_that_dies_leaves_the_old_tables_or_the_new_ones(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for last in range(1, 100):
        store, steps = Store.of(bucket % f"tables-{last}"), Steps(last)
        old = write_build(store, "1", 1)
        publish(store, old)
        new = write_build(store, "2", 2)
        with monkeypatch.context() as patched:
            patched.setattr(Store, "open_output", steps.open_output(Store.open_output))
            for name in ("rename", "remove", "remove_dir", "list"):
                patched.setattr(Store, name, steps.counted(getattr(Store, name)))
            try:
                publish(store, new)
            except ProcessKill:
                pass
            else:
                break
        seen.append(count_rows(store))
        assert store.read("views.sql").decode() in (published.views(store, old), published.views(store, new))
        publish(store, write_build(store, "3", 3))
        assert count_rows(store) == {3}, "the next build is none the wiser"
    assert steps.done < last
    assert seen == sorted(seen, key=min), "first the old one, then the new one"
    assert {1} in seen
    assert {2} in seen
    assert all(rows in ({1}, {2}) for rows in seen), seen


def test_of_two_writers_one_is_refused_and_a_killed_one_is_forgotten(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.1)
    store = Store.of(bucket % "locked")
    with locks.lock_tables(store, locks.BUILDER) as check:
        refused = pytest.raises(TablesInUseError, match="being written to by process")
        with refused, locks.lock_tables(store, locks.BUILDER):
            pass
        check()
    killed = locks.Claim(store, f"{locks.CLAIMS}/{locks.BUILDER}")
    killed.write()
    monkeypatch.setattr(locks, "LEASE_S", 0.3)
    with locks.lock_tables(store, locks.BUILDER) as check:
        assert not store.exists(killed.path)
        check()
