"""Crontabs: those of users, and with a user in each line those of the system."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dutiful.importers.cron_text import LOST_RUN, both_days, changes_clocks, zone_difference
from dutiful.importers.imported import Difference, Draft, Imported, NotImportableError

if TYPE_CHECKING:
    from dutiful.importers.imported import Target

_SETTING = re.compile(r"""\s*(["']?)([A-Za-z_]\w*)\1\s*=\s*(.*?)\s*""")
_LONE_STEP = re.compile(r"(?:^|,)\w+/")
_STEP = Difference(
    *("step", "one value with a step, 5/15, is that value alone or refused, by the program"),
    "it is from that value to the end, 5-59/15",
    "Write the value alone, or the range",
)
_MISSED = Difference(
    *("missed ticks", "a minute that passes while cron is down is lost"),
    "it is recorded as missed, and a tick that is found at most a minute late runs",
    "Choose catchup_policy to run more of them",
)
_MAIL = Difference(
    *("output", "what the command prints is mailed, where mail is set up", "nothing is mailed"),
    "Let your executor keep the output",
)


def read_crontab(text: str, target: Target, *, system: bool = False) -> Imported:
    """Return the schedules of a crontab; in a `system` crontab the word after the fields is a user."""
    imported, environment = Imported(target), dict[str, str]()
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if setting := _SETTING.fullmatch(line):
            environment[setting[2]] = _unquoted(setting[3])
            continue
        entry = _Line(stripped, system, dict(environment), target.timezone)
        imported.take(entry.name, f"line {number}", entry.draft)
    return imported


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
    return text[1:-1] if is_quoted else text


class _Line:
    """One line with a command."""

    def __init__(self, line: str, system: bool, environment: dict[str, str], timezone: str) -> None:
        count = 1 if line.startswith("@") else 5
        parts = line.split(None, count + system)
        self._fields, rest = parts[:count], parts[count:]
        self._user = rest.pop(0) if system and rest else None
        self._command, self._stdin = _split_percent(rest[0] if rest else "")
        self._zone = environment.pop("CRON_TZ", None) or None
        self._environment, self._timezone = environment, timezone

    @property
    def name(self) -> str:
        """Return the name of the program in the command."""
        words = [word for word in self._command.split() if "=" not in word]
        return PurePosixPath(words[0]).name if words else "command"

    def draft(self) -> Draft:
        if not self._command:
            raise NotImportableError("is no line of a crontab: it has no command after its five fields")
        timezone = self._zone or self._timezone
        work = {"command": self._command, "stdin": self._stdin, "user": self._user, "env": self._environment}
        settings = {
            "cron_expr": self._text(),
            "timezone": timezone,
            "dst": "vixie",
            "overlap_policy": "allow",
            "catchup_policy": "none",
            "input": {name: value for name, value in work.items() if value},
        }
        return Draft(settings, [*self._zones(timezone), *self._differences(timezone)])

    def _text(self) -> str:
        fields = " ".join(self._fields)
        if fields.lower() == "@reboot":
            raise NotImportableError("@reboot names no time; run such work when its host or program starts")
        if fields.startswith("@"):
            return fields
        if "~" in fields:
            raise NotImportableError(f"{fields!r} has a random value (~); write a number, or use jitter_ms")
        minute, hour, day, month, weekday = ("*" if part == "*/1" else part for part in self._fields)
        # Where a day field begins with an asterisk, as */2 does, cron demands that both day fields match.
        if "*" in (day[0], weekday[0]):
            day, weekday = both_days(day, weekday)
        return f"{minute} {hour} {day} {month} {weekday}"

    def _zones(self, timezone: str) -> list[Difference]:
        found = []
        if self._zone is None:
            found.append(zone_difference(timezone, "it is the zone of the host"))
        else:
            there = "CRON_TZ is the zone in cronie, and other crons may take it for a variable"
            found.append(
                Difference("timezone", there, f"it is {timezone}", "Check it if you come from another cron")
            )
        if "TZ" in self._environment:
            there = (
                "TZ is a variable of the command, and does not move its times, in cronie and Debian's cron"
            )
            found.append(Difference("TZ", there, "the same, in input.env", "Nothing to do"))
        return found

    def _differences(self, timezone: str) -> list[Difference]:
        runs_as = f"cron runs the command as {self._user or 'the owner of the crontab'}"
        here = "your executor gets it as input.command, and runs it as its own user"
        work = Difference("command", runs_as, here, "Check its PATH and files; input.env has the variables")
        found = [work, _MISSED, LOST_RUN]
        found += [_STEP] if any(_LONE_STEP.search(part) for part in self._fields) else []
        if self._environment.get("MAILTO") != "":
            found.append(_MAIL)
        if changes_clocks(timezone):
            there = "the rule for changing clocks depends on the program"
            chosen = 'dst = "vixie", that of Debian\'s cron and of cronie'
            found.append(Difference("changing clocks", there, chosen, "Set gap and fold for another rule"))
        return found


def _split_percent(command: str) -> tuple[str, str]:
    r"""Return a command and its standard input: % ends a line, the first one ends the command, \% is a %.

    Cron ends the last line of the input too.
    """
    first, *lines = (part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", command))
    text = "\n".join(lines)
    return first.strip(), text if not text or text.endswith("\n") else f"{text}\n"
