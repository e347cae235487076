"""Batches and records of a segment as plain values, to be printed. Not a subcommand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from coordinator.core import records
from coordinator.core.catalog import records as catalog_records
from coordinator.core.catalog.names import CATALOG_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.share_state import records as state_records
from protocol import record_batch
from protocol.compression import Compression, Meter
from protocol.errors import ProtocolError
from protocol.record_batch import BatchHeader
from protocol.records import Record, read_end_marker
from storage.layout import DamagedLog
from storage.names import partition_of
from storage.real_files import RealFiles
from storage.segment import BadBatch, walk

Decode = Callable[[bytes, bytes | None], Any]
FACTS: Final[dict[str, Decode]] = {
    OFFSETS_TOPIC: records.decode,
    CATALOG_TOPIC: catalog_records.decode,
    SHARE_STATE_TOPIC: state_records.decode,
}


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a dict for each batch, and behind it one for each of its records.

    Raises `DamagedLog` where batches end too early, and for a batch whose records cannot be read.
    """
    partition = partition_of(path.resolve().parent.name)
    decode = None if partition is None else FACTS.get(partition[0])
    expected = None
    file = RealFiles().open(str(path), readonly=True)
    try:
        for found in walk(file):
            header = found.header
            yield _batch(header, found.position)
            try:
                for record in record_batch.read(found.chunk, found.at, header, Meter()):
                    yield {"offset": record.offset, "timestamp": record.timestamp, **_facts(header, record, decode)}
            except ProtocolError as error:
                raise DamagedLog(str(path), found.position, f"offset {header.base_offset}: {error}") from error
            expected = header.next_offset
    except BadBatch as bad:
        raise DamagedLog(str(path), bad.position, bad.reason, expected) from bad
    finally:
        file.close()


def describe_record(topic: str, record: Record) -> dict[str, Any] | None:
    """Return the type, key and value of a record of one of the coordinator's own topics, None for any other."""
    decode = FACTS.get(topic)
    if decode is None or record.key is None:
        return None
    return _decode(record, record.key, decode)


def _batch(header: BatchHeader, position: int) -> dict[str, Any]:
    line: dict[str, Any] = {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "size": header.size,
        "crc32c": f"{header.crc:08x}",
        "leader_epoch": header.leader_epoch,
        "compression": _name_compression(header.compression),
    }
    if header.producer_id >= 0:
        line |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
        }
    if header.delete_horizon_ms is not None:
        line["delete_horizon_ms"] = header.delete_horizon_ms
    return line


def _name_compression(codec: int) -> str:
    """Return the name of a codec; its number where there is none, as in a batch that is damaged or newer."""
    try:
        return Compression(codec).name.lower()
    except ValueError:
        return f"unknown ({codec})"


def _facts(header: BatchHeader, record: Record, decode: Decode | None) -> dict[str, Any]:
    if header.is_control:
        marker = read_end_marker(record)
        if marker is not None:
            value = {"coordinator_epoch": marker.coordinator_epoch}
            return {"key": "commit" if marker.commits else "abort", "value": value}
    elif decode is not None and record.key is not None:
        return _decode(record, record.key, decode)
    line: dict[str, Any] = {"key": _bytes(record.key), "value": _bytes(record.value)}
    return line | ({"headers": [[name, _bytes(value)] for name, value in record.headers]} if record.headers else {})


def _decode(record: Record, key: bytes, decode: Decode) -> dict[str, Any]:
    try:
        fact = decode(key, record.value)
    except ProtocolError as error:
        return {"key": key.hex(), "value": record.value and record.value.hex(), "unreadable": str(error)}
    return {
        "type": type(fact.key).__name__.removesuffix("Key"),
        "key": _plain(fact.key),
        "value": _plain(fact.value),
    }


def _plain(value: Any) -> Any:
    """Structs as dicts, with bytes that are text as text and others in hexadecimal digits."""
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, msgspec.Struct):
        return {name: _plain(inside) for name, inside in msgspec.structs.asdict(value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inside) for inside in value]
    return value


def _bytes(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex()
    return text if text.isprintable() else value.hex()
