"""The names of share partitions by which their coordinator is found: `group:topic id:partition`."""

import base64
import binascii
import re
from typing import Final

from coordinator.core.share_state.values import StateKey

_PARTITION: Final = re.compile(r"[-+]?[0-9]{1,10}", re.ASCII)
_ID_BYTES: Final = 16


def coordinator_key(key: StateKey) -> str:
    """Return the name of a share partition. Kafka: `SharePartitionKey.asCoordinatorKey`."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def read_coordinator_key(name: str) -> StateKey | None:
    """Return the share partition of a name, None for a text that names none. A group's id may have colons."""
    group_id, _, rest = name.rstrip(":").rpartition(":")  # Java's split ignores what is empty at the end
    group_id, _, topic_id = group_id.rpartition(":")
    if "+" in topic_id or "/" in topic_id:  # the other alphabet, which b64decode takes as well
        return None
    if not group_id.strip() or not _PARTITION.fullmatch(rest) or not -(2**31) <= int(rest) < 2**31:
        return None
    try:
        raw = base64.b64decode(topic_id + "=" * (-len(topic_id) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return StateKey(group_id, raw, int(rest)) if len(raw) == _ID_BYTES else None
