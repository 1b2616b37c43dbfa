"""SVG elements as text: short, escaped, and the same bytes for the same values."""

from __future__ import annotations

from html import escape


def number(value: float) -> str:
    """Return a coordinate with at most one decimal: 12, 12.5."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def rect(x: float, y: float, width: float, height: float, css: str, radius: float = 0) -> str:
    """Return a rectangle."""
    rounded = f' rx="{number(radius)}"' if radius else ""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {place}{rounded} class="{css}"/>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """Return a straight line."""
    ends = f'x1="{number(x1)}" x2="{number(x2)}" y1="{number(y1)}" y2="{number(y2)}"'
    return f'<line {ends} class="{css}"/>'


def circle(x: float, y: float, radius: float, css: str) -> str:
    """Return a circle."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{css}"/>'


def path(drawn: str, css: str) -> str:
    """Return a path; nothing for an empty one."""
    return f'<path d="{drawn}" class="{css}"/>' if drawn else ""


def text(x: float, y: float, words: str, css: str = "", anchor: str = "") -> str:
    """Return one line of text, escaped."""
    kind = f' class="{css}"' if css else ""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{number(x)}" y="{number(y)}"{at}{kind}>{escape(words)}</text>'


def link(href: str, title: str, *drawn: str) -> str:
    """Return elements inside a link that the keyboard passes over: a table beside has the same links."""
    return f'<a href="{escape(href)}" tabindex="-1"><title>{escape(title)}</title>{"".join(drawn)}</a>'


def drawing(width: float, height: float, css: str, *drawn: str) -> str:
    """Return a whole drawing, hidden from screen readers: a sentence and a table say the same."""
    box = f'viewBox="0 0 {number(width)} {number(height)}"'
    return f'<svg class="plot {css}" {box} aria-hidden="true" focusable="false">{"".join(drawn)}</svg>'


def bar(x: float, bottom: float, width: float, height: float) -> str:
    """Return the path of an upright bar, for one `path` that holds many."""
    return f"M{number(x)} {number(bottom)}v{number(-height)}h{number(width)}v{number(height)}z"
