"""Curves as an SVG, with nothing but the standard library."""

import math
from collections.abc import Iterator, Mapping, Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, KEY = 640, 400, 56, 44, 250
COLOURS = (
    "#1b6ca8",
    "#d1495b",
    "#2e8b57",
    "#e08e0b",
    "#7b4fa3",
    "#17a2a2",
    "#8c564b",
    "#c2418f",
    "#6b7280",
    "#9aa51c",
    "#0f4c5c",
    "#f2545b",
)
Points = Sequence[tuple[float, float]]


def svg(lines: Mapping[str, Points], across: str, up: str) -> str:
    """A picture of named lines; the key lists them by where they end, highest first.

    >>> "<polyline" in svg({"a": [(0, 2.0), (10, 1.0)]}, "steps", "loss")
    True
    """
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    low, high, step = _round_range(min(ys), max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        right = (x - min(xs)) / ((max(xs) - min(xs)) or 1)
        above = (y - low) / (high - low)
        return (
            LEFT + right * (WIDTH - LEFT - 12),
            HEIGHT - BOTTOM - above * (HEIGHT - BOTTOM - 12),
        )

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + KEY} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH + KEY}" height="{HEIGHT}" fill="white"/>',
    ]
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        x, y = place(min(xs), value)
        drawn.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - 12}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    ticks = sorted(set(xs))
    for value in ticks[(len(ticks) - 1) % 2 :: 2] if len(ticks) > 8 else ticks:
        x, y = place(value, low)
        drawn.append(
            f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{value:g}</text>'
        )
    drawn.append(
        f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{across}</text>"
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle"'
        f' transform="rotate(-90 14 {HEIGHT / 2})">{up}</text>'
    )
    order = sorted(lines, key=lambda name: -lines[name][-1][1])
    for number, name in enumerate(order):
        drawn += _line(number, name, [place(x, y) for x, y in lines[name]])
    return "\n".join([*drawn, "</svg>", ""])


def _line(number: int, name: str, points: Points) -> Iterator[str]:
    """One line and its place in the key."""
    colour = COLOURS[number % len(COLOURS)]
    dashes = "" if number < len(COLOURS) else ' stroke-dasharray="5 3"'
    told = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = f'fill="none" stroke="{colour}" stroke-width="2"{dashes}'
    yield f'<polyline points="{told}" {style}/>'
    y = 24 + 18 * number
    yield f'<path d="M{WIDTH} {y}h20" {style}/>'
    yield f'<text x="{WIDTH + 26}" y="{y + 4}">{name}</text>'


def _round_range(low: float, high: float) -> tuple[float, float, float]:
    """A range that holds both ends, and a round step for it."""
    step = 10 ** math.floor(math.log10((high - low) or 1.0))
    step = next(s for s in (step / 5, step / 2, step) if (high - low) / s <= 8)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step
