"""Locks of a set of tables: files' own, and where files cannot be locked claims, of which one is there at a time."""

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import locks, manifest, published
from pipeline.decode.files import Store
from pipeline.errors import TablesInUseError
from pipeline.locks import BUILDER, CLAIMS, Claim, hold_claim, lock_tables
from pipeline.synth import Plan, write_logs
from tests.pipeline.ingested import read


def me() -> str:
    """A pattern for this process, as it is told to others."""
    return re.escape(locks.describe_process())


def claims(store: Store) -> list[str]:
    return [entry.name for entry in store.list(f"{CLAIMS}/{BUILDER}")]


def test_a_claim_that_is_renewed_keeps_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.05)
    store = Store.of(tmp_path)
    with hold_claim(store, BUILDER) as check:
        with pytest.raises(TablesInUseError, match=rf" is being written to by {me()}$"), hold_claim(store, BUILDER):
            pass
        check()
        assert len(claims(store)) == 1, "who was refused leaves nothing"
        waiting = Claim(store, f"{CLAIMS}/{BUILDER}")
        waiting.write()
        check()  # a claim takes nothing over as long as it waits
        store.remove(waiting.path)
        with hold_claim(store, locks.WRITER):
            pass
    assert claims(store) == []


def test_the_claim_of_a_process_that_was_killed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LEASE_S", 0.2)
    store = Store.of(tmp_path)
    dead = Claim(store, f"{CLAIMS}/{BUILDER}")
    dead.write()
    told: list[str] = []
    with hold_claim(store, BUILDER, told.append) as check:
        assert dead.name not in claims(store)
        check()
    (line,) = told
    assert re.match(rf"waiting for {me()}, unless it has ended", line)


def test_a_holder_that_was_suspended_saves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LEASE_S", 0.2)
    store = Store.of(tmp_path)
    suspended = Claim(store, f"{CLAIMS}/{BUILDER}")
    suspended.write()
    suspended.acquire(lambda _line: None)
    suspended.check()
    with hold_claim(store, BUILDER):
        with pytest.raises(TablesInUseError, match=rf"taken over by {me()}, .* nothing more is saved"):
            suspended.check()
        suspended.write()  # it went on between its look and its write
        with pytest.raises(TablesInUseError, match="taken over"):
            suspended.check()
    store.remove(suspended.path)
    with pytest.raises(TablesInUseError, match="taken over by another process"):
        suspended.check()


@pytest.mark.parametrize("is_written", [True, False])
def test_who_holds_a_file_is_told_once_it_has_written_its_name(is_written: bool, tmp_path: Path) -> None:
    with lock_tables(tmp_path, BUILDER) as check:
        if not is_written:
            (tmp_path / BUILDER).write_text("")
        by = me() if is_written else "another process"
        with pytest.raises(TablesInUseError, match=f" is being written to by {by}$"), lock_tables(tmp_path, BUILDER):
            pass
        with lock_tables(tmp_path):
            check()
    assert (tmp_path / BUILDER).read_text("utf-8") == "", "nobody holds it"


def test_a_store_that_fails_once_does_not_end_the_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.01)
    claim, failed, ended = Claim(Store.of(tmp_path), CLAIMS), threading.Event(), threading.Event()
    claim.write()
    exists = Store.exists

    def fail_once(store: Store, path: str = "") -> bool:
        if not failed.is_set():
            failed.set()
            raise OSError("timeout")
        ended.set()
        return exists(store, path)

    monkeypatch.setattr(Store, "exists", fail_once)
    claim.renew(ended)
    assert failed.is_set()
    assert claim.store.read(claim.path).endswith(b" 2")


@pytest.mark.parametrize(("renewed_at_s", "is_alive"), [(39.0, True), (None, False)])
def test_a_claim_that_is_renewed_late_is_alive_until_its_lease_ends(
    renewed_at_s: float | None, is_alive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = Store.of(tmp_path), 0.0
    other, mine = Claim(store, f"{CLAIMS}/{BUILDER}"), Claim(store, f"{CLAIMS}/{BUILDER}")
    other.write()
    mine.write()

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds
        if renewed_at_s is not None and now - seconds < renewed_at_s <= now:
            other.write()

    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: now, sleep=wait))
    if is_alive:
        with pytest.raises(TablesInUseError):
            mine.acquire(lambda _line: None)
        assert other.name in claims(store)
    else:
        mine.acquire(lambda _line: None)
        assert claims(store) == [mine.name]
        assert locks.LEASE_S < now < locks.LEASE_S + locks.RENEW_S


def test_a_renewal_that_goes_on_while_the_lock_is_given_back_leaves_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep others out for a lease."""
    monkeypatch.setattr(locks, "RENEW_S", 0.01)
    begun, removed, write, remove = threading.Event(), threading.Event(), Claim.write, Store.remove

    def write_slowly(claim: Claim) -> None:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            removed.wait(0.1)
        write(claim)

    def remove_and_tell(store: Store, path: str) -> None:
        remove(store, path)
        removed.set()

    monkeypatch.setattr(Claim, "write", write_slowly)
    monkeypatch.setattr(Store, "remove", remove_and_tell)
    with hold_claim(Store.of(tmp_path), BUILDER):
        assert begun.wait(30)
    assert claims(Store.of(tmp_path)) == []


def test_of_many_at_once_at_most_one_has_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "RENEW_S", 0.02)
    store, inside, most, refused = Store.of(tmp_path), 0, 0, 0
    mutex, start = threading.Lock(), threading.Barrier(6)

    def work() -> None:
        nonlocal inside, most, refused
        start.wait()
        for _ in range(5):
            try:
                with hold_claim(store, BUILDER):
                    with mutex:
                        inside += 1
                        most = max(most, inside)
                    with mutex:
                        inside -= 1
            except TablesInUseError:
                with mutex:
                    refused += 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 1
    assert refused > 0, "they did meet"
    assert claims(store) == []


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_of_two_builds_at_once_one_is_refused_and_the_tables_are_whole(tmp_path: Path) -> None:
    """Two processes, each with a Spark of its own if it gets so far: half a minute."""
    write_logs(tmp_path / "logs", Plan(records=300))
    read(tmp_path / "logs", tmp_path / "t")
    command = [sys.executable, "-m", "coordinator", "pipeline", "build", "--out", str(tmp_path / "t")]
    both = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    lines = {process: process.communicate(timeout=800)[1].splitlines() for process in both}
    assert sorted(process.returncode for process in both) == [0, 2], lines
    built, refused = sorted(both, key=lambda process: process.returncode)
    told, _, by = lines[refused][-1].partition(" is being written to by ")
    assert told == f"muster pipeline build: {tmp_path / 't'}"
    assert by in (f"process {built.pid} of {socket.gethostname()}", "another process")
    assert not any("Spark" in line for line in lines[refused]), "it did not start Spark to find that out"
    snapshot = published.load(tmp_path / "t")
    assert [path.name for path in (tmp_path / "t" / published.BUILDS).iterdir()] == [snapshot.build]
    rows = {name: published.dataset(tmp_path / "t", snapshot, name).count_rows() for name in snapshot.tables}
    assert rows == {name: table.rows for name, table in snapshot.tables.items()}
    assert rows["offset_commits"] == manifest.load(tmp_path / "t").rows["offset_commits"]
