"""Values for a message of Kafka's, made from its message file: JSON with comments, as it lies in the kafka-clients jar."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from pathlib import Path
from typing import Any

NUMBERS = {
    "int8": 2**7 - 2,
    "int16": 2**15 - 2,
    "uint16": 2**16 - 2,
    "float64": 2.0**31,
    "int32": 2**31 - 2,
    "int64": 2**63 - 2,
}
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')


def span(text: str | None, highest: int) -> range:
    """Kafka's `3+`, `0-7`, `4` or `none`."""
    if text is None or text == "none":
        return range(0)
    lowest, _, last = text.rstrip("+").partition("-")
    return range(int(lowest), (highest if text.endswith("+") else int(last or lowest)) + 1)


def read_cases(path: Path) -> list[dict[str, Any]]:
    """What the serializer wrote, a line for each message: {"message", "version", "frame", "values"}."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class MessageFile:
    """One message file: which versions there are, and values for them by Kafka's names."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.name: str = facts["name"]
        self.versions = span(facts["validVersions"], 0)
        self._fields: list[dict[str, Any]] = facts["fields"]
        self._common = {struct["name"]: struct["fields"] for struct in facts.get("commonStructs", [])}

    @classmethod
    def load(cls, jar: Path, name: str) -> MessageFile | None:
        """The file of a message, or None where the jar has none."""
        with zipfile.ZipFile(jar) as files:
            try:
                text = files.read(f"common/message/{name}.json").decode()
            except KeyError:
                return None
        return cls(json.loads(COMMENT.sub(lambda match: match[1] or "", text)))

    def full(self, version: int) -> dict[str, Any]:
        """Something in every field; no two numbers of a message are alike, so that a swap of two fields shows."""
        return _Maker(self._common, version).struct(self._fields)

    def empty(self, version: int) -> dict[str, Any]:
        """Null where the version allows it; zero, false, or nothing else. Tagged fields are left out."""
        fields = [field for field in self._fields if version in span(field["versions"], version)]
        return {key(field): self._nothing(field, version) for field in fields if "tag" not in field}

    def _nothing(self, field: dict[str, Any], version: int) -> Any:
        kind = field["type"]
        if version in span(field.get("nullableVersions"), version):
            return None
        if kind.startswith("[]"):
            return []
        return {"string": "", "bytes": "", "records": "", "bool": False, "uuid": uuid(0)}.get(kind, 0)


class _Maker:
    """The values of one message; every number it gives out is another."""

    def __init__(self, common: dict[str, Any], version: int) -> None:
        self._common = common
        self._version = version
        self._made = 0

    def struct(self, fields: list[dict[str, Any]]) -> dict[str, Any]:
        present = [field for field in fields if self._version in span(field["versions"], self._version)]
        return {key(field): self._value(field["type"], field) for field in present}

    def _value(self, kind: str, field: dict[str, Any]) -> Any:
        if kind.startswith("[]"):
            return [self._value(kind[2:], field)]
        if kind[0].isupper():
            return self.struct(field.get("fields") or self._common[kind])
        self._made += 1
        if kind in NUMBERS:
            return NUMBERS[kind] - self._made
        match kind:
            case "string":
                return f"é{self._made}"
            case "bool":
                return True
            case "uuid":
                return uuid(self._made)
        return base64.b64encode(bytes((self._made, 255))).decode()  # bytes, records


def key(field: dict[str, Any]) -> str:
    """A field's name as Kafka's JSON has it."""
    name: str = field["name"]
    return name[0].lower() + name[1:]


def uuid(number: int) -> str:
    """A UUID as Kafka writes it in text."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
