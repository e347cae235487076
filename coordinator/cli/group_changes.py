"""Rebalances of groups as the log of a cluster tells them, for the commands. Not a subcommand.

The cluster may be any Kafka. Its `__consumer_offsets` is read as every consumer of it could.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from coordinator.cli.cluster import TIMEOUT_SECONDS, bootstrap_of, security_of
from coordinator.cli.since import Since
from coordinator.client import ClientError
from coordinator.client.cluster import BrokerError
from coordinator.client.log_reader import LogReader
from coordinator.client.offsets import EARLIEST, LATEST
from coordinator.control.printable import make_printable
from pipeline.history.live import Replay
from pipeline.history.records import Rebalance
from protocol.errors import ErrorCode
from protocol.java_hash import partition_of

TOPIC: Final = "__consumer_offsets"
BEFORE: Final = 1_000_000  # offsets that are read in front of `--since`, so that the first rebalance has its cause
WAIT_MS: Final = 500
ID_BYTES_MAX: Final = 32_767  # of a string of the protocol
_NO_GROUPS: Final = "the cluster has no topic __consumer_offsets yet: no group has ever joined or committed"


def open_reader(args: argparse.Namespace) -> LogReader:
    """Connect to the cluster that the command line names. Raises ClientError, with what to do."""
    timeout = args.timeout or TIMEOUT_SECONDS
    reader = LogReader(bootstrap_of(args), TOPIC, security_of(args, timeout), timeout=timeout)
    try:
        reader.describe()
    except BrokerError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise ClientError(_NO_GROUPS) from None
        raise
    return reader


def find_home(group: str, partitions: int) -> int:
    """Return the partition of the topic that has a group. Raises ClientError for an id that none can have."""
    if len(group.encode("utf-8", "surrogateescape")) > ID_BYTES_MAX:
        raise ClientError(f"cannot look for this group: its id has more than {ID_BYTES_MAX:,} bytes")
    return partition_of(group, partitions)


class Changes:
    """The rebalances in some partitions of the topic, from a position on, with the names of the members."""

    def __init__(self, reader: LogReader, partitions: Sequence[int], since: Since, group: str | None = None) -> None:
        self.replay = Replay(None if group is None else {group})
        self.before: Rebalance | None = None  # the latest that is not shown, since it lies before `since`
        self.removed: Mapping[int, int] = {}  # partition -> where its log begins, if records before that are gone
        self._reader = reader
        self._ends = reader.offsets(LATEST, partitions)
        first = reader.offsets(EARLIEST, partitions)
        self._shown = self._find_shown(since, first)
        self._starts = {one: max(first[one], self._shown[one] - BEFORE) for one in partitions}

    def _find_shown(self, since: Since, first: Mapping[int, int]) -> dict[int, int]:
        if since.ago_ms is not None:
            return self._reader.offsets(max(int(time.time() * 1000) - since.ago_ms, 0), first)
        # Beyond its end a log is shown from there on, as a consumer that looks for such an offset goes on at the end.
        return {one: min(max(at, since.offset or 0), self._ends[one]) for one, at in first.items()}

    def known(self) -> Iterator[Rebalance]:
        """Yield what the log holds now, and perhaps what has come since: a Fetch does not stop where the log ended."""
        for fetched in self._reader.read(self._starts, self._ends):
            yield from self._show(
                fetched.partition, self.replay.apply(fetched.batches, self._starts[fetched.partition])
            )
            self._ends[fetched.partition] = max(self._ends[fetched.partition], fetched.next_offset)
        yield from self._settle()
        self._reader.seek(self._ends)

    def read_changes(self) -> Iterator[Rebalance | None]:
        """Yield what comes from now on; None when nothing has come for a moment, or records have come that long.

        In a large cluster some group always commits.
        """
        self._reader.seek(self._ends)
        pause_at_s = time.monotonic() + WAIT_MS / 1000
        while True:
            is_idle = True
            for fetched in self._reader.poll(WAIT_MS):
                is_idle = False
                at = self._ends[fetched.partition]
                yield from self._show(fetched.partition, self.replay.apply(fetched.batches, at))
                self._ends[fetched.partition] = fetched.next_offset
            yield from self._settle(is_idle=is_idle)
            if is_idle or time.monotonic() >= pause_at_s:
                yield None
                pause_at_s = time.monotonic() + WAIT_MS / 1000

    def _show(self, partition: int, rebalances: Iterator[Rebalance]) -> Iterator[Rebalance]:
        return self._select(rebalances, self._shown[partition])

    def _settle(self, *, is_idle: bool = True) -> Iterator[Rebalance]:
        for one in self.replay.settle(is_idle=is_idle):
            yield from self._select([one], self._shown_from(one.group))

    def _shown_from(self, group: str) -> int:
        """Return the first offset that is shown of the partition that has the group: of all, or of the only one."""
        (first, *others) = self._shown.values()
        return self._shown[partition_of(group, len(self._shown))] if others else first

    def _select(self, rebalances: Iterable[Rebalance], shown_from: int) -> Iterator[Rebalance]:
        for one in rebalances:
            if one.log_offset >= shown_from:
                yield one
            elif self.before is None or one.at_ms >= self.before.at_ms:
                self.before = one


def note(line: str) -> None:
    """Say something beside the result, on standard error."""
    print(make_printable(line), file=sys.stderr, flush=True)
