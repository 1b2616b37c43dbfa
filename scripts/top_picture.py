"""The moving picture of `dutiful top`: real frames of the service of the browser tests, on its virtual clock.

It is an SVG without script. Each line of the screen that differs between frames is shown and hidden by a CSS
animation. Readers who want no motion, and programs that know no animation, see one frame.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from rich.console import Console

from dutiful.cli.top_frame import Screen, frame
from dutiful.cli.top_sources import ServiceSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.style import Style
    from rich.text import Text
    from tests.web.running import Running

COLUMNS, ROWS = 112, 15
# The size of a character, of the space around the screen, and of the bar above it.
CELL, LINE, SPACE, BAR = 10, 22, 14, 36
CLASSES = {"green": "g", "red": "r", "yellow": "y", "cyan": "c"}
STYLE = """text{font:16.5px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#c5c8c6}
.g{fill:#98a84b}.r{fill:#e0686d}.y{fill:#d0b344}.c{fill:#68a0b3}.d{fill:#8b8e8c}.b{font-weight:bold}
.v{fill:#292929}rect{fill:#292929}.t{fill:#c5c8c6}"""
# The first frame is ten seconds before two schedules fire.
UNTIL_FIRST_S = 278


class Scene(NamedTuple):
    """A frame: what is on the screen, how much later than the one before, and how long it is shown."""

    later_s: float
    lasts_s: float
    view: str = "needs"
    chosen: int = 0
    asks_why: bool = False


SCENES = [
    Scene(0, 2),
    Scene(1, 0.7, chosen=1),
    Scene(1, 0.7, chosen=2),
    Scene(1, 4.5, chosen=2, asks_why=True),
    Scene(4, 2, view="next"),
    Scene(2, 1, view="next"),
    Scene(2, 3.5, view="next"),
    Scene(2, 3, view="running"),
]
STILL = 3
MARKS = "".join(
    f'<circle cx="{x}" cy="18" r="6" fill="{colour}"/>'
    for x, colour in ((22, "#ff5f57"), (42, "#febc2e"), (62, "#28c840"))
)


def picture(service: Running) -> str:
    """Return the SVG of a seeded service, whose clock moves on meanwhile; DUTIFUL_URL names the service."""
    width, height = COLUMNS * CELL + 2 * SPACE, BAR + ROWS * LINE + SPACE
    shown = _by_line(_frames(service))
    moving = [*dict.fromkeys(places for places in shown.values() if len(places) < len(SCENES))]
    body = [
        f'<g{_class(moving, places)} transform="translate({SPACE} {BAR + (row + 1) * LINE - 6})">{markup}</g>'
        for (row, markup), places in shown.items()
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>dutiful top: three schedules that need you, why one was skipped, and two that fire</title>",
        f"<style>{STYLE}",
        *(_animation(number, places) for number, places in enumerate(moving)),
        "</style>",
        f'<rect width="{width}" height="{height}" rx="8"/>{MARKS}',
        f'<text x="{width // 2}" y="23" text-anchor="middle">dutiful top</text>',
        *body,
        "</svg>\n",
    ])  # fmt: skip


def _frames(service: Running) -> Iterator[list[Text]]:
    source = ServiceSource(service.clock)
    service.advance(UNTIL_FIRST_S)
    for scene in SCENES:
        service.advance(scene.later_s)
        # The port differs from run to run. The tests let an hour pass between two passes, a service a second.
        shown = replace(source.look(scene.view, "", 100), where="127.0.0.1:8787", health="working")
        why = source.why(shown.rows[scene.chosen]) if scene.asks_why else ""
        yield frame(shown, Screen(COLUMNS, ROWS, view=scene.view, chosen=scene.chosen, why=why))


def _by_line(frames: Iterator[list[Text]]) -> dict[tuple[int, str], tuple[int, ...]]:
    """Return the numbers of the frames that show each line, by its row and its markup."""
    console, found = Console(width=COLUMNS), defaultdict[tuple[int, str], list[int]](list)
    for number, lines in enumerate(frames):
        for row, line in enumerate(lines):
            if markup := "".join(_elements(line, console)):
                found[row, markup].append(number)
    return {line: tuple(numbers) for line, numbers in sorted(found.items())}


def _elements(line: Text, console: Console) -> Iterator[str]:
    """Yield a text for each word or phrase, at its column: fonts differ in how wide they draw the shapes."""
    column = 0
    for text, style, _ in line.render(console):
        if style is not None and style.reverse:
            x, width = column * CELL, len(text) * CELL
            yield f'<rect class="t" x="{x}" y="{6 - LINE}" width="{width}" height="{LINE}"/>'
        for phrase in re.finditer(r"\S+(?: \S+)*", text):
            x, width = (column + phrase.start()) * CELL, len(phrase[0]) * CELL
            yield f'<text{_look(style)} x="{x}" textLength="{width}">{escape(phrase[0])}</text>'
        column += len(text)


def _look(style: Style | None) -> str:
    if style is None:
        return ""
    colour = CLASSES.get(style.color.name, "") if style.color is not None else ""
    names = [colour, "d" * bool(style.dim), "b" * bool(style.bold), "v" * bool(style.reverse)]
    return f' class="{" ".join(filter(None, names))}"' if any(names) else ""


def _class(moving: list[tuple[int, ...]], places: tuple[int, ...]) -> str:
    return f' class="f{moving.index(places)}"' if places in moving else ""


def _animation(number: int, places: tuple[int, ...]) -> str:
    """Return the rules of the lines that some frames show."""
    ends = [*accumulate((scene.lasts_s for scene in SCENES), initial=0.0)]
    visible = [place in places for place in range(len(SCENES))]
    changes = [0, *(after for (after, now), (_, then) in pairwise(enumerate(visible, 1)) if now != then)]
    steps = "".join(
        f"{ends[at] / ends[-1]:.2%}{{visibility:{'visible' if visible[at] else 'hidden'}}}" for at in changes
    )
    still = "" if STILL in places else f".f{number}{{visibility:hidden}}"
    moves = f".f{number}{{animation:f{number} {ends[-1]:g}s step-end infinite}}"
    return f"{still}@media(prefers-reduced-motion:no-preference){{{moves}}}@keyframes f{number}{{{steps}}}"
