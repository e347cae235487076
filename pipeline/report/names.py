"""Short names for members, such as `till-3` for `till-3-3f0c5b0e-...`."""

import re
from collections.abc import Iterable

_UUID = re.compile(r"[-_]?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)
_NUMBER = re.compile(r"[-_][0-9a-zA-Z]{20,}$")  # ids that are no UUIDs
LONGEST = 24


def short_names(members: Iterable[tuple[str, str | None, str | None]]) -> dict[str, str]:
    """Return a unique name for each member, given (member id, instance id, client id): `app`, `app (2)`.

    The name is the instance id, else the member id without its random end, else the client id with the first characters
    of the member id.
    """
    names: dict[str, str] = {}
    used: dict[str, int] = {}
    for member, instance, client in members:
        if member in names:
            continue
        name = instance or _NUMBER.sub("", _UUID.sub("", member)) or f"{client or 'member'} {member[:4]}"
        name = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        used[name] = used.get(name, 0) + 1
        names[member] = name if used[name] == 1 else f"{name} ({used[name]})"
    return names


def shorten(text: str, names: dict[str, str]) -> str:
    """Return the text with every full id replaced by its short name."""
    for member in sorted(names, key=len, reverse=True):
        text = text.replace(member, names[member])
    return text
