"""Validate the names of topics.

A topic's name becomes the name of a directory, so nothing gets past `reason_invalid` that a file system reads as more
than a name: no separator, no `.` or `..`, nothing longer than a directory entry may be.
"""

from string import ascii_letters, digits
from typing import Final

from coordinator.core.refusal import truncate

OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARE_STATE_TOPIC: Final = "__share_group_state"
CATALOG_TOPIC: Final = "__muster_catalog"  # our own log of topics and transactions; no client sees it

INTERNAL: Final[frozenset[str]] = frozenset({OFFSETS_TOPIC, "__transaction_state", SHARE_STATE_TOPIC})
RESERVED: Final[frozenset[str]] = frozenset({CATALOG_TOPIC, "__cluster_metadata"})

NAME_MAX: Final = 249  # Kafka's: leaves room for `-<partition>` and a suffix in a directory entry of 255
_LEGAL: Final = frozenset(ascii_letters + digits + "._-")


def reason_invalid(name: str) -> str | None:
    """Return why no topic may have that name, in Kafka's words, or None when it may."""
    reason = _reason_invalid(name)
    return reason and truncate(reason)


def _reason_invalid(name: str) -> str | None:
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_MAX}"
    if not _LEGAL.issuperset(name):
        legal = "ASCII alphanumerics, '.', '_' and '-'"
        return f"Topic name is invalid: '{name}' contains one or more characters other than {legal}"
    return None


def metric_name(name: str) -> str:
    """Return the name as Kafka's metrics spell it. A topic that would share it with another is refused."""
    return name.replace(".", "_")
