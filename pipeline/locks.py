"""Locks of a set of tables: one process at a time reads logs into them, and one builds.

On this machine's file systems a lock is that of a file, which says who holds it, and ends with the process. An object
store has no locks, and not each can refuse to write a file that is there. So a lock there is a *claim*: a file of a
random name in one directory, which its holder writes anew every `RENEW_S`. A process that wants the lock writes a claim
and then lists the directory. Stores list what was written before, so of two processes the later one, at least, sees the
other's claim. It watches that claim: one that changes is alive, and one that stays the same for `LEASE_S` belongs to a
process that was killed, and is removed.

A holder that was suspended for longer than that may find its claim gone. It calls `check` before it publishes.
"""

import fcntl
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pipeline.decode.files import Place, Store
from pipeline.errors import TablesInUseError

WRITER, BUILDER = "manifest.lock", "build.lock"  # of jobs that read logs, and of those that make derived tables
RENEW_S, LEASE_S = 10.0, 40.0
CLAIMS = "claims"
Report = Callable[[str], None]


@contextmanager
def lock_tables(out: Place, lock: str = WRITER, report: Report = lambda _line: None) -> Iterator[Callable[[], None]]:
    """Keep every other one of the kind out of a set of tables, until the process ends if need be.

    Yields a function that raises TablesInUseError if the lock was lost. Raises it, too, when another process has the
    lock; for a claim that takes until its holder renews it.
    """
    store = Store.of(out)
    store.make()
    if store.local is None:
        with hold_claim(store, lock, report) as check:
            yield check
        return
    with (store.local / lock).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            by = file.read() or "another process"  # which has not written yet who it is, or is of an older release
            raise TablesInUseError(f"{store.display_uri} is being written to by {by}") from None
        file.truncate(0)
        file.write(describe_process())
        file.flush()
        try:
            yield lambda: None
        finally:
            file.truncate(0)


def describe_process() -> str:
    """Return who holds a lock, for whoever is refused."""
    return f"process {os.getpid()} of {socket.gethostname()}"


@contextmanager
def hold_claim(store: Store, lock: str, report: Report = lambda _line: None) -> Iterator[Callable[[], None]]:
    """Hold a lock by a claim, for stores without locks."""
    claim = Claim(store, f"{CLAIMS}/{lock}")
    claim.write()
    ended = threading.Event()
    thread = threading.Thread(target=claim.renew, args=(ended,), daemon=True)
    thread.start()
    try:
        claim.acquire(report)
        yield claim.check
    finally:
        ended.set()
        thread.join()
        store.remove(claim.path)


class Claim:
    """A file that says that somebody holds, or wants, a lock. Its text changes whenever it is renewed."""

    def __init__(self, store: Store, directory: str) -> None:
        self.store, self.directory = store, directory
        self.name = secrets.token_hex(8)
        self.path = f"{directory}/{self.name}"
        self._owner = describe_process()
        self._renewals = 0
        self._state = "wants"

    def write(self) -> None:
        """Write the claim, or write it anew."""
        self._renewals += 1
        self.store.make(self.directory)
        with self.store.open_output(self.path) as file:
            file.write(f"{self._owner} {self._state} {self._renewals}".encode())

    def renew(self, ended: threading.Event) -> None:
        """Renew the claim until the event is set, or until somebody has removed it."""
        while not ended.wait(RENEW_S):
            with suppress(OSError):  # a store that does not answer may do so the next time
                if not self.store.exists(self.path):
                    return
                self.write()

    def acquire(self, report: Report) -> None:
        """Wait until no other claim is there. Raises TablesInUseError when one of them is alive."""
        watched: dict[str, tuple[str, float]] = {}  # name -> text, and since when it has been the same
        while others := self._find_others():
            now = time.monotonic()
            for name, text in others.items():
                known, since = watched.setdefault(name, (text, now))
                if text != known:  # empty while it is being written, where a file is not replaced in one step
                    raise TablesInUseError(f"{self.store.display_uri} is being written to by {_owner(text or known)}")
                if since == now:
                    report(f"waiting for {_owner(text)}, unless it has ended: up to {LEASE_S:g} s")
                elif now - since > LEASE_S:
                    self.store.remove(f"{self.directory}/{name}")
            time.sleep(min(1.0, RENEW_S / 4))
        self._state = "holds"
        self.write()

    def check(self) -> None:
        """Raise TablesInUseError if this claim was removed, or if another process holds the lock as well."""
        holders = [text for text in self._find_others().values() if " holds " in text]
        if holders or not self.store.exists(self.path):
            by = _owner(holders[0]) if holders else "another process"
            raise TablesInUseError(
                f"{self.store.display_uri} was taken over by {by}, since this one did not renew its claim for"
                f" {LEASE_S:g} s; nothing more is saved"
            )

    def _find_others(self) -> dict[str, str]:
        found = {}
        for entry in self.store.list(self.directory):
            if entry.name != self.name and not entry.is_dir:
                try:
                    found[entry.name] = self.store.read(f"{self.directory}/{entry.name}").decode(errors="replace")
                except FileNotFoundError:
                    continue  # given up since the directory was listed
        return found


def _owner(text: str) -> str:
    return " ".join(text.split()[:-2]) or "another process"
