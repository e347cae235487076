"""Pictures as inline SVG, drawn by hand: lanes of dots, spans, lines and bars. All text passes `safe`."""

import html
import time
import unicodedata
from collections.abc import Sequence

import msgspec

WIDTH, LEFT, ROW, PAD = 960, 210, 20, 26
INK = ("#3b6fb6", "#d1603d", "#4f9d69", "#8a5fa8", "#c9a227", "#5f8a8b", "#b8476b", "#6b6b6b")


class Dot(msgspec.Struct, frozen=True):
    """Something that happened: when (ms), its colour's name, what it says when pointed at."""

    at: int
    kind: str
    tip: str


class Bar(msgspec.Struct, frozen=True):
    """Something that lasted from `start` to `end` (ms)."""

    start: int
    end: int
    kind: str
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
    """A time as UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S", time.gmtime(ms / 1000))


def lanes(rows: Sequence[tuple[str, Sequence[Dot | Bar]]], colours: dict[str, str]) -> str:
    """A lane for each name, with its dots and bars along one time axis."""
    times = [
        t for _, items in rows for one in items for t in ((one.at,) if isinstance(one, Dot) else (one.start, one.end))
    ]
    if not times:
        return '<p class="none">nothing to draw</p>'
    first, last = min(times), max(times)
    height = ROW * len(rows) + PAD
    parts = [_axis(first, last, height)]
    for i, (name, items) in enumerate(rows):
        y = i * ROW + ROW / 2
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.0f}" class="name">{safe(name, 30)}<title>{safe(name)}</title></text>'
        )
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.0f}" y2="{y:.0f}" class="lane"/>')
        parts += [_mark(one, y, first, last, colours) for one in items]
    return _svg(height, parts)


def _mark(one: Dot | Bar, y: float, first: int, last: int, colours: dict[str, str]) -> str:
    colour = colours.get(one.kind, INK[-1])
    tip = f"<title>{safe(one.tip, 400)}</title>"
    if isinstance(one, Dot):
        return f'<circle cx="{_x(one.at, first, last):.1f}" cy="{y:.0f}" r="5" fill="{colour}">{tip}</circle>'
    x, end = _x(one.start, first, last), _x(one.end, first, last)
    place = f'x="{x:.1f}" y="{y - 6:.0f}" width="{max(end - x, 2):.1f}" height="12" rx="3"'
    return f'<rect {place} fill="{colour}">{tip}</rect>'


def lines(series: Sequence[tuple[str, Sequence[tuple[int, float]]]], height: int = 220) -> str:
    """A line for each name: (ms, value) points, from zero up."""
    points = [point for _, one in series for point in one]
    if len({at for at, _ in points}) < 2:
        return '<p class="none">too few points in time to draw a line</p>'
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    top = max(value for _, value in points) or 1
    parts = [_axis(first, last, height + PAD)]
    for share in (0.0, 0.5, 1.0):
        y = 8 + (height - 8) * (1 - share)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.0f}" y2="{y:.0f}" class="lane"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" class="name">{top * share:,.0f}</text>')
    for i, (name, one) in enumerate(series):
        path = " ".join(
            f"{_x(at, first, last):.1f},{8 + (height - 8) * (1 - value / top):.1f}" for at, value in sorted(one)
        )
        colour = INK[i % len(INK)]
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">'
            f"<title>{safe(name)}</title></polyline>"
        )
    return _svg(height + PAD, parts) + legend({name: INK[i % len(INK)] for i, (name, _) in enumerate(series)})


def bars(
    rows: Sequence[tuple[str, float, str]], most: float | None = None, colours: dict[str, str] | None = None
) -> str:
    """A bar for each (name, value, what it says)."""
    if not rows:
        return '<p class="none">nothing to draw</p>'
    top = most or max(value for _, value, _ in rows) or 1
    parts = []
    for i, (name, value, said) in enumerate(rows):
        y = i * ROW
        width = (WIDTH - LEFT - 120) * min(value / top, 1)
        colour = (colours or {}).get(name, INK[0])
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 14}" class="name">{safe(name, 30)}<title>{safe(name)}</title></text>'
        )
        parts.append(f'<rect x="{LEFT}" y="{y + 3}" width="{max(width, 1):.1f}" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 14}">{safe(said)}</text>')
    return _svg(ROW * len(rows) + 4, parts)


def legend(colours: dict[str, str]) -> str:
    """What the colours mean."""
    items = (f'<span><i style="background:{colour}"></i>{safe(name, 60)}</span>' for name, colour in colours.items())
    return f'<p class="legend">{"".join(items)}</p>'


def _name(name: str, y: float) -> str:
    return f'<text x="{LEFT - 8}" y="{y:.0f}" class="name">{safe(name, 30)}<title>{safe(name)}</title></text>'


def _x(at: float, first: int, last: int) -> float:
    return LEFT + (WIDTH - LEFT - 12) * ((at - first) / (last - first) if last > first else 0.5) + 6


def _axis(first: int, last: int, height: int) -> str:
    ticks = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        at = first + (last - first) * share
        x = _x(at, first, last)
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        label = clock(at, with_date=share in (0, 1))
        ticks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - PAD}" class="tick"/>')
        ticks.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}" class="time">{label}</text>')
    return "".join(ticks)


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
