"""`muster groups watch`: a live table of the groups of any Kafka. Not a subcommand.

State, members and lag are asked of the brokers; the last rebalance and its cause are inferred from the log. A user who
may not read the log sees the rest.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli.cluster import Cluster
from coordinator.cli.group_changes import Changes, note, open_reader
from coordinator.cli.group_list import list_groups
from coordinator.cli.group_view import describe_group
from coordinator.cli.parser import SECONDS, expect, integer, seconds
from coordinator.cli.positions import count_beyond_end, find_positions, total_lag
from coordinator.cli.since import Since, add_since
from coordinator.cli.tables import print_json, print_table
from coordinator.cli.watch import CLEAR, EVERY_SECONDS
from coordinator.client import ClientError
from coordinator.client.connection import AuthenticationError
from coordinator.client.log_reader import LogReader
from coordinator.control.printable import format_span
from pipeline.history import timeline
from pipeline.history.records import Rebalance

ROWS_MAX: Final = 40  # each costs a few requests every time
HEAD: Final = ("GROUP", "TYPE", "STATE", "MEMBERS", "LAG", "LAG/S", "BEYOND-END", "REBALANCED", "AGO", "WHY")


def add_watch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", type=expect(SECONDS, seconds), default=EVERY_SECONDS, metavar="SECONDS",
        help=f"how often to look ({EVERY_SECONDS:g})",
    )  # fmt: skip
    parser.add_argument("--count", type=integer(1), metavar="N", help="end after N tables, not with Ctrl-C")
    add_since(parser, "1h")


def watch_groups(cluster: Cluster, args: argparse.Namespace) -> int:
    """Print a table every so many seconds, until Ctrl-C. After the first one, brokers may be away for a while."""
    watcher, left, is_first = GroupWatcher(cluster, args), args.count, True
    try:
        while left is None or left > 0:
            try:
                rows = watcher.look()
            except ClientError as error:
                if is_first:
                    raise
                note(f"muster groups: {error}; trying again")
                watcher.close()
                watcher = _begin_again(args)
                continue
            is_first = False
            if args.json:
                print_json(rows)
            else:
                if sys.stdout.isatty():
                    print(CLEAR, end="")
                print_table(HEAD, [list(row.values()) for row in rows])
            sys.stdout.flush()
            left = None if left is None else left - 1
            if left != 0:
                time.sleep(args.every)
    except KeyboardInterrupt:
        pass
    finally:
        watcher.close()
    return 0


def _begin_again(args: argparse.Namespace) -> "GroupWatcher":
    """Watch over new connections, as soon as a broker answers. Raises AuthenticationError."""
    while True:
        time.sleep(args.every)
        try:
            return GroupWatcher(Cluster.of(args), args)
        except AuthenticationError:
            raise  # to try again may lock the user out
        except ClientError:
            pass


class GroupWatcher:
    """What is known of the groups: the rebalances of each, and its lag of the last time."""

    def __init__(self, cluster: Cluster, args: argparse.Namespace) -> None:
        self._cluster = cluster
        self._last: dict[str, tuple[int, Rebalance]] = {}  # group -> rebalances, the last one
        self._lags: dict[str, tuple[float, int]] = {}  # group -> when, lag
        self._reader: LogReader | None = None
        self._changes: Changes | None = None
        self._following: Iterator[Rebalance | None] = iter(())
        try:
            reader = self._reader = open_reader(args)
            partitions = list(reader.describe().leaders)
            self._changes = Changes(reader, partitions, args.since or Since(ago_ms=3_600_000))
            for one in self._changes.known():
                self._note(one)
            self._following = self._changes.read_changes()
        except ClientError as error:
            note(f"muster groups: rebalances are not shown: {error}")

    def close(self) -> None:
        """Close all connections."""
        self._cluster.close()
        if self._reader is not None:
            self._reader.close()

    def look(self) -> list[dict[str, Any]]:
        """Return a row for each group, those that rebalanced last first."""
        for change in self._following:
            if change is None:
                break
            self._note(change)
        unlisted = {
            name: {"type": last.type, "state": None}  # this user may not describe it
            for name, (_, last) in self._last.items()
            if "deleted" not in last.causes
        }
        listed = unlisted | {one["group"]: one for one in list_groups(self._cluster, [], [])}
        names = sorted(listed, key=lambda name: (-self._last[name][1].at_ms if name in self._last else 0, name))
        return [self._row(name, listed[name]) for name in names[:ROWS_MAX]]

    def _note(self, one: Rebalance) -> None:
        times, _ = self._last.get(one.group, (0, one))
        self._last[one.group] = (times + 1, one)

    def _row(self, name: str, listed: dict[str, Any]) -> dict[str, Any]:
        state, members, lag, beyond = listed["state"], None, None, None
        try:
            if (group := describe_group(self._cluster, name)) is not None:
                state, members = group.state, len(group.members)
                positions = find_positions(self._cluster, group)
                lag, beyond = total_lag(positions), count_beyond_end(positions) or None
        except ClientError:
            pass  # this user may not describe the group
        times, last = self._last.get(name, (0, None))
        known = self._changes is not None
        ago = None if last is None else format_span(max(0.0, time.time() - last.at_ms / 1000))
        why = None
        if last is not None and self._changes is not None:
            why = timeline.describe(last, self._changes.replay.name)
        return {
            "group": name,
            "type": listed["type"],
            "state": state,
            "members": members,
            "lag": lag,
            "lag_per_s": self._rate(name, lag),
            "beyond_end": beyond,
            "rebalances": times if known else None,
            "ago": ago,
            "why": why,
        }

    def _rate(self, name: str, lag: int | None) -> str | None:
        """Return how fast the lag grows, in records a second; None until it is known twice."""
        now = time.monotonic()
        before = self._lags.get(name)
        if lag is None:
            return None
        self._lags[name] = (now, lag)
        return None if before is None else f"{(lag - before[1]) / max(now - before[0], 0.001):+.1f}"
