"""The look of the documentation: pictures that are shown, small and in the reader's theme; its colours."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document
from scripts.fleet_picture import fleet
from scripts.pictures import DRAWINGS, digests, guarded, pictured
from scripts.top_picture import picture

from dutiful.cli.main import cli

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
DIGESTS = PICTURES / "pages.sha256"
MAX_BYTES = 2_200_000
MAX_BYTES_MOVING = 60_000


def test_every_picture_is_shown_by_a_page():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    shown = text + text.replace("-light.", "-dark.")
    drawn = {path.name for path in PICTURES.iterdir()} - {DIGESTS.name}
    assert [name for name in sorted(drawn) if f"pictures/{name}" not in shown] == []


def test_the_pictures_are_quick_to_load():
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) <= MAX_BYTES


@pytest.fixture(scope="module")
def drawn_today():
    """Return the digests of the pages and the picture of `top`, drawn last because it moves the clock."""
    with (
        fleet() as fleet_page,
        guarded() as login,
        pictured() as service,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("DUTIFUL_URL", service.url)
        patch.delenv("DUTIFUL_TOKEN", raising=False)
        return digests(service, fleet_page, login), picture(service)


def test_the_pictures_of_the_pages_show_what_the_pages_look_like_today(drawn_today):
    recorded, today = DIGESTS.read_text(encoding="utf-8").splitlines(), drawn_today[0].splitlines()
    changed = [line.split()[1] for line in today if line not in recorded]
    assert changed == [], "these were drawn before a change; run `make pictures` and look at the pictures"
    assert recorded == today


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_drawing_of_a_command_is_what_it_draws_today(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    drawn = tmp_path / "drawn.svg"
    done = CliRunner().invoke(cli, [*DRAWINGS[name].split(), "--picture", str(drawn)])
    assert done.exit_code == 0, done.output
    assert (PICTURES / f"{name}.svg").read_bytes() == drawn.read_bytes(), "run `make pictures`"


def test_the_picture_of_top_is_what_the_code_draws_today(drawn_today):
    assert (PICTURES / "top.svg").read_text(encoding="utf-8") == drawn_today[1], "run `make pictures`"


def test_the_picture_of_top_moves_only_for_readers_who_do_not_mind():
    drawn = (PICTURES / "top.svg").read_text(encoding="utf-8")
    moving, asked = r"\.f\d+\{animation:[^}]*\}", r"@media ?\(prefers-reduced-motion:no-preference\)\{"
    assert len(drawn.encode()) <= MAX_BYTES_MOVING
    assert 0 < len(re.findall(moving, drawn)) == len(re.findall(asked + moving, drawn))
    assert "<script" not in drawn


# The picture of `top` is named too, and has the colours of a terminal in either theme.
THEMED = sorted({*(ROOT / "docs").rglob("*.svg")} - {PICTURES / "top.svg"})


@pytest.mark.parametrize("path", THEMED, ids=lambda path: path.stem)
def test_a_drawing_is_named_and_described_and_follows_the_theme_of_the_reader(path):
    drawn = path.read_text(encoding="utf-8")
    named = re.search(r"<title[^>]*>[^<]+</title>", drawn) and re.search(r"<desc[^>]*>[^<]+</desc>", drawn)
    assert named, "a screen reader reads <title> and <desc>"
    assert "@media(prefers-color-scheme:dark)" in drawn.replace(" ", "")


def test_every_page_of_the_service_is_drawn_in_both_themes():
    themed = {theme: {*PICTURES.glob(f"*-{theme}.webp")} for theme in ("light", "dark")}
    twins = {path.with_name(path.name.replace("-light.", "-dark.")) for path in themed["light"]}
    assert themed["dark"] == twins


def test_a_picture_follows_the_theme_of_the_reader():
    document = new_document("page", get_default_settings())
    document += nodes.paragraph("", "", nodes.image(uri="pictures/why-light.webp", alt="An answer"))
    document += nodes.paragraph("", "", nodes.image(uri="pictures/top.svg", alt="A screen"))
    runpy.run_path(str(ROOT / "docs/conf.py"))["both_themes"](None, document)
    assert [(image["uri"], image["alt"], image["classes"]) for image in document.findall(nodes.image)] == [
        ("pictures/why-light.webp", "An answer", ["only-light"]),
        ("pictures/why-dark.webp", "An answer", ["only-dark"]),
        ("pictures/top.svg", "A screen", []),
    ]


def test_the_site_has_the_colours_of_the_pages():
    site, pages = (tokens(ROOT / path / "dutiful.css") for path in ("docs/_static", "src/dutiful/web/static"))
    assert site
    assert site == {name: pages[name] for name in site}


def tokens(sheet):
    text = sheet.read_text(encoding="utf-8")
    return dict(re.findall(r"(--[\w-]+): (light-dark\([^;]+\));", text))
