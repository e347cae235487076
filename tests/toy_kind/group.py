"""A toy group: members visit, and are gone when they have not for a while. Its one record has all of it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.record_types import Record
from coordinator.core.table import Table
from protocol.schema import Field, Message, Schema
from protocol.wire import INT32, STRING, Array

STAY_MS = 60_000
RECORD_TYPE = 990


class State(StrEnum):
    EMPTY = "Empty"
    PLAYING = "Playing"  # somebody is there


class ToyKey(Message):
    group_id: str = ""


class ToyValue(Message):
    visits: int = 0
    guests: tuple[str, ...] = ()


KEY = Schema(ToyKey, (Field("group_id", STRING),))
VALUE = Schema(ToyValue, (Field("visits", INT32), Field("guests", Array(STRING))))


class Guest(Struct, frozen=True, gc=False):
    member_id: str

    @property
    def client_id(self) -> str:
        return self.member_id

    @property
    def instance_id(self) -> None:
        return None


class ToyGroup(Struct, frozen=True):
    group_id: str
    visits: int = 0
    members: Table[str, Any] = Table()
    departed: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        return State.PLAYING if self.members else State.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def with_guest(self, member_id: str) -> "ToyGroup":
        members = self.members.with_item(member_id, Guest(member_id))
        return replace(self, visits=self.visits + 1, members=members)

    def without_guests(self, *member_ids: str) -> "ToyGroup":
        left = {key: guest for key, guest in self.members.items() if key not in member_ids}
        return replace(self, members=Table(left), departed=member_ids)


def record(group: ToyGroup) -> Record:
    return Record(ToyKey(group.group_id), ToyValue(group.visits, tuple(group.members)))


def tombstones(group: ToyGroup) -> tuple[Record, ...]:
    return (Record(ToyKey(group.group_id), None),)


def apply_record(group: ToyGroup | None, record: Record) -> ToyGroup | None:
    key, value = record.key, record.value
    assert isinstance(key, ToyKey)
    if value is None:
        return None
    assert isinstance(value, ToyValue)
    members = {member_id: Guest(member_id) for member_id in value.guests}
    return ToyGroup(key.group_id, value.visits, Table(members))
