"""The copy buttons of the documentation copy what a reader would type."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.web_server import Reply, serving

SCRIPT = (Path(__file__).resolve().parents[3] / "docs/_static/copy.js").read_text(encoding="utf-8")
BLOCKS = {
    "$ dutiful fleet init\nWrote fleet.yaml.\n$ dutiful fleet validate\nok\n": (
        "dutiful fleet init\ndutiful fleet validate"
    ),
    ">>> for n in (1, 2):\n...     print(n)\n1\n2\n": "for n in (1, 2):\n    print(n)",
    "import asyncio\n\nprint(asyncio)\n": "import asyncio\n\nprint(asyncio)",
}


@pytest.fixture(scope="module")
def page(browser):
    blocks = "".join(
        f"<div class='highlight'><pre>{text.replace('>', '&gt;')}</pre></div>" for text in BLOCKS
    )
    html = f"<!doctype html><script src='/copy.js'></script>{blocks}"
    replies = {"/copy.js": (SCRIPT, "text/javascript"), "/": (html, "text/html")}

    def answer(asked):
        content, kind = replies.get(asked.path, ("", "text/plain"))
        return Reply(200, content.encode(), {"Content-Type": f"{kind}; charset=utf-8"})

    with serving(answer) as web:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{web.url}/")
        yield page
        context.close()


@pytest.mark.parametrize("place", range(len(BLOCKS)))
def test_a_button_copies_what_one_types_without_prompts_and_output(page, place):
    button = page.locator("button.copy").nth(place)
    button.click()
    page.wait_for_function("element => element.textContent == 'Copied'", arg=button.element_handle())
    assert page.evaluate("navigator.clipboard.readText()") == [*BLOCKS.values()][place]
