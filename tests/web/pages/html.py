"""A page as a test reads it: its elements, its text, its links."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, answer):
        super().__init__()
        self.answer, self.elements, self.words = answer, [], []
        self.feed(answer.text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return re.sub(r" (?=[,.;:)])", "", " ".join(" ".join(self.words).split())).replace("( ", "(")

    @property
    def links(self):
        return [
            own.get("href") or own.get("src") for _, own in self.elements if "href" in own or "src" in own
        ]


def page(service, path="/", status=200):
    answer = service.client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), (
        answer.text[:500]
    )
    return Page(answer)
