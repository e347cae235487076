"""The rebalances of groups from the batches of `__consumer_offsets` as they come, without the pipeline's tables.

    replay = Replay({"shop"})
    for rebalance in replay.apply(batches):
        rebalance.group, rebalance.causes, replay.name(rebalance.group, member_id)

What it yields is what `pipeline.history.activity.read_histories` finds in the tables, each as soon as it is known.
"""

import struct
from collections.abc import Collection, Iterable, Iterator

import msgspec

from coordinator.core import records as facts
from pipeline.history.activity import activity_of
from pipeline.history.departures import follow
from pipeline.history.group import GroupHistory
from pipeline.history.ownership import Partition
from pipeline.history.records import STEPS, Activity, Rebalance, Record
from pipeline.history.values import epoch_of, group_of, member_of, to_json_value
from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ProtocolError
from protocol.records import Record as RawRecord

NAMES_MAX = 10_000  # of members of a group, those that have left included
_HEAD = struct.Struct(">hh")  # of every key: its type, and the length of the group's id


class MemberName(msgspec.Struct, frozen=True):
    """What a person knows a member by."""

    client_id: str = ""
    instance_id: str | None = None
    host: str = ""


class GroupReplay:
    """One group: its history, its commits since the last step, its members' names."""

    def __init__(self, group: str) -> None:
        self.history = GroupHistory(group, is_live=True)
        self.names: dict[str, MemberName] = {}
        self.last_commits: dict[Partition, int] = {}
        self._commits: dict[Partition, Activity] = {}

    def note_commit(self, topic: str, partition: int, ts: int, *, is_txn: bool) -> None:
        """Note a commit of the group."""
        one, key = activity_of(ts, is_txn=is_txn), (topic, partition)
        self.last_commits[key] = ts
        self._commits[key] = follow(self._commits[key], one) if key in self._commits else one

    def apply(self, record: Record) -> list[Rebalance]:
        """Apply a record, and return the rebalances that are known now."""
        if record.key_version in STEPS:
            for (topic, partition), activity in self._commits.items():
                self.history.observe(topic, partition, activity)
            self._commits = {}
        self._note_names(record)
        for _ in self.history.apply(record):
            pass
        return self.history.take_rebalances()

    def settle(self) -> list[Rebalance]:
        """Return the rebalances that waited for a further record."""
        for _ in self.history.settle():
            pass
        return self.history.take_rebalances()

    def _note_names(self, record: Record) -> None:
        value = record.value()
        if record.member_id and "client_id" in value:
            self._note_name(record.member_id, value, "instance_id")
        for member in value.get("members", ()):
            self._note_name(member["member_id"], member, "group_instance_id")

    def _note_name(self, member_id: str, value: dict[str, object], instance: str) -> None:
        while len(self.names) >= NAMES_MAX and member_id not in self.names:
            del self.names[next(iter(self.names))]
        host = str(value.get("client_host", "")).removeprefix("/")
        found = value.get(instance)
        self.names[member_id] = MemberName(str(value["client_id"]), None if found is None else str(found), host)


class Replay:
    """Many groups, or those that are wanted. The batches of each partition come in order."""

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        self._wanted = None if wanted is None else frozenset(wanted)
        self.groups: dict[str, GroupReplay] = {}
        self.unread = 0  # records and batches that could not be read
        self._to_settle: dict[str, int] = {}  # group -> in which round its last record came
        self._round = 0

    def apply(self, batches: bytes, from_offset: int = 0) -> Iterator[Rebalance]:
        """Apply the records from an offset on, and yield the rebalances that are known now."""
        for at, header in record_batch.batches(batches):
            if header.is_control or header.next_offset <= from_offset:
                continue
            try:
                found = record_batch.read(batches, at, header, Meter())
            except ProtocolError:
                self.unread += 1
                continue
            for record in found:
                if record.offset >= from_offset:
                    yield from self._apply(record, is_txn=header.is_transactional)

    def settle(self, *, is_idle: bool = True) -> Iterator[Rebalance]:
        """Yield the rebalances that waited for a further record, when there is none for now.

        Where others go on to come, those of groups of which none has come since this was last called.
        """
        settling = sorted(group for group, at in self._to_settle.items() if is_idle or at < self._round)
        self._round += 1
        for group in settling:
            del self._to_settle[group]
            yield from self.groups[group].settle()

    def name(self, group: str, member_id: str) -> MemberName:
        """Return what a person knows a member by."""
        return self.groups[group].names.get(member_id, MemberName()) if group in self.groups else MemberName()

    def last_commit_ms(self, group: str, partitions: Iterable[Partition]) -> int | None:
        """Return when any of these partitions was last committed, as far as it was read."""
        known = self.groups[group].last_commits if group in self.groups else {}
        return max((known[one] for one in partitions if one in known), default=None)

    def _apply(self, raw: RawRecord, *, is_txn: bool) -> list[Rebalance]:
        if raw.key is None or not self._is_wanted(raw.key):
            return []
        try:
            record = facts.decode(raw.key, raw.value)
        except ProtocolError:
            self.unread += 1
            return []
        if isinstance(record.key, facts.UnknownKey):
            return []
        if isinstance(record.key, facts.OffsetCommitKey):
            if record.value is not None:
                self._of(record.key.group).note_commit(
                    record.key.topic, record.key.partition, raw.timestamp, is_txn=is_txn
                )
            return []
        group = group_of(record)
        self._to_settle[group] = self._round
        return self._of(group).apply(_row(record, raw))

    def _is_wanted(self, key: bytes) -> bool:
        if self._wanted is None:
            return True
        if len(key) < _HEAD.size:
            return False
        _, length = _HEAD.unpack_from(key)
        return key[_HEAD.size : _HEAD.size + length].decode("utf-8", "replace") in self._wanted

    def _of(self, group: str) -> GroupReplay:
        if group not in self.groups:
            self.groups[group] = GroupReplay(group)
        return self.groups[group]


def _row(record: facts.Record, raw: RawRecord) -> Record:
    assert raw.key is not None, "it was decoded"
    return Record(
        log_offset=raw.offset,
        record_ts=raw.timestamp,
        key_version=int.from_bytes(raw.key[:2], "big"),
        member_id=member_of(record),
        epoch=epoch_of(record),
        is_tombstone=raw.value is None,
        payload=msgspec.json.encode(to_json_value(record)).decode(),
    )
