"""The tables that a report reads, published as `build` leaves them, and whole data sets of them made up at random."""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import published

text, small, big, yes, real = pa.string(), pa.int32(), pa.int64(), pa.bool_(), pa.float64()
KEY = [("group", text), ("topic", text), ("partition", small)]
MEMBER = pa.struct([("member_id", text), ("client_id", text), ("client_host", text), ("assignment", pa.map_(text, pa.list_(small)))])  # fmt: skip
EMPTY = {
    "group_state": [("group", text), ("type", text), ("generation", big), ("protocol", text), ("members", big), ("empty_since", big)],
    "group_status": [("group", text), ("status", text), ("total_lag", big), ("max_lag", big), ("partitions", big)],
    "group_metadata": [("group", text), ("log_offset", big), ("record_ts", big), ("is_tombstone", yes), ("members", pa.list_(MEMBER))],
    "lag_status": [*KEY, ("status", text), ("lag_at_least", big), ("worst_rewind", big), ("beyond_end", big), ("quiet_too_long", yes), ("current_offset", big), ("log_end_offset", big), ("lag", big), ("lag_seconds", real), ("quiet_s", real), ("lag_trend", real)],
    "lag_history": [*KEY, ("ts", big), ("lag", big)],
    "log_end_offsets": [("topic", text), ("partition", small), ("ts", big), ("leo", big), ("source", text)],
    "offset_commits": [*KEY, ("record_ts", big), ("committed_offset", big), ("effective", yes), ("is_tombstone", yes), ("topic_id", text)],
    "new_group_records": [("group", text), ("type", text), ("member_id", text), ("log_offset", big), ("record_ts", big), ("is_tombstone", yes), ("payload", text)],
    "rebalances": [("group", text), ("log_offset", big), ("cause", text), ("cause_source", text), ("sync_ms", big), ("at_ms", big), ("type", text), ("generation", big), ("causes", pa.list_(text)), ("cause_detail", text), ("members_before", small), ("members_after", small), ("joined", pa.list_(text)), ("left", pa.list_(text)), ("partitions_moved", small), ("commit_gap_ms", big), ("commit_gap_partitions", text), ("commit_interval_ms", big)],
    "stickiness": [("group", text), ("common", big), ("stickiness", real)],
    "share_partitions": [*KEY, ("available", big), ("acknowledged", big), ("max_delivery_count", big), ("record_ts", big)],
    "archived_ranges": [*KEY, ("topic_id", text), ("first_offset", big), ("last_offset", big), ("records", big), ("delivery_count", big), ("at_ms", big)],
    "log_health": [("log_dir", text), ("bytes", big), ("segments", big), ("commits", big), ("live_commits", big), ("dead_ratio", real), ("tombstones", big), ("aborted_commits", big), ("open_txns", big), ("oldest_open_txn_ts", big), ("replay_s", real)],
    "log_problems": [("log_dir", text), ("severity", text), ("pos", big), ("kind", text), ("segment_base", big), ("from_offset", big), ("to_offset", big), ("detail", text)],
    "unknown_records": [("key_version", pa.int16()), ("reason", text)],
    "member_sessions": [("group", text), ("member_id", text), ("client_id", text), ("host", text), ("from_ts", big), ("to_ts", big), ("instance_id", text), ("end_reason", text)],
}  # fmt: skip
Row = dict[str, Any]
Tables = dict[str, list[Row]]

START_MS = 1_760_000_000_000
CAUSES = ("join", "leave", "timeout", "static_rejoin", "emptied", "unknown")
CURRENT = "ConsumerGroupCurrentMemberAssignment"
STATUSES = ("OK", "OK", "UNKNOWN", "WARN", "STALL", "STOP", "REWIND", "ERR")


def published_tables(out: Path, **tables: pa.Table) -> Path:
    """Tables as `build` leaves them; those that are not given are empty."""
    known = {}
    for name, columns in EMPTY.items():
        rows = tables.get(name, pa.schema(columns).empty_table())
        out.mkdir(exist_ok=True)
        pq.write_table(rows, out / f"{name}.parquet")
        known[name] = published.Table("", (f"{name}.parquet",), rows.num_rows)
    published.publish(out, published.Snapshot(format="delta", build="b", tables=known), "")
    return out


def rows_of(name: str, *rows: tuple[Any, ...]) -> pa.Table:
    """Rows by the order of the columns; the last columns may be left out."""
    schema = pa.schema(EMPTY[name])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=False)) for row in rows], schema)


def publish(out: Path, tables: Tables) -> Path:
    """Publish rows in any order: what a report shows may depend on none."""
    for rows in tables.values():
        Random(5).shuffle(rows)
    made = {name: pa.Table.from_pylist(rows, pa.schema(EMPTY[name])) for name, rows in tables.items()}
    return published_tables(out, **made)


class MadeUpTables:
    """What a day of many groups may leave: classic groups and consumer groups, of which one's name begins another's.

    Each has topics of its own and one that it shares, members that come, go and return, and commits of which some were
    aborted. `owners` has the member that owns each partition at the end, and `drawn` from when to when each had one.
    """

    def __init__(self, dice: Random, groups: int = 9) -> None:
        self.dice, self.tables = dice, {name: list[Row]() for name in EMPTY}
        self.owners: dict[tuple[str, str, int], tuple[str, str | None, str | None]] = {}  # member, client, host
        self.drawn: dict[str, list[tuple[str, int, int, int | None, str]]] = {}
        self._offsets = count(1)
        for topic in ("orders", "zahlungen-ü"):
            self._ends(topic)
        for number in range(groups):
            self._group(("shop", "shop-2", "größe", f"group-{number}")[min(number, 3)], is_classic=number % 2 == 0)
        for number in range(70):  # more than the page lists
            self.tables["group_status"].append(self._status(f"idle-{number}"))
        self._shares()
        self._logs()

    def _add(self, table: str, **columns: Any) -> None:
        self.tables[table].append(columns)

    def _ends(self, topic: str) -> None:
        for partition in range(4):
            leo = 0
            for ts in self._times(30):
                leo += self.dice.randrange(400)
                for source, more in (("log", 0), ("max_committed", 5000)):
                    if source == "log" or self.dice.random() < 0.2:
                        self._add(
                            "log_end_offsets", topic=topic, partition=partition, ts=ts, leo=leo + more, source=source
                        )

    def _times(self, most: int, length_ms: int = 600_000) -> list[int]:
        return sorted(START_MS + at for at in self.dice.sample(range(length_ms), self.dice.randrange(2, most)))

    def _status(self, group: str) -> Row:
        lag = self.dice.choice((None, self.dice.randrange(100), self.dice.randrange(10_000)))
        status = self.dice.choice(STATUSES)
        return {"group": group, "status": status, "total_lag": lag, "max_lag": lag and lag // 2, "partitions": 3}

    def _group(self, group: str, *, is_classic: bool) -> None:
        kind = "classic" if is_classic else "consumer"
        if self.dice.random() < 0.9:
            self._add("group_state", group=group, type=kind, generation=self.dice.randrange(99), members=self.dice.randrange(5),
                      protocol=self.dice.choice((None, "range")), empty_since=self.dice.choice((None, START_MS)))  # fmt: skip
        if self.dice.random() < 0.8:
            self.tables["group_status"].append(self._status(group))
        places = [(topic, n) for topic in ("orders", "zahlungen-ü") for n in range(self.dice.choice((1, 2, 4, 9)))]
        self._commits(group, places)
        self._rebalances(group, kind)
        self._sessions(group)
        (self._generations if is_classic else self._assignments)(group, places)
        if self.dice.random() < 0.8:
            common = self.dice.choice((0, 7, 50))
            self._add(
                "stickiness", group=group, common=common, stickiness=round(self.dice.random(), 3) if common else None
            )

    def _commits(self, group: str, places: list[tuple[str, int]]) -> None:
        for topic, partition in places:
            position = 0
            for ts in self._times(60):
                position += self.dice.randrange(-20, 300)
                gone = self.dice.random() < 0.05
                self._add("offset_commits", group=group, topic=topic, partition=partition, record_ts=ts, is_tombstone=gone,
                          committed_offset=None if gone else position, effective=self.dice.random() < 0.8, topic_id=topic[:2])  # fmt: skip
            for ts in self._times(200) if self.dice.random() < 0.8 else ():
                self._add(
                    "lag_history", group=group, topic=topic, partition=partition, ts=ts, lag=self.dice.randrange(5000)
                )
            lag = self.dice.choice((None, 0, 0, self.dice.randrange(10_000)))
            self._add(
                "lag_status", group=group, topic=topic, partition=partition, status=self.dice.choice(STATUSES), lag=lag,
                lag_at_least=self.dice.choice((None, 0, 9, 250_000)) if lag is None else lag, current_offset=position,
                worst_rewind=self.dice.choice((0, 0, 0, 7, 90)), beyond_end=self.dice.choice((0, 3)) if lag == 0 else 0,
                quiet_too_long=self.dice.random() < 0.4, quiet_s=self.dice.choice((None, 12.0, 4_000.0)),
                lag_trend=self.dice.choice((None, -2.5, 12.25)), lag_seconds=self.dice.choice((None, 1.5, 2_000.0)),
                log_end_offset=self.dice.choice((None, position + 10)),
            )  # fmt: skip

    def _rebalances(self, group: str, kind: str) -> None:
        length_ms = self.dice.choice((40_000, 600_000))
        for number, at_ms in enumerate(self._times(40, length_ms)):
            causes = self.dice.sample(CAUSES, self.dice.randrange(1, 3))
            gap = self.dice.choice((None, 1_500, 90_000))
            self._add(
                "rebalances", group=group, cause=causes[0], causes=causes, type=kind, generation=number,
                at_ms=at_ms - at_ms % 20_000 if number % 2 else at_ms, log_offset=next(self._offsets),
                cause_source=self.dice.choice(("event_log", "inferred")), cause_detail=self.dice.choice(("", f"joined: m{number}")),
                sync_ms=self.dice.choice((None, 0, 9, 10, 99, 100, 999, 1000, 9999, 10_000)), members_before=self.dice.randrange(5),
                members_after=self.dice.randrange(5), joined=[f"{group}-{n}" for n in range(self.dice.randrange(3))],
                left=[f"{group}-{n}" for n in range(self.dice.randrange(2))], partitions_moved=self.dice.choice((None, 0, 1, 8)),
                commit_gap_ms=gap, commit_gap_partitions=gap and "orders 0-1", commit_interval_ms=self.dice.choice((None, 1000)),
            )  # fmt: skip

    def _sessions(self, group: str) -> None:
        """Members come and go; the first three are there at the end, and each has been there before."""
        times = self._times(60)
        self.dice.shuffle(times)
        for number, at in enumerate(times):
            to = None if number < 3 else at + self.dice.randrange(60_000)
            self._session(group, f"{group}-{number}", at, to, f"h{number}")
            if to is None:
                self._session(group, f"{group}-{number}", at - 9_000, at - 5_000, "before")

    def _session(self, group: str, member: str, from_ts: int, to_ts: int | None, host: str) -> None:
        self._add("member_sessions", group=group, member_id=member, client_id=f"client of {member}", host=host, to_ts=to_ts,
                  from_ts=from_ts, instance_id=self.dice.choice((None, f"i-{member}")),
                  end_reason=to_ts and self.dice.choice(("leave", "leave_or_timeout")))  # fmt: skip

    def _share_out(self, group: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], str]:
        return {place: f"{group}-{self.dice.randrange(3)}" for place in places if self.dice.random() < 0.8}

    def _generations(self, group: str, places: list[tuple[str, int]]) -> None:
        spans, now = Spans(), dict[tuple[str, int], str]()
        for at in self._times(25, 660_000):  # beyond all else that there is of the group
            is_gone = self.dice.random() < 0.1
            now = {} if is_gone else self._share_out(group, places)
            members = []
            for member in sorted(set(now.values())):
                own = [place for place, owner in now.items() if owner == member]
                shares = {topic: [n for name, n in own if name == topic] for topic, _ in own}
                members.append({"member_id": member, "client_id": f"client of {member}", "client_host": f"/{member}", "assignment": list(shares.items())})  # fmt: skip
            self._add("group_metadata", group=group, log_offset=next(self._offsets), record_ts=at, is_tombstone=is_gone, members=members)  # fmt: skip
            spans.change(at, now)
        self.drawn[group] = spans.rows
        for (topic, n), member in now.items():
            self.owners[group, topic, n] = member, f"client of {member}", f"/{member}"

    def _assignments(self, group: str, places: list[tuple[str, int]]) -> None:
        """The members give up what others get before those have it, one record after the other."""
        spans, now = Spans(), dict[tuple[str, int], str]()
        for at in self._times(8):
            wanted = self._share_out(group, places)
            for step in (0, 1):
                for member in sorted({*now.values(), *wanted.values()}):
                    kept = [one for one, owner in now.items() if owner == member and wanted.get(one) == member]
                    own = kept if step == 0 else [one for one, owner in wanted.items() if owner == member]
                    pending = self.dice.sample(own, len(own) // 3)
                    now = {one: owner for one, owner in now.items() if owner != member} | dict.fromkeys(own, member)
                    value = {
                        "assigned_partitions": [{"topic_id": t[:2], "partitions": [n]} for t, n in own if (t, n) not in pending],
                        "partitions_pending_revocation": [{"topic_id": t[:2], "partitions": [n]} for t, n in pending],
                    }  # fmt: skip
                    self._add("new_group_records", group=group, type=CURRENT, member_id=member, log_offset=next(self._offsets),
                              record_ts=at + step, is_tombstone=not own,
                              payload=msgspec.json.encode(value if own else {}).decode())  # fmt: skip
                    spans.change(at + step, now)
        self.drawn[group] = spans.rows
        hosts = {row["member_id"]: row for row in self.tables["member_sessions"] if row["group"] == group and row["to_ts"] is None}  # fmt: skip
        for (topic, n), member in now.items():
            session = hosts.get(member, {})
            self.owners[group, topic, n] = member, session.get("client_id"), session.get("host")

    def _shares(self) -> None:
        for group in ("queue", "queue-2", "quiet"):
            self._add("group_state", group=group, type="share", generation=1, members=self.dice.randrange(3))
            for partition in range(self.dice.randrange(1, 4)):
                self._add("share_partitions", group=group, topic="orders", partition=partition, available=self.dice.randrange(9),
                          acknowledged=self.dice.randrange(9), max_delivery_count=self.dice.randrange(5), record_ts=START_MS + partition)  # fmt: skip
                for first in range(0, 0 if group == "quiet" else self.dice.randrange(400), 10):
                    size = self.dice.randrange(1, 9)
                    self._add("archived_ranges", group=group, topic=self.dice.choice(("orders", None)), partition=partition,
                              topic_id="0b0c0d0e0f", first_offset=first, last_offset=first + size - 1, records=size,
                              delivery_count=self.dice.randrange(1, 6), at_ms=START_MS + self.dice.randrange(600_000))  # fmt: skip

    def _logs(self) -> None:
        for number in range(70):
            self._add("log_health", log_dir=f"log-{number}", bytes=self.dice.choice((None, self.dice.randrange(10**9))),
                      segments=number, commits=number + 1, live_commits=number + 2, dead_ratio=self.dice.choice((None, 0.25)),
                      tombstones=number + 3, aborted_commits=number + 4, open_txns=number + 5, replay_s=1.5,
                      oldest_open_txn_ts=self.dice.choice((None, START_MS)))  # fmt: skip
            self._add("log_problems", log_dir=f"log-{number % 9}", severity=self.dice.choice(("problem", "info")), pos=number,
                      kind="bad_crc", segment_base=number, from_offset=number, to_offset=self.dice.choice((None, number + 1)), detail="d")  # fmt: skip
            self._add(
                "unknown_records", key_version=self.dice.randrange(20, 23), reason=self.dice.choice(("new", "torn"))
            )


class Spans:
    """From when to when each partition had an owner."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int, int | None, str]] = []

    def change(self, at: int, owners: dict[tuple[str, int], str]) -> None:
        """Take over the owners from a moment on."""
        lasting = {(topic, n): owner for topic, n, _, to, owner in self.rows if to is None}
        self.rows = [
            (topic, n, since, at if to is None and owners.get((topic, n)) != owner else to, owner)
            for topic, n, since, to, owner in self.rows
        ]
        self.rows += [(*place, at, None, owner) for place, owner in owners.items() if lasting.get(place) != owner]
