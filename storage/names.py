"""Directory names of partitions: `<topic>-<partition>`, as Kafka has them, and nothing that could leave the data
directory."""

from __future__ import annotations

import re

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)


def partition_directory(topic: str, partition: int) -> str:
    """Return the directory's name. Raises ValueError for a topic that Kafka would not take, whoever has let it come
    this far."""
    if _TOPIC.fullmatch(topic) is None or topic in (".", ".."):
        raise ValueError(f"{topic!r} cannot be a topic's name")
    if not 0 <= partition < 2**31:
        raise ValueError(f"{partition} cannot be a partition's number")
    return f"{topic}-{partition}"


def partition_of(directory: str) -> tuple[str, int] | None:
    """Topic and partition of a directory's name, or None when it is no partition's."""
    match = _PARTITION.fullmatch(directory)
    if match is None or _TOPIC.fullmatch(match[1]) is None or match[1] in (".", "..") or int(match[2]) >= 2**31:
        return None
    return match[1], int(match[2])
