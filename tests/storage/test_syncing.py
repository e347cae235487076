"""Syncs by threads: which of them have failed, wherever they were made."""

import errno

import pytest

from storage.files import StorageError
from storage.syncing import NoWaker, ThreadSyncing


class File:
    """A file whose sync may fail."""

    def __init__(self, path: str, is_bad: bool) -> None:
        self.path, self.is_bad = path, is_bad

    def begin_sync(self, syncing: object) -> int:
        return -1

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
