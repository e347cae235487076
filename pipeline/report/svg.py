"""Pictures as inline SVG: bands of lines and lanes over one time axis, and bars. All text passes `safe`.

Colours of text and lines are classes, so that the page's style gives them for light and for dark.
"""

import html
import time
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

WIDTH, LEFT, RIGHT, ROW, AXIS = 960, 150, 14, 18, 34
INK = ("#4878c0", "#d1703d", "#4f9d69", "#9a6fc0", "#c29a20", "#4f9a9b", "#c0587b", "#808080")


class Line(msgspec.Struct, frozen=True):
    """Points (ms, value) under a name."""

    name: str
    points: Sequence[tuple[int, float]]
    colour: str
    is_bold: bool = False


class Lines(msgspec.Struct, frozen=True):
    """A band of lines from zero up, with its unit."""

    title: str
    unit: str
    lines: Sequence[Line]
    height: int = 96


class Bar(msgspec.Struct, frozen=True):
    """Something that lasted from `start` to `end` (ms)."""

    start: int
    end: int
    colour: str
    tip: str


class Lanes(msgspec.Struct, frozen=True):
    """A band of named lanes with bars; a lane is (name, full name, bars)."""

    title: str
    lanes: Sequence[tuple[str, str, Sequence[Bar]]]


class Mark(msgspec.Struct, frozen=True):
    """A moment that is drawn through all bands."""

    at: int
    colour: str
    tip: str


def safe(text: object, longest: int = 200) -> str:
    """Text for HTML. Control characters, and those that turn the direction of writing, are shown by their number."""
    shown = "".join(
        f"\\u{ord(char):04x}" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") else char
        for char in str(text)[: longest + 1]
    )
    cut = shown if len(str(text)) <= longest else f"{shown[:longest]}…"
    return html.escape(cut, quote=True)


def clock(ms: float, with_date: bool = True) -> str:
    """Return a time as UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S", time.gmtime(ms / 1000))


def number(value: float) -> str:
    """Return a number with few digits: 1.5, 42, 1,200, 3.4 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e5, " k")):
        if abs(value) >= size:
            return f"{value / (1000 if unit == ' k' else size):,.1f}{unit}".replace(".0 ", " ")
    return f"{value:,.1f}".removesuffix(".0") if abs(value) < 100 else f"{value:,.0f}"


def timeline(bands: Sequence[Lines | Lanes], marks: Sequence[Mark], span: tuple[int, int]) -> str:
    """Return the bands one below the other over the same time, the marks through all of them."""
    y, parts, titles = 0.0, [], []
    if marks:
        titles.append('<text x="0" y="13" class="band">Rebalances</text>')
        y = 26
    for band in bands:
        titles.append(f'<text x="0" y="{y + 13:.0f}" class="band">{safe(_title(band), 80)}</text>')
        y += 24
        drawn, height = _lines(band, y, span) if isinstance(band, Lines) else _lanes(band, y, span)
        parts += drawn
        y += height + 10
    through = [
        f'<g><line x1="{_x(m.at, span):.1f}" x2="{_x(m.at, span):.1f}" y1="12" y2="{y:.0f}" stroke="{m.colour}" '
        f'class="mark"/><circle cx="{_x(m.at, span):.1f}" cy="9" r="5" fill="{m.colour}"/>'
        f"<title>{safe(m.tip, 400)}</title></g>"
        for m in marks
    ]
    return _svg(y + AXIS, [*_axis(span, y), *parts, *through, *titles])


def _title(band: Lines | Lanes) -> str:
    return f"{band.title} ({band.unit})" if isinstance(band, Lines) else band.title


def _lines(band: Lines, top: float, span: tuple[int, int]) -> tuple[list[str], float]:
    most = _round_up(max((value for line in band.lines for _, value in line.points), default=0) or 1)
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = top + band.height * (1 - share)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" class="lane"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" class="name">{number(most * share)}</text>')
    for line in band.lines:
        path = " ".join(
            f"{_x(at, span):.1f},{top + band.height * (1 - value / most):.1f}" for at, value in sorted(line.points)
        )
        width = 2.4 if line.is_bold else 1.2
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="{width}">'
            f"<title>{safe(line.name)}</title></polyline>"
        )
    return parts, band.height


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 4, 5, 10, 20, ... so that half of it is a plain number too."""
    power = 10.0 ** (len(str(int(value))) - 1)
    return next(step * power for step in (1, 2, 4, 5, 6, 8, 10, 20) if step * power >= value)


def _lanes(band: Lanes, top: float, span: tuple[int, int]) -> tuple[list[str], float]:
    parts = []
    for i, (name, full, bars) in enumerate(band.lanes):
        y = top + i * ROW + ROW / 2
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.0f}" class="name">{safe(name, 24)}<title>{safe(full)}</title></text>'
        )
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}" class="lane"/>')
        for bar in bars:
            x, end = _x(bar.start, span), _x(bar.end, span)
            parts.append(
                f'<rect x="{x:.1f}" y="{y - 6:.0f}" width="{max(end - x, 2):.1f}" height="12" rx="2" '
                f'fill="{bar.colour}"><title>{safe(bar.tip, 400)}</title></rect>'
            )
    return parts, ROW * len(band.lanes)


def bars(rows: Iterable[tuple[str, str, float, str, str]], most: float | None = None) -> str:
    """Return a bar for each (name, full name, value, what it says, colour)."""
    given = list(rows)
    if not given:
        return '<p class="none">nothing to draw</p>'
    top = most or max(value for _, _, value, _, _ in given) or 1
    parts = []
    for i, (name, full, value, label, colour) in enumerate(given):
        y = i * 22
        width = (WIDTH - LEFT - 260) * min(value / top, 1)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" class="name">{safe(name, 24)}<title>{safe(full)}</title></text>'
        )
        parts.append(f'<rect x="{LEFT}" y="{y + 3}" width="{max(width, 1):.1f}" height="15" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + width + 8:.1f}" y="{y + 15}">{safe(label)}</text>')
    return _svg(22 * len(given) + 4, parts)


def legend(colours: dict[str, str]) -> str:
    """Draw the legend of the colours."""
    items = (f'<span><i style="background:{colour}"></i>{safe(name, 60)}</span>' for name, colour in colours.items())
    return f'<p class="legend">{"".join(items)}</p>'


def _x(at: float, span: tuple[int, int]) -> float:
    first, last = span
    return LEFT + (WIDTH - LEFT - RIGHT) * ((at - first) / (last - first) if last > first else 0.5)


def _axis(span: tuple[int, int], bottom: float) -> list[str]:
    first, last = span
    ticks = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        at = first + (last - first) * share
        x = _x(at, span)
        anchor = "end" if share == 1 else "middle"
        ticks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="20" y2="{bottom:.0f}" class="tick"/>')
        ticks.append(
            f'<text x="{x:.1f}" y="{bottom + 14:.0f}" text-anchor="{anchor}" class="time">{clock(at, False)}</text>'
        )
    days = " to ".join(sorted({clock(first)[:10], clock(last)[:10]}))
    ticks.append(f'<text x="0" y="{bottom + 14:.0f}" class="time">{days} UTC</text>')
    return ticks


def _svg(height: float, parts: Sequence[str]) -> str:
    picture = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
    return f'<div class="picture">{picture}</div>'
