"""What is read of batches as they come, of any kind and in any state, is what a plain reading of their records finds."""

from collections import defaultdict
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.core import record_types as types
from coordinator.core import records as facts
from pipeline.history import live
from pipeline.history.activity import read_histories
from pipeline.history.live import MemberName, Replay
from pipeline.history.records import Rebalance
from pipeline.history.values import to_json_value
from pipeline.synth import commit, fact
from protocol import record_batch
from protocol.messages import consumer_protocol as embedded
from protocol.records import Record

GROUPS = ("shop", "shop-2", "größe", "")
Row = dict[str, Any]
RECORDS = st.tuples(
    st.sampled_from(["commit", "commit", "commit", "delete offset", "generation", "generation", "delete group", "member",
                     "epoch", "unknown", "damaged", "short", "no key"]),
    st.sampled_from(GROUPS), st.integers(0, 3),
)  # fmt: skip
BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["plain", "plain", "plain", "transactional", "control", "unreadable"]),
        st.lists(RECORDS, min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=8,
)


class Written:
    """Batches, and what their records say to one who reads from an offset on and wants some groups."""

    def __init__(self, from_offset: int, wanted: frozenset[str] | None) -> None:
        self.from_offset, self.wanted = from_offset, wanted
        self.data, self.offset, self.at = b"", 0, 1_000_000
        self.unread = 0
        self.least_ms = 0  # between two records
        self.records, self.commits = list[Row](), list[Row]()
        self.names: dict[str, dict[str, MemberName]] = defaultdict(dict)
        self.last_commits: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self._generations = defaultdict[str, int](int)

    def append(self, kind: str, said: list[tuple[str, str, int]]) -> None:
        base, found = self.offset, list[Record]()
        for what, group, number in said:
            self.at += max(1000 * number, self.least_ms)
            is_read = kind in ("plain", "transactional") and self.offset >= self.from_offset
            is_read = is_read and (self.wanted is None or group in self.wanted)
            found.append(self._write(what, group, number, is_read=is_read, is_txn=kind == "transactional"))
            self.offset += 1
        batch = record_batch.encode(
            found, base_offset=base, producer_id=7 if kind in ("transactional", "control") else -1,
            transactional=kind in ("transactional", "control"), control=kind == "control",
        )  # fmt: skip
        if kind == "unreadable":
            header = record_batch.header_at(batch)
            batch = record_batch.seal(header, batch[record_batch.HEADER_BYTES : -1])
            self.unread += self.offset > self.from_offset
        self.data += batch

    def _write(self, what: str, group: str, number: int, *, is_read: bool, is_txn: bool) -> Record:
        place = group, "ü" if number % 2 else "t", number
        if what in ("commit", "delete offset"):
            if is_read:
                self.commits.append({
                    "group": group, "topic": place[1], "partition": number, "log_offset": self.offset,
                    "record_ts": self.at, "is_txn": is_txn, "is_tombstone": what == "delete offset",
                })  # fmt: skip
            if what == "commit" and is_read:
                self.last_commits[group][place[1:]] = self.at
            return commit(place, number if what == "commit" else None, self.at)
        if what in ("no key", "short"):
            self.unread += is_read and what == "short" and self.wanted is None
            return Record(b"\x00" if what == "short" else None, b"\x00\x03", timestamp=self.at)
        if what in ("unknown", "damaged"):
            number, rest = {"unknown": (999, b""), "damaged": (1, b"\x00\x09t")}[what]
            name = group.encode()
            raw = number.to_bytes(2, "big") + len(name).to_bytes(2, "big") + name + rest
            self.unread += is_read and what == "damaged"
            return Record(raw, b"\x00\x03", timestamp=self.at)
        version, key, value, member = self._group_record(what, group, number)
        if is_read:
            epoch = None if value is None else getattr(value, "generation", getattr(value, "epoch", None))
            payload = msgspec.json.encode(to_json_value(facts.Record(key, value))).decode()
            self.records.append({
                "group": group, "log_offset": self.offset, "record_ts": self.at, "key_version": version,
                "member_id": member, "epoch": epoch, "is_tombstone": value is None, "payload": payload,
            })  # fmt: skip
            for one in getattr(value, "members", ()):
                self.names[group][one.member_id] = MemberName(one.client_id, one.group_instance_id, "h")
            if member is not None:
                self.names[group][member] = MemberName(f"c{number}", None, "10.0.0.1")
        return fact(key, value, self.at)

    def _group_record(self, what: str, group: str, number: int) -> tuple[int, Any, Any, str | None]:
        if what == "delete group":
            return 2, types.GroupMetadataKey(group), None, None
        if what == "epoch":
            self._generations[group] += 1
            epoch = types.ConsumerGroupMetadataValue(self._generations[group], 7)
            return 3, types.ConsumerGroupMetadataKey(group), epoch, None
        if what == "member":
            name, said = (
                f"new-{number}",
                types.ConsumerGroupMemberMetadataValue(client_id=f"c{number}", client_host="/10.0.0.1"),
            )
            return 5, types.ConsumerGroupMemberMetadataKey(group, name), said, name
        self._generations[group] += 1
        topics = tuple(embedded.ConsumerProtocolAssignmentTopicPartition("t", (n,)) for n in range(number))
        member = types.GroupMetadataValueMember(
            f"m{number}", f"i{number}" if number == 2 else None, f"c{self.offset}", "/h", 300_000, 45_000,
            embedded.write(embedded.ConsumerProtocolSubscription(("t",)), 1),
            embedded.write(embedded.ConsumerProtocolAssignment(topics), 0),
        )  # fmt: skip
        members = (member,) if number else ()
        value = types.GroupMetadataValue("consumer", self._generations[group], "range", None, self.at, members)
        return 2, types.GroupMetadataKey(group), value, None


@settings(max_examples=150)
@given(
    said=BATCHES,
    from_batch=st.integers(0, 7),
    further=st.integers(0, 3),
    wanted=st.none() | st.frozensets(st.sampled_from(GROUPS)),
    one_by_one=st.booleans(),
    settles=st.booleans(),
)
@example(
    said=[("unreadable", [("commit", "shop", 1)]), ("plain", [("commit", "shop", 1)])],
    from_batch=1,
    further=0,
    wanted=None,
    one_by_one=False,
    settles=False,
)
@example(
    said=[("plain", [(what, "shop", 1)]) for what in ("generation", "delete group", "epoch")],
    from_batch=0,
    further=0,
    wanted=None,
    one_by_one=True,
    settles=True,
)
@example(  # a partition that moves has a commit from before the first record, and another one was deleted since
    said=[
        ("plain", [("commit", "shop", 0), ("generation", "shop", 1), ("delete offset", "shop", 0)]),
        ("plain", [("generation", "shop", 3), ("delete offset", "shop", 0), ("commit", "shop", 0)]),
    ],
    from_batch=0,
    further=0,
    wanted=None,
    one_by_one=False,
    settles=False,
)
def test_batches_of_every_kind(
    said: list[tuple[str, list[tuple[str, str, int]]]],
    from_batch: int,
    further: int,
    wanted: frozenset[str] | None,
    one_by_one: bool,
    settles: bool,
) -> None:
    """Read from the beginning of a batch on, or from a record behind it; `settles` after each, while others come."""
    from_offset = sum(len(records) for _, records in said[: from_batch % len(said)]) + max(0, further - 1)
    written = Written(from_offset, wanted)
    written.least_ms = int(settles)  # what happens in the same moment may come in several batches
    for kind, records in said:
        written.append(kind, records)
    written.append("plain", [("generation", group, 1) for group in GROUPS])  # which tells how long commits were missing
    replay, data = Replay(wanted), written.data
    pieces = [data[at : at + header.size] for at, header in record_batch.batches(data)] if one_by_one else [data]
    found: list[Rebalance] = []
    for piece in pieces:
        found += replay.apply(piece, from_offset)
        found += replay.settle(is_idle=False) if settles else ()
    found += replay.settle()
    expected = [one for one in read_histories(written.records, written.commits) if isinstance(one, Rebalance)]
    assert sorted(map(msgspec.structs.astuple, found), key=str) == sorted(
        map(msgspec.structs.astuple, expected), key=str
    )
    assert replay.unread == written.unread
    commits = [row for row in written.commits if not row["is_tombstone"]]
    assert replay.groups.keys() == {row["group"] for row in (*written.records, *commits)}
    for group in GROUPS:
        last = written.last_commits[group]
        places = [(topic, number) for topic in ("t", "ü") for number in range(4)]
        assert [replay.last_commit_ms(group, [place]) for place in places] == [last.get(place) for place in places]
        assert replay.last_commit_ms(group, places) == max(last.values(), default=None)
        names = written.names[group]
        assert {name: replay.name(group, name) for name in names} == names
        assert replay.name(group, "nobody") == MemberName()


def test_of_too_many_names_those_that_came_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "NAMES_MAX", 2)
    replay = Replay()
    for number in (1, 2, 1, 3):
        said = types.ConsumerGroupMemberMetadataValue(client_id=f"c{number}")
        record = fact(types.ConsumerGroupMemberMetadataKey("g", f"m{number}"), said, 0)
        assert list(replay.apply(record_batch.encode([record]))) == []
    assert list(replay.groups["g"].names) == ["m2", "m3"]


def test_commits_in_transactions_renew_no_session() -> None:
    """So of a member that made no others it is not certain that it has left."""
    causes = []
    for is_txn in (False, True):
        written = Written(0, None)
        written.append("plain", [("generation", "shop", 1)])
        for _ in range(16):
            written.at += 3000
            written.append("transactional" if is_txn else "plain", [("commit", "shop", 0)])
        written.append("plain", [("generation", "shop", 2)])
        found = list(Replay().apply(written.data))
        assert [one.causes for one in found[:1]] == [["join"]]
        causes.append(found[1].causes)
    assert causes == [["leave", "join"], ["leave_or_timeout", "join"]]


def test_a_subscription_is_the_same_in_any_order_and_whatever_is_owned() -> None:
    """Other topics, or another rack, are another one."""

    def read(topics: tuple[str, ...], owned: tuple[int, ...] = (), rack: str | None = None) -> str:
        own = (embedded.ConsumerProtocolSubscriptionTopicPartition("t", owned),) if owned else ()
        said = embedded.write(embedded.ConsumerProtocolSubscription(topics, owned_partitions=own, rack_id=rack), 3)
        member = types.GroupMetadataValueMember("m", None, "c", "/h", 1, 2, said, b"")
        value = to_json_value(facts.Record(types.GroupMetadataKey("g"), types.GroupMetadataValue(members=(member,))))
        found: str = value["members"][0]["subscription"]
        return found

    same = [read(("t", "u")), read(("u", "t")), read(("t", "u"), (0, 1)), read(("u", "t"), (2,))]
    others = [read(("t",)), read(("t", "u", "v")), read(("t", "u"), rack="r"), read(("t", "u"), rack="s")]
    assert len(set(same)) == 1
    assert len({*same, *others}) == 1 + len(others)
