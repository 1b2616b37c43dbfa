"""GitHub issues as work source: labels say what waits, what is being done and what failed.

Removing the `ready` label is the claim: the API answers 404 to everybody but the one who removed it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from dutiful.fleet.file.settings import Key, allowed, flag, name, seconds, text
from dutiful.fleet.run.work_sources.claim import Claim, WorkSourceError
from dutiful.fleet.run.work_sources.github_api import GithubApi, RateLimitedError
from dutiful.fleet.run.work_sources.http import address
from dutiful.fleet.types import WorkItem
from dutiful.outbound import Allowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from dutiful.fleet.types import JobResult
    from dutiful.runtime.ports import Clock


def repository(value: object) -> str:
    """Read the name of a repository."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100}", value):
        raise ValueError("must be OWNER/NAME")
    return value


KEYS = {
    "repository": Key(repository, required=True),
    "token_env": Key(name, "GITHUB_TOKEN"),
    "ready_label": Key(text, "ready"),
    "in_progress_label": Key(text, "in-progress"),
    "failed_label": Key(text, "failed"),
    "done_label": Key(text),
    "comment": Key(flag, False),
    "stale_after": Key(seconds),
    "api_url": Key(address, "https://api.github.com"),
    "timeout": Key(seconds, 30.0),
    "allow": Key(allowed, Allowed()),
}
_PAGE = 50
# What this many issues at the front do not offer is looked for again next time.
_PAGES_MAX = 10
_PRIORITY = re.compile(r"(?:priority[:/ -]\s*(.+)|(p[0-9]))", re.IGNORECASE)


class GithubSource:
    """Hands out the open issues with the `ready` label, the oldest first."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._path = f"/repos/{settings['repository']}/issues"
        self._waits_until: datetime | None = None
        # However old these get, their claimer is alive.
        self._held: set[str] = set()

    async def claim(self, agent_name: str) -> Claim | str:
        """Take the `ready` label off the first issue that still has it, and return the issue."""
        if self._waits_until is not None and self._clock.now() < self._waits_until:
            return f"the rate limit of GitHub is used up until {self._waits_until:%H:%M:%S %Z}"
        try:
            await self._return_stale()
            return await self._claim(agent_name)
        except RateLimitedError as error:
            self._waits_until = self._clock.now() + timedelta(seconds=error.seconds)
            return str(error)

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Close the issue (or label it, if there is a `done_label`), or label it as failed."""
        number, settings = claim.item.external_id, self._settings
        label = settings["done_label"] if result.success else settings["failed_label"]
        if label:
            await self._label(number, label)
        if result.success and not label:
            closed = {"state": "closed", "state_reason": "completed"}
            await self._api().ask("PATCH", f"{self._path}/{number}", closed)
        await self._unlabel(number, settings["in_progress_label"])
        self._held.discard(number)
        said = result.summary if result.success else result.error
        await self._comment(number, f"{'Done' if result.success else 'Failed'}: {said or 'nothing was said'}")

    async def release(self, claim: Claim, reason: str) -> None:
        """Put the `ready` label back."""
        await self._give_back(claim.item.external_id)
        await self._comment(claim.item.external_id, f"Given back: {reason}")

    async def _claim(self, agent_name: str) -> Claim | str:
        async for issue in self._issues(self._settings["ready_label"]):
            number = str(issue["number"])
            if not await self._unlabel(number, self._settings["ready_label"]):
                continue
            try:
                await self._label(number, self._settings["in_progress_label"])
            except WorkSourceError:
                await self._label(number, self._settings["ready_label"])
                raise
            self._held.add(number)
            await self._comment(number, f"Claimed by {agent_name}.")
            return Claim(_item(issue, self._settings["ready_label"]))
        return (
            f"no open issue of {self._settings['repository']} is labelled {self._settings['ready_label']!r}"
        )

    async def _return_stale(self) -> None:
        if self._settings["stale_after"] is None:
            return
        limit = self._clock.now() - timedelta(seconds=self._settings["stale_after"])
        async for issue in self._issues(self._settings["in_progress_label"]):
            number, touched = str(issue["number"]), datetime.fromisoformat(issue["updated_at"])
            if touched < limit and number not in self._held:
                await self._give_back(number)

    async def _issues(self, label: str) -> AsyncIterator[dict[str, Any]]:
        for page in range(1, _PAGES_MAX + 1):
            query = {"labels": label, "state": "open", "sort": "created", "direction": "asc"}
            asked = urlencode({**query, "per_page": _PAGE, "page": page})
            answer = await self._api().ask("GET", f"{self._path}?{asked}")
            for issue in answer.json() or []:
                # The API lists pull requests among the issues.
                if "pull_request" not in issue:
                    yield issue
            if 'rel="next"' not in answer.headers.get("link", ""):
                return

    async def _give_back(self, number: str) -> None:
        # In this order, so that an issue is never without both.
        await self._label(number, self._settings["ready_label"])
        await self._unlabel(number, self._settings["in_progress_label"])
        self._held.discard(number)

    async def _label(self, number: str, label: str) -> None:
        await self._api().ask("POST", f"{self._path}/{number}/labels", {"labels": [label]})

    async def _unlabel(self, number: str, label: str) -> bool:
        """Return whether the label was there."""
        path = f"{self._path}/{number}/labels/{quote(label, safe='')}"
        return (await self._api().ask("DELETE", path, absent=404)).status != 404

    async def _comment(self, number: str, body: str) -> None:
        if self._settings["comment"]:
            # A courtesy: the labels are what counts, and they are right by now.
            with suppress(WorkSourceError):
                await self._api().ask("POST", f"{self._path}/{number}/comments", {"body": body})

    def _api(self) -> GithubApi:
        # Read every time, so that a token can be replaced while the fleet runs.
        variable = self._settings["token_env"]
        token = os.environ.get(variable, "")
        if not re.fullmatch(r"[!-~]+", token):
            problem = f"the environment variable {variable} holds no token"
            raise WorkSourceError("work source `github`", problem)
        settings = self._settings
        return GithubApi(settings["api_url"], token, settings["allow"], settings["timeout"], self._clock)


def _item(issue: dict[str, Any], ready: str) -> WorkItem:
    given = (label if isinstance(label, str) else label["name"] for label in issue.get("labels", ()))
    labels = tuple(label for label in given if label != ready)
    found = next(filter(None, map(_PRIORITY.fullmatch, labels)), None)
    return WorkItem(
        id=str(issue["number"]),
        source="github",
        external_id=str(issue["number"]),
        title=issue["title"],
        description=(issue.get("body") or "").strip(),
        priority=found[1] or found[2] if found else None,
        labels=labels,
        url=issue.get("html_url"),
    )
