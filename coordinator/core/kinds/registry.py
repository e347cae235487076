"""Look up kinds of groups: by name, by a group, by a record's key. `core/dispatch.py` registers them."""

from collections.abc import Callable
from typing import Any, Final

from coordinator.core.kinds.kind import DEAD, Group, Kind
from coordinator.core.timers import EFFECTS, EXPIRY

KINDS: Final[dict[str, Kind]] = {}  # by name, in the order in which they are listed
BY_CLASS: Final[dict[type, Kind]] = {}
BY_KEY: Final[dict[type, Kind]] = {}  # by the type of a record's key
TIMER_EFFECTS: Final[dict[str, str]] = {}  # what timers do, in words, by their names
GROWING: Final[dict[type, Callable[[Any, Any], bool]]] = {}  # `Kind.grows`, by the type of the request
LONG_TIMERS: Final[set[str]] = {EXPIRY[0]}  # the timers whose work takes many steps


def kind_of(group: Group) -> Kind:
    """Return the kind of a group."""
    return BY_CLASS[type(group)]


def counts_by(kind: str) -> str:
    """Return what groups of a kind count: generations, or epochs as all newer ones do."""
    return KINDS[kind].counts_by if kind in KINDS else "epoch"


def is_settled(kind: str, state: str) -> bool:
    """Return whether nothing is under way in a group of that kind and state; a group that is gone is at rest."""
    return state == DEAD or kind not in KINDS or state in KINDS[kind].settled


def seen_states() -> tuple[str, ...]:
    """Return the states in which a group of any kind can be seen, each once."""
    return tuple(dict.fromkeys(state for kind in KINDS.values() for state in kind.seen_states))


def new_group(group_id: str) -> Any:
    """Return the group that a committed offset makes exist: empty, of the kind that has such groups."""
    make = next(kind.of_offsets for kind in KINDS.values() if kind.of_offsets is not None)
    return make(group_id)


def index() -> None:
    """Make the look-ups anew, after `KINDS` has changed."""
    for table in (BY_CLASS, BY_KEY, GROWING, TIMER_EFFECTS, LONG_TIMERS):
        table.clear()
    LONG_TIMERS.add(EXPIRY[0])
    TIMER_EFFECTS.update(EFFECTS)
    for kind in KINDS.values():
        BY_CLASS[kind.cls] = kind
        BY_KEY.update(dict.fromkeys(kind.keys, kind))
        LONG_TIMERS.update(kind.long_timers)
        TIMER_EFFECTS.update(kind.timer_effects)
        GROWING.update(kind.grows)
