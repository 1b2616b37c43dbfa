"""A server that speaks the issues part of GitHub's REST API, as its reference describes it."""

from __future__ import annotations

import re
import threading
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.web_server import Asked, Reply

TOKEN = "ghp_canary4711"


class Hub:
    """The issues of one repository, `ada/engine`; `refusals` are answered first, one by one."""

    def __init__(self, *refusals: Reply) -> None:
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: list[tuple[int, str]] = []
        self.refusals = [*refusals]
        self._lock = threading.Lock()
        self.url = ""

    def add(self, title: str, *labels: str, pull_request: bool = False, **facts: Any) -> int:
        number = len(self.issues) + 1
        self.issues[number] = {
            "number": number,
            "title": title,
            "body": None,
            "state": "open",
            "labels": [{"id": 1, "name": label} for label in labels],
            "html_url": f"https://hub.example/ada/engine/issues/{number}",
            "updated_at": "2026-01-05T09:00:00Z",
            **({"pull_request": {"url": "x"}} if pull_request else {}),
            **facts,
        }
        return number

    def labels(self) -> dict[int, list[str]]:
        return {number: [label["name"] for label in issue["labels"]] for number, issue in self.issues.items()}

    def states(self) -> list[str]:
        return [issue["state"] for issue in self.issues.values()]

    def answer(self, asked: Asked) -> Reply:
        with self._lock:
            if asked.headers.get("authorization") != f"Bearer {TOKEN}":
                return Reply(401, {"message": "Bad credentials"})
            if self.refusals:
                return self.refusals.pop(0)
            return self._answer(asked)

    def _answer(self, asked: Asked) -> Reply:
        place = urlsplit(asked.path)
        match = re.fullmatch(
            r"/repos/ada/engine/issues(?:/(\d+))?(?:/(labels|comments)(?:/(.+))?)?", place.path
        )
        if match is None or (match[1] and int(match[1]) not in self.issues):
            return Reply(404, {"message": "Not Found"})
        if match[1] is None:
            return self._list({name: values[0] for name, values in parse_qs(place.query).items()})
        issue = self.issues[int(match[1])]
        issue["updated_at"] = "2026-01-05T12:00:00Z"
        match asked.method, match[2]:
            case "POST", "labels":
                present = [label["name"] for label in issue["labels"]]
                new = [label for label in asked.content["labels"] if label not in present]
                issue["labels"] += [{"id": 1, "name": label} for label in new]
                return Reply(200, issue["labels"])
            case "DELETE", "labels":
                kept = [label for label in issue["labels"] if label["name"] != unquote(match[3])]
                if len(kept) == len(issue["labels"]):
                    return Reply(404, {"message": "Label does not exist"})
                issue["labels"] = kept
                return Reply(200, kept)
            case "POST", "comments":
                self.comments.append((issue["number"], asked.content["body"]))
                return Reply(201, {"id": 1})
            case "PATCH", None:
                issue.update(asked.content)
                return Reply(200, issue)
        return Reply(404, {"message": "Not Found"})

    def _list(self, query: dict[str, str]) -> Reply:
        wanted = {*query["labels"].split(",")}
        found = [
            issue
            for issue in self.issues.values()
            if issue["state"] == query["state"] and wanted <= {label["name"] for label in issue["labels"]}
        ]
        page, size = int(query["page"]), int(query["per_page"])
        more = len(found) > page * size
        link = {"Link": f'<{self.url}/repos/ada/engine/issues?page={page + 1}>; rel="next"'} if more else {}
        return Reply(200, found[(page - 1) * size : page * size], link)
