"""Durations in the form of ISO 8601, as Java's `Duration.parse` reads them: days, hours, minutes and seconds."""

import re
from typing import Final

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]{1,18})D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?[0-9]{1,18})H)?(?:(?P<minutes>[-+]?[0-9]{1,18})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,18})(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_duration_ms(text: str) -> int | None:
    """Return the duration in milliseconds, rounded down; None for a text that is no duration."""
    match = _DURATION.fullmatch(text)
    if match is None or match["time"] in ("T", "t") or not any(match[unit] for unit in _MS):
        return None
    ms = sum(int(match[unit] or 0) * each for unit, each in _MS.items())
    fraction_ms = int(((match["fraction"] or "") + "000")[:3])
    ms += -fraction_ms if (match["seconds"] or "").startswith("-") else fraction_ms
    return -ms if match["sign"] == "-" else ms
