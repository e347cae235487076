"""Pictures as inline SVG: bands of lines and lanes over one time axis, and bars. All text passes `safe`.

Each picture is drawn twice, for wide screens and for those of a telephone, and the page's style shows one of them: text
that shrinks with the picture cannot be read, and a picture that must be scrolled hides what happened last. Colours of
text and lines are classes, so that the page's style gives them for light and for dark.
"""

import html
import time
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

ROW, AXIS = 18, 34
INK = ("#4878c0", "#d1703d", "#4f9d69", "#9a6fc0", "#c29a20", "#4f9a9b", "#c0587b", "#808080")


class Canvas(msgspec.Struct, frozen=True):
    """The width of a picture, and the margins at its sides: names stand in the left one. Units are about pixels."""

    kind: str
    width: int
    left: int
    label: int  # what the text behind the longest bar takes
    name: int  # longest name of a lane, in characters
    ticks: int  # at most so many along the time axis
    right: int = 14

    def x(self, at: float, span: tuple[int, int]) -> float:
        """Return where a moment lies."""
        first, last = span
        inner = self.width - self.left - self.right
        return self.left + inner * ((at - first) / (last - first) if last > first else 0.5)


WIDE, NARROW = Canvas("wide", 960, 150, 260, 24, 8), Canvas("narrow", 400, 92, 130, 14, 3)


class Line(msgspec.Struct, frozen=True):
    """Points (ms, value) under a name."""

    name: str
    points: Sequence[tuple[int, float]]
    colour: str
    is_bold: bool = False


class Lines(msgspec.Struct, frozen=True):
    """A band of lines from zero up; `unit` stands behind the title."""

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
    """Escape text for HTML. Control characters, and those that turn the direction of writing, become their number."""
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
    return "".join(_timeline(canvas, bands, marks, span) for canvas in (WIDE, NARROW))


def _timeline(canvas: Canvas, bands: Sequence[Lines | Lanes], marks: Sequence[Mark], span: tuple[int, int]) -> str:
    y, parts, titles = 0.0, [], []
    if marks:
        titles.append('<text x="0" y="13" class="band">Rebalances</text>')
        y = 26
    for band in bands:
        titles.append(f'<text x="0" y="{y + 13:.0f}" class="band">{safe(_title(band), 80)}</text>')
        y += 24
        drawn, height = _lines(canvas, band, y, span) if isinstance(band, Lines) else _lanes(canvas, band, y, span)
        parts += drawn
        y += height + 10
    through = [_mark(mark, canvas.x(mark.at, span), y) for mark in marks]
    return _svg(canvas, y + AXIS, [*_axis(canvas, span, y), *parts, *through, *titles])


def _mark(mark: Mark, x: float, bottom: float) -> str:
    return (
        f'<g><line x1="{x:.1f}" x2="{x:.1f}" y1="12" y2="{bottom:.0f}" stroke="{mark.colour}" class="mark"/>'
        f'<circle cx="{x:.1f}" cy="9" r="5" fill="{mark.colour}"/><title>{safe(mark.tip, 400)}</title></g>'
    )


def _title(band: Lines | Lanes) -> str:
    return f"{band.title} ({band.unit})" if isinstance(band, Lines) else band.title


def _lines(canvas: Canvas, band: Lines, top: float, span: tuple[int, int]) -> tuple[list[str], float]:
    most = _round_up(max((value for line in band.lines for _, value in line.points), default=0) or 1)
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = top + band.height * (1 - share)
        parts.append(
            f'<line x1="{canvas.left}" x2="{canvas.width - canvas.right}" y1="{y:.0f}" y2="{y:.0f}" class="lane"/>'
        )
        parts.append(f'<text x="{canvas.left - 8}" y="{y + 4:.0f}" class="name">{number(most * share)}</text>')
    for line in band.lines:
        path = " ".join(
            f"{canvas.x(at, span):.1f},{top + band.height * (1 - value / most):.1f}"
            for at, value in sorted(line.points)
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


def _lanes(canvas: Canvas, band: Lanes, top: float, span: tuple[int, int]) -> tuple[list[str], float]:
    parts = []
    for i, (name, full, bars) in enumerate(band.lanes):
        y = top + i * ROW + ROW / 2
        parts.append(_name(canvas, y + 4, name, full))
        parts.append(
            f'<line x1="{canvas.left}" x2="{canvas.width - canvas.right}" y1="{y:.0f}" y2="{y:.0f}" class="lane"/>'
        )
        for bar in bars:
            x, end = canvas.x(bar.start, span), canvas.x(bar.end, span)
            parts.append(
                f'<rect x="{x:.1f}" y="{y - 6:.0f}" width="{max(end - x, 2):.1f}" height="12" rx="2" '
                f'fill="{bar.colour}"><title>{safe(bar.tip, 400)}</title></rect>'
            )
    return parts, ROW * len(band.lanes)


def _name(canvas: Canvas, y: float, name: str, full: str) -> str:
    """Return the name of a lane or a bar, left of it; the full one is shown when it is pointed at."""
    shown = f"{safe(name, canvas.name)}<title>{safe(full)}</title>"
    return f'<text x="{canvas.left - 8}" y="{y:.0f}" class="name">{shown}</text>'


def bars(rows: Iterable[tuple[str, str, float, str, str]], most: float | None = None) -> str:
    """Return a bar for each (name, full name, value, what it says, colour)."""
    given = list(rows)
    if not given:
        return '<p class="none">nothing to draw</p>'
    return "".join(_bars(canvas, given, most) for canvas in (WIDE, NARROW))


def _bars(canvas: Canvas, given: Sequence[tuple[str, str, float, str, str]], most: float | None) -> str:
    top = most or max(value for _, _, value, _, _ in given) or 1
    parts = []
    for i, (name, full, value, label, colour) in enumerate(given):
        y = i * 22
        width = (canvas.width - canvas.left - canvas.label) * min(value / top, 1)
        parts.append(_name(canvas, y + 15, name, full))
        parts.append(
            f'<rect x="{canvas.left}" y="{y + 3}" width="{max(width, 1):.1f}" height="15" rx="2" fill="{colour}"/>'
        )
        parts.append(f'<text x="{canvas.left + width + 8:.1f}" y="{y + 15}">{safe(label)}</text>')
    return _svg(canvas, 22 * len(given) + 4, parts)


def legend(colours: dict[str, str]) -> str:
    """Draw the legend of the colours."""
    items = (f'<span><i style="background:{colour}"></i>{safe(name, 60)}</span>' for name, colour in colours.items())
    return f'<p class="legend">{"".join(items)}</p>'


STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200)  # then whole days


def find_ticks(span: tuple[int, int], most: int) -> list[int]:
    """Return round moments (ms) for a time axis, evenly spaced, at most so many; the start if none lies in the span."""
    first, last = span
    length_s = max(last - first, 1) / 1000
    days = 86_400 * -(-length_s // (most * 86_400))
    step = int(1000 * next((step for step in STEPS_S if length_s / step <= most - 1), days))
    return list(range(-(-first // step) * step, last + 1, step))[:most] or [first]


def _axis(canvas: Canvas, span: tuple[int, int], bottom: float) -> list[str]:
    first, last = span
    moments = find_ticks(span, canvas.ticks)
    is_days = len(moments) > 1 and (moments[1] - moments[0]) % 86_400_000 == 0
    ticks = []
    for at in moments:
        x = canvas.x(at, span)
        anchor = "end" if x > canvas.width - 3 * canvas.right else "middle"
        label = clock(at)[5:10] if is_days else clock(at, False)
        ticks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="20" y2="{bottom:.0f}" class="tick"/>')
        ticks.append(f'<text x="{x:.1f}" y="{bottom + 14:.0f}" text-anchor="{anchor}" class="time">{label}</text>')
    days = " to ".join(sorted({clock(first)[:10], clock(last)[:10]}))
    ticks.append(f'<text x="0" y="{bottom + 30:.0f}" class="time">{days}, times in UTC</text>')
    return ticks


def _svg(canvas: Canvas, height: float, parts: Sequence[str]) -> str:
    picture = f'<svg viewBox="0 0 {canvas.width} {height:.0f}" role="img">{"".join(parts)}</svg>'
    return f'<div class="picture {canvas.kind}">{picture}</div>'
