"""The calendar: the crowded times, the schedules behind them, and the cost of an outage."""

from __future__ import annotations

import re

from tests.web.pages.html import page


def drawn(html: str, css: str) -> set[str]:
    """Return the shades of the drawing of a width that have a cell."""
    [picture] = re.findall(rf'<svg class="plot {css}".*?</svg>', html, re.DOTALL)
    return {*re.findall(r'class="(load\d)"', picture)}


def legend(html: str, css: str) -> dict[str, str]:
    """Return the numbers of each shade in the legend of a width."""
    [found] = re.findall(rf'<div class="said {css}"><ul class="legend">(.*?)</ul>', html, re.DOTALL)
    return dict(re.findall(r'class="(load\d)"/></svg> ([^<]+)</li>', found))


def test_the_legend_of_the_hours_has_the_numbers_by_which_hours_are_shaded(service):
    service.upsert(cron_expr="*/20 * * * *")
    html = page(service, "/ui/calendar?day=2026-03-03").answer.text
    assert drawn(html, "narrow") == {"load1"}
    assert legend(html, "narrow") == {
        "load1": "1 to 19",
        "load2": "20 to 67",
        "load3": "68 to 195",
        "load4": "196 to 483",
        "load5": "484 and more",
    }
    service.upsert(schedule_id="minutely", cron_expr="* * * * *")
    service.advance(61)
    html = page(service, "/ui/calendar?day=2026-03-04").answer.text
    assert drawn(html, "narrow") == {"load2"}, "63 ticks an hour"
    assert drawn(html, "wide") == {"load1"}, "1 or 2 ticks a minute"
    assert legend(html, "wide")["load1"] == "1 to 4"
