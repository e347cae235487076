"""Syncs by threads: which of them have failed, wherever they were made."""

import errno

import pytest

from storage.files import StorageError
from storage.syncing import SYNCS_AT_ONCE, NoWaker, ThreadSyncing, count_shares


class File:
    """A file whose sync may fail."""

    def __init__(self, path: str, is_bad: bool) -> None:
        self.path, self.is_bad = path, is_bad

    def begin_sync(self, syncing: object) -> None:
        """No sync is under way."""

    def start_writing(self) -> None:
        """A disk that begins at once."""

    def sync_now(self) -> None:
        if self.is_bad:
            raise StorageError("sync", self.path, errno.EIO, "I/O error")


@pytest.mark.parametrize("shares", [1, 2, 3, 7])
@pytest.mark.parametrize("bad", [(), (0,), (6,), (0, 3), (1, 2, 5), tuple(range(7))])
def test_every_failure_is_known_whichever_share_it_is_in(shares: int, bad: tuple[int, ...]) -> None:
    files = [File(str(number), number in bad) for number in range(7)]
    for first in range(shares):  # the order in which the shares end
        syncing = ThreadSyncing(files, shares, NoWaker())  # type: ignore[arg-type]  # stands in for RealFile
        order = [*syncing.shares[first:], *syncing.shares[:first]]
        for number, share in enumerate(order, start=1):
            assert not syncing.is_over
            syncing.sync_share(share)
            assert syncing.is_over == (number == shares)
        syncing.wait()
        assert set(syncing.failures) == {str(number) for number in bad}


def test_on_a_slow_disk_more_syncs_are_made_at_once() -> None:
    assert [count_shares(25, seconds) for seconds in (0.0, 0.0001, 0.001, 0.01)] == [1, 2, 13, 25]
    assert count_shares(100, 1.0) == SYNCS_AT_ONCE
    assert count_shares(1, 1.0) == 1
