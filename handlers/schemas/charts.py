"""A series as a small chart: SVG of fixed size, without scripts, fonts or other external resources.

Its attributes have the colours for light pages; its style replaces these colours for readers who prefer dark pages.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from xml.sax.saxutils import escape

from domain.reports import DailySeries

_WIDTH, _HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 56, 36
_COLOURS = ("#2563eb", "#d97706")
_DARK_STYLE = """<style>
@media (prefers-color-scheme: dark) {
  svg { fill: #c3cad4 } .back { fill: #14181d } .title { fill: #e3e6eb } .period { fill: #9aa4b2 }
  .line { stroke: #3a414d } .zero { stroke: #6b7482 } .series-0 { color: #8ab4f8 } .series-1 { color: #f0a878 }
}
</style>"""
# A series of more days is drawn as a line: bars would be only a pixel or two wide.
_MAX_BARS = 100
_MAX_DATES, _STEPS = 6, 4


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale of a drawing; `low` and `high` are the ends of the vertical axis, `step` the interval of its lines."""

    low: Decimal
    high: Decimal
    step: Decimal
    days: int

    def y(self, figure: Decimal) -> float:
        """The vertical position of a figure, from the top of the drawing."""
        height = _HEIGHT - _TOP - _BOTTOM
        return _TOP + height * float((self.high - figure) / (self.high - self.low))

    @property
    def day_width(self) -> float:
        """The width of a day in the drawing."""
        return (_WIDTH - _LEFT - _RIGHT) / max(self.days, 1)

    def x(self, day: int) -> float:
        """The left edge of a day, which is given by its position in the series."""
        return _LEFT + self.day_width * day


def chart(report: DailySeries) -> str:
    """The drawing of a series: bars for each day, or lines if there are too many days."""
    scale = _scale_of([figure for row in report.rows for figure in row], len(report.days))
    parts = [*_heading(report), *_axes(report, scale)]
    for number, name in enumerate(report.names):
        figures = [row[number] for row in report.rows]
        path = _bars(figures, scale, number, len(report.names)) if scale.days <= _MAX_BARS else _line(figures, scale)
        parts.append(f"<g {_colour(number)}><title>{escape(name)}</title>{path}</g>")
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
        f' height="{_HEIGHT}" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#374151">\n'
        f"{_DARK_STYLE}\n{body}\n</svg>\n"
    )


def _colour(number: int) -> str:
    """The attributes that set the colour of the series with this number, which its parts use as `currentColor`."""
    return f'class="series-{number}" color="{_COLOURS[number]}"'


def _heading(report: DailySeries) -> Iterator[str]:
    """The title, the period, and on the right a legend with the total of each series, the last one outermost."""
    period = f"{report.days[0]} to {report.days[-1]}" if report.days else "no days"
    yield f"<title>{escape(report.title)}, {period}</title>"
    yield f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    title = escape(report.title)
    yield f'<text class="title" x="16" y="24" font-size="15" font-weight="600" fill="#111827">{title}</text>'
    yield f'<text class="period" x="16" y="42" fill="#6b7280">{period}</text>'
    right = _WIDTH - _RIGHT
    for number, name in reversed(list(enumerate(report.names))):
        total = _figure_text(sum((row[number] for row in report.rows), Decimal(0)))
        words = f"{escape(name)}: {total}"
        yield f'<text x="{right}" y="24" text-anchor="end">{words}</text>'
        # The approximate width of the words.
        right -= 7 * len(words) + 16
        yield f'<rect {_colour(number)} x="{right}" y="14" width="10" height="10" rx="2" fill="currentColor"/>'
        right -= 14


def _axes(report: DailySeries, scale: _Scale) -> Iterator[str]:
    """The horizontal lines with their figures, and at most `_MAX_DATES` dates."""
    figure = scale.low
    while figure <= scale.high:
        y = scale.y(figure)
        colour = 'class="zero" stroke="#9ca3af"' if figure == 0 else 'class="line" stroke="#e5e7eb"'
        yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" {colour}/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_figure_text(figure)}</text>'
        figure += scale.step
    # A step of 0 days is not possible, even for a series without days.
    days_between_dates = max(1, math.ceil(scale.days / _MAX_DATES))
    for day in range(0, scale.days, days_between_dates):
        x = scale.x(day) + scale.day_width / 2
        # The last date must not extend beyond the edge.
        anchor = "end" if x > _WIDTH - 50 else "middle"
        yield f'<text x="{x:.1f}" y="{_HEIGHT - 14}" text-anchor="{anchor}">{report.days[day]}</text>'


def _bars(figures: Sequence[Decimal], scale: _Scale, number: int, count: int) -> str:
    """The bars of the series `number` out of `count`, which are side by side on each day."""
    # The bars take 80 % of a day; a tenth on either side separates the days.
    width = scale.day_width * 0.8 / count
    zero = scale.y(Decimal(0))
    bars = []
    for day, figure in enumerate(figures):
        if figure:
            x = scale.x(day) + scale.day_width * 0.1 + width * number
            bars.append(f"M{x:.1f} {zero:.1f}V{scale.y(figure):.1f}h{width:.1f}V{zero:.1f}z")
    return f'<path d="{"".join(bars) or "M0 0"}" fill="currentColor"/>'


def _line(figures: Sequence[Decimal], scale: _Scale) -> str:
    points = (f"{scale.x(day) + scale.day_width / 2:.1f} {scale.y(figure):.1f}" for day, figure in enumerate(figures))
    return f'<path d="M{"L".join(points)}" fill="none" stroke="currentColor" stroke-width="1.5"/>'


def _scale_of(figures: Sequence[Decimal], days: int) -> _Scale:
    """A scale from 0, or less for negative figures, to the highest figure, in about four round steps."""
    lowest, highest = min([Decimal(0), *figures]), max([Decimal(0), *figures])
    if lowest == highest:
        highest = Decimal(1)
    exact_step = (highest - lowest) / _STEPS
    power = Decimal(10) ** exact_step.adjusted()
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact_step)
    low = step * (lowest / step).to_integral_value("ROUND_FLOOR")
    high = step * (highest / step).to_integral_value("ROUND_CEILING")
    return _Scale(low, high, step, days)


def _figure_text(value: Decimal) -> str:
    """A figure for people: 12,500, or 1.25M for 1,250,000 because space is limited; G for 10^9, and T for 10^12."""
    for unit, suffix in ((Decimal(10**12), "T"), (Decimal(10**9), "G"), (Decimal(10**6), "M")):
        if abs(value) >= unit:
            return f"{_plain_text(round(value / unit, 2))}{suffix}"
    return _plain_text(round(value, 6))


def _plain_text(value: Decimal) -> str:
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
