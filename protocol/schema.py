"""A message's fields, each with the versions that have it: Kafka's JSON in Python.

    REQUEST = Schema(HeartbeatRequest, (
        Field("group_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=3),   # KIP-345
    ))

`REQUEST.at(version, flexible)` is the construct of one version: made at its first use, then kept.
"""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec
from construct import Construct

from protocol.structs import StructOf, TaggedField, TagSection
from protocol.wire import Nullable, Type


@dataclass_transform(frozen_default=True)  # for mypy: subclasses are frozen without saying so
class Message(msgspec.Struct, frozen=True, gc=False):
    """A frozen message. Every field of a subclass has a default, which it keeps where a version lacks the field.

    `gc=False`: messages hold scalars, strings and tuples of messages, so they can never be part of a cycle.
    """


class Field(msgspec.Struct, frozen=True):
    """One field: present from version `since` to version `until`, and null allowed from `nullable_since` on.

    A `tag` makes it a tagged field: written only where it differs from its default.
    """

    name: str
    type: Type
    since: int = 0
    until: int | None = None
    tag: int | None = None
    nullable_since: int | None = None

    def is_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def at(self, version: int, flexible: bool) -> Construct:
        """Return the field's construct in a version that has it."""
        kind: Any = self.type
        if self.nullable_since is not None and version >= self.nullable_since:
            kind = Nullable(kind) if isinstance(kind, Schema) else kind.or_null
        if self.tag is not None and isinstance(kind, Nullable):
            kind = kind.as_tagged
        return kind.at(version, flexible)


class Schema:
    """How a message class lies on the wire, in all its versions."""

    def __init__(self, cls: type[Message], fields: tuple[Field, ...]) -> None:
        self.cls = cls
        self.fields = fields
        self._constructs: dict[tuple[int, bool], StructOf] = {}

    def at(self, version: int, flexible: bool) -> StructOf:
        """Return the construct of one version. `flexible`: lengths are varints, and tagged fields end each struct."""
        key = (version, flexible)
        if key not in self._constructs:
            self._constructs[key] = StructOf(self.cls, self._members(version, flexible))
        return self._constructs[key]

    def _members(self, version: int, flexible: bool) -> list[tuple[str, Construct]]:
        names, defaults = self.cls.__struct_fields__, self.cls.__struct_defaults__
        assert len(names) == len(defaults), f"each field of {self.cls.__name__} has a default"
        default = dict(zip(names, defaults, strict=True))
        present = [field for field in self.fields if field.is_in(version)]
        members = [(field.name, field.at(version, flexible)) for field in present if field.tag is None]
        if flexible:
            tagged = [
                TaggedField(field.tag, field.name, field.at(version, flexible), default[field.name])
                for field in present
                if field.tag is not None
            ]
            members.append(("", TagSection(tagged)))
        return members
