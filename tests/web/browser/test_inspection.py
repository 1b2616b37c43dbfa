"""The checks of the pages find what is wrong, also where it is so in one theme or at one width only."""

from __future__ import annotations

from tests.web_server import Reply, serving

PAGE = """<!doctype html><html lang="en"><head><title>Broken</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/style.css"><script src="/script.js" defer></script></head>
<body><main><h1>Broken</h1>
<table><thead><tr><th scope="col">A</th></tr></thead><tbody><tr><td>a</td></tr></tbody></table>
<p class="pale">Text</p><p class="cut">A text</p><div class="wide"></div>
<p><button class="small">a</button><button class="small">b</button></p>
<button aria-expanded="perhaps">Rule</button><script>1</script><p id="moved">Moved</p></main></body></html>"""
STYLE = """
:root { color-scheme: light dark; background: light-dark(#fff, #000); color: light-dark(#000, #fff) }
.cut { width: 3.5rem; overflow: hidden; white-space: nowrap }
.small { min-width: 30px; min-height: 30px; border: 0; padding: 0; font-size: 5px }
@media (width: 320px) { th { display: none } .pale { color: light-dark(#000, #222) } }
@media (width: 390px) {
  .wide { width: 400px; height: 1px }
  .late { margin-top: 90px }
  .small { min-width: 0; min-height: 0 }
}"""
SCRIPT = """requestAnimationFrame(() => requestAnimationFrame(() => {
  document.querySelector("#moved").className = "late";
}))"""
FILES = {
    "/": (PAGE, "text/html"),
    "/style.css": (STYLE, "text/css"),
    "/script.js": (SCRIPT, "text/javascript"),
}


def answer(asked):
    content, kind = FILES.get(asked.path, ("", "text/plain"))
    headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": "default-src 'self'"}
    return Reply(200, content.encode(), headers)


def test_faults_in_one_theme_or_at_one_width_are_found(inspection):
    with serving(answer) as web:

        def show(page):
            page.goto(f"{web.url}/")
            page.wait_for_selector(".late")

        found, text = inspection.faults(show)
    assert {": ".join(fault.split(": ")[:2]).split(" violates")[0].split('="col')[0] for fault in found} == {
        'moves while it loads at 390: <p id="moved" class="late">Moved</p>',
        "scrolls sideways at 390",
        *(f"{width}, light: aria-valid-attr-value" for width in (1280, 390, 320)),
        "390, light: target-size",
        "320, dark: color-contrast",
        "heads and cells differ at 320: <table><thead><tr><th scope",
        'cuts off spaced text: <p class="cut">A text</p>',
        "Executing inline script",
    }
    assert text.startswith("Broken")
