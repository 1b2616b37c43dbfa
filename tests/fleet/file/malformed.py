"""Fleet files that must be refused: made by hand, and made from a good one by a rule that spoils it."""

from __future__ import annotations

from dutiful.fleet.file.agents import AGENT_KEYS, SCHEDULE_KEYS
from dutiful.fleet.file.config import FLEET_KEYS

GOOD = """\
version: 1
defaults:
  default_prompt: Carry on.
agents:
  - name: writer
    instances: {max_concurrent: 2}
    schedules:
      check:
        type: interval
        interval: 5m
        jitter_percent: 5
        prompt: Check for work.
      report:
        type: cron
        expression: "0 9 * * 1-5"
        enabled: false
"""

# (a piece of the good file, what stands there instead)
SPOILED = [
    ("version: 1", "version: 2"),
    ("version: 1", "version: one"),
    ("version: 1", "version: 1.0"),
    ("version: 1", "version: [1]"),
    ("version: 1", "version: {a: 1}"),
    ("version: 1", "version:"),
    ("version: 1", "version: null"),
    ("version: 1", "version: *v"),
    ("version: 1", "version: &v 1"),
    ("version: 1", "version: !!int 1"),
    ("version: 1", "version: 1\nversion: 1"),
    ("version: 1\n", ""),
    ("version: 1", "version 1"),
    ("version: 1", "version:1"),
    ("version: 1", "\tversion: 1"),
    ("version: 1", " version: 1"),
    ("version: 1", "version: 1\nstate_dir: []"),
    ("version: 1", "version: 1\nstate_dir: {a: b}"),
    ("version: 1", "version: 1\nstate_dir: ''"),
    ("version: 1", "version: 1\nstate_dir: ~/fleet"),
    ("version: 1", 'version: 1\nstate_dir: "a\\0b"'),
    ("      check:", "      ..:"),
    ("instances:", "job: {type: command, command: [a], environment: {A: [b]}}\n    instances:"),
    ("version: 1", "version: 1\ncheck_interval: 5"),
    ("version: 1", "version: 1\ncheck_interval: soon"),
    ("version: 1", "version: 1\ncheck_interval: [5s]"),
    ("defaults:\n", "defaults: []\nx-defaults:\n"),
    ("defaults:\n", "defaults: writer\nold:\n"),
    ("default_prompt: Carry on.", "name: writer"),
    ("default_prompt: Carry on.", "default_prompt: ''"),
    ("default_prompt: Carry on.", "default_prompt: [Carry, on]"),
    ("default_prompt: Carry on.", "default_prompt: Carry: on"),
    ("default_prompt: Carry on.", "default_prompt: [ready] carry on"),
    ("default_prompt: Carry on.", "default_prompt: {{name}}"),
    ("default_prompt: Carry on.", "default_prompt: 'Carry on"),
    ("default_prompt: Carry on.", 'default_prompt: "Carry on'),
    ("default_prompt: Carry on.", 'default_prompt: "Carry" on'),
    ("default_prompt: Carry on.", 'default_prompt: "\\carry"'),
    ("default_prompt: Carry on.", "default_prompt: `carry`"),
    ("default_prompt: Carry on.", "default_prompt: %carry"),
    ("default_prompt: Carry on.", "default_prompt: |carry\n    on"),
    ("default_prompt: Carry on.", "default_prompt: ${NOBODY_SET_THIS}"),
    ("default_prompt: Carry on.", "default_prompt: ${}"),
    ("default_prompt: Carry on.", "default_prompt: ${1X}"),
    ("default_prompt: Carry on.", "default_prompt: ${A B}"),
    ("default_prompt: Carry on.", "default_prompt: ${OPEN"),
    ("default_prompt: Carry on.", "default_prompt: ${X-default}"),
    ("default_prompt: Carry on.", "work_source: table"),
    ("default_prompt: Carry on.", "work_source: {type: nowhere}"),
    ("default_prompt: Carry on.", "work_source: {}"),
    ("default_prompt: Carry on.", "job: make"),
    ("default_prompt: Carry on.", "job: {type: comand}"),
    ("default_prompt: Carry on.", "job: {type: command}"),
    ("default_prompt: Carry on.", "job: [make]"),
    ("agents:\n", "agents: none\nlist:\n"),
    ("agents:\n", "agents: {}\nlist:\n"),
    ("agents:\n", "agents: null\nlist:\n"),
    ("agents:\n", "agents:\n  - writer\n"),
    ("agents:\n", "agents:\n  - [writer]\n"),
    ("agents:\n", "agents:\n  - null\n"),
    ("agents:\n", "agents:\n  -\n"),
    ("agents:\n", "agents:\n  - {}\n"),
    ("agents:\n", "agents:\n  - {schedules: {}}\n"),
    ("agents:\n", "agents:\n  - path: missing.yaml\n"),
    ("agents:\n", "agents:\n  - path: .\n"),
    ("agents:\n", "agents:\n  - path: [a.yaml]\n"),
    ("agents:\n", "agents:\n  - path: null\n"),
    ("agents:\n", "agents:\n  - path: fleet.yaml\n"),
    ("agents:\n", "agents:\n  - {path: missing.yaml, name: writer}\n"),
    ("agents:\n", "agents:\n  - {path: missing.yaml, overrides: 5}\n"),
    ("agents:\n", "agents:\n  - {path: ../../../../../nowhere.yaml}\n"),
    ("agents:\n", 'agents:\n  - {path: "nul\\0.yaml"}\n'),
    ("agents:\n", "agents:\n  - name: writer\n"),
    ("name: writer", "name: the writer"),
    ("name: writer", "name: wri/ter"),
    ("name: writer", "name: ../writer"),
    ("name: writer", "name: ''"),
    ("name: writer", "name: ~"),
    ("name: writer", "name: [writer]"),
    ("name: writer", "name: {first: writer}"),
    ("name: writer", "name: écrivain"),
    ("name: writer", "name: " + "w" * 129),
    ("name: writer", 'name: "writer\\n"'),
    ("{max_concurrent: 2}", "2"),
    ("{max_concurrent: 2}", "[2]"),
    ("{max_concurrent: 2}", "{max_concurrent: 0}"),
    ("{max_concurrent: 2}", "{max_concurrent: -1}"),
    ("{max_concurrent: 2}", "{max_concurrent: two}"),
    ("{max_concurrent: 2}", "{max_concurrent: 1.5}"),
    ("{max_concurrent: 2}", "{max_concurrent: 1e3}"),
    ("{max_concurrent: 2}", "{max_concurrent: 0x2}"),
    ("{max_concurrent: 2}", "{max_concurrent: 99999999999999999999}"),
    ("{max_concurrent: 2}", "{max_concurrent: [2]}"),
    ("{max_concurrent: 2}", "{max_concurent: 2}"),
    ("{max_concurrent: 2}", "{max_concurrent: 2, max_concurrent: 3}"),
    ("{max_concurrent: 2}", "{max_concurrent: 2"),
    ("    schedules:\n", "    schedules: hourly\n    old:\n"),
    ("    schedules:\n", "    schedules: [check]\n    old:\n"),
    ("    schedules:\n", "    schedules:\n      bad name: {type: chat}\n"),
    ("    schedules:\n", "    schedules:\n      'ü': {type: chat}\n"),
    ("    schedules:\n", "    schedules:\n      '': {type: chat}\n"),
    ("    schedules:\n", "    schedules:\n      more: 5m\n"),
    ("    schedules:\n", "    schedules:\n      more: [5m]\n"),
    ("    schedules:\n", "    schedules:\n      more: {}\n"),
    ("    schedules:\n", "    schedules:\n      <<: {a: {type: chat}}\n"),
    ("    schedules:\n", "    schedules:\n      ? [a, b]\n      : {type: chat}\n"),
    ("    schedules:\n", "    schedules:\n      check: {type: chat}\n"),
    ("type: interval", "type: intervall"),
    ("type: interval", "type: Interval"),
    ("type: interval", "type: [interval]"),
    ("type: interval", "type: ''"),
    ("type: interval", "type: cron"),
    ("type: interval", "type: webhook"),
    ("type: interval", "type: null"),
    ("        type: interval\n", ""),
    ("        interval: 5m\n", ""),
    ("interval: 5m", "interval: 5m\n         prompt: x"),
    ("interval: 5m", "interval: 5m\n       prompt: x"),
    ("interval: 5m", "interval: 5m\n        expression: '@daily'"),
    ("interval: 5m", "interval: 5m\n        cron: '@daily'"),
    ("jitter_percent: 5", "jitter_percent: 11"),
    ("jitter_percent: 5", "jitter_percent: -1"),
    ("jitter_percent: 5", "jitter_percent: 5%"),
    ("jitter_percent: 5", "jitter_percent: nan"),
    ("jitter_percent: 5", "jitter_percent: inf"),
    ("jitter_percent: 5", "jitter_percent: five"),
    ("jitter_percent: 5", "jitter_percent: {}"),
    ("jitter_percent: 5", "jitter_percent: '٣'"),
    ("enabled: false", "enabled: maybe"),
    ("enabled: false", "enabled: 0"),
    ("enabled: false", "enabled: [false]"),
    ("enabled: false", "enabled: ''"),
    ("enabled: false", "run_without_work: perhaps"),
    ("enabled: false", "cron: '0 9 * * *'"),
    ("enabled: false", "interval: 5m"),
    ("enabled: false", "job: {}"),
    ("enabled: false", "work_source: ''"),
    ("enabled: false", "prompt: {text: hello}"),
    ('expression: "0 9 * * 1-5"', "expression: * * * * *"),
    ('expression: "0 9 * * 1-5"', "expression: */5 * * * *"),
    ('expression: "0 9 * * 1-5"', "expression: *hourly"),
    ('expression: "0 9 * * 1-5"', "expression: @daily"),
    ('expression: "0 9 * * 1-5"', "expression: [0, 9]"),
]
INTERVALS = [
    "''",
    "5",
    "m",
    "5.5m",
    "0m",
    "-5m",
    "5x",
    "5 m",
    "5m5",
    "1h30m",
    "٥m",
    "5M",
    "1e3s",
    "9" * 30 + "d",
]
CRONS = [
    "",
    "* * *",
    "* * * * * *",
    "60 * * * *",
    "0 25 * * *",
    "0 0 0 * *",
    "0 0 1 13 *",
    "0 0 * * 8",
    "*/0 * * * *",
    "0 0 30 2 *",
    "5-1 * * * *",
    "1,,2 * * * *",
    "? * * * *",
    "@never",
    "@reboot",
    "x" * 300,
]
TAGS = [
    '!!python/object/apply:os.system ["touch was-run"]',
    "!!python/object/apply:subprocess.check_output [[touch, was-run]]",
    "!!python/object/new:type {args: [x, [], {}]}",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/tuple [1, 2]",
    '!!binary "dG91Y2g="',
    "!!timestamp 2026-01-01",
    "!!set {a, b}",
    "!include /etc/passwd",
    "!ENV secret",
]
NOT_UTF8 = [b"\xff\xfe", b"\xfe\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"caf\xe9"]
WHOLE = {
    "empty": b"",
    "blank": b"\n \n",
    "comment": b"# nothing yet\n",
    "null": b"null\n",
    "text": b"hello\n",
    "list": b"- version: 1\n",
    "two documents": GOOD.encode() + b"---\n" + GOOD.encode(),
    "unfinished": GOOD.encode()[:40] + b": [",
    "utf-16": GOOD.encode("utf-16"),
    "too large": GOOD.encode() + b"#" * 1_000_000,
    "too many values": b"agents: [" + b"a," * 200_000 + b"]",
    "a million brackets": b"[" * 999_000,
    "a million braces": b"{" * 999_000,
    "a million dashes": b"- " * 499_000,
    "a million question marks": b"? " * 499_000,
    "33 deep": b"[" * 33 + b"]" * 33,
    "a key of a million": b"k" * 999_000 + b": v",
    "a hundred thousand anchors": b"- &a b\n" * 100_000,
    "the same key over and over": b"a: b\n" * 190_000,
    "nine by nine": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in b"bcdefghi"),
    "strangers at the top": b"".join(b"k%d: v\n" % n for n in range(20_000)),
    "strangers in a schedule": b"version: 1\nagents: [{name: a, schedules: {s: {%s}}}]"
    % b",".join(b"k%d: v" % n for n in range(20_000)),
    "strangers in a job": b"version: 1\nagents: [{name: a, job: {type: command, %s}}]"
    % b",".join(b"k%d: v" % n for n in range(20_000)),
    "nameless schedules": b"version: 1\nagents: [{name: a, schedules: {%s}}]"
    % b",".join(b"'%d!': {}" % n for n in range(20_000)),
    "bad schedules": b"version: 1\nagents: [{name: a, schedules: {%s}}]"
    % b",".join(b"k%d: {y: 1}" % n for n in range(12_000)),
    "wrong agents": b"version: 1\nagents: [%s]" % b",".join(b"{n: %d}" % n for n in range(12_000)),
    "defaults times agents": b"version: 1\ndefaults: {schedules: {%s}}\nagents: [%s]"
    % (
        b",".join(b"s%d: {type: chat}" % n for n in range(8_000)),
        b",".join(b"{name: a%d}" % n for n in range(8_000)),
    ),
    "the same file over and over": b"version: 1\nagents: [%s]" % b",".join([b"{path: fleet.yaml}"] * 12_000),
    "variables times problems": b"version: 1\nagents: [{name: '!', schedules: {%s}}]"
    % b",".join(b"k%d: {y: '${A:-v%d}'}" % (n, n) for n in range(12_000)),
    "contains itself": b"a: &a [*a]\n",
    "program": b"import os\nos.system('touch was-run')\n",
    "template": b"agents: {% for a in agents %}\n",
    "json with a comma": b'{"version": 1, "agents": [},}',
    "toml": b"[agents]\nversion = 1\n",
}
# They grow to as much as is allowed before they are refused.
AMPLIFIED = {"defaults times agents", "the same file over and over"}


def corpus() -> dict[str, bytes]:
    """Return a name and the content of each file."""
    files = dict(WHOLE)
    for piece, instead in SPOILED:
        assert piece in GOOD
        files[f"{piece.strip()} -> {instead.strip()[:40]}"] = GOOD.replace(piece, instead, 1).encode()
    for text in INTERVALS:
        files[f"interval {text[:20]}"] = GOOD.replace("5m", text, 1).encode()
    for text in CRONS:
        files[f"cron {text[:20]}"] = GOOD.replace("0 9 * * 1-5", text).encode()
    for tag in TAGS:
        files[f"tag {tag}"] = GOOD.replace("Carry on.", tag).encode()
    for key in sorted({*FLEET_KEYS, *AGENT_KEYS, *SCHEDULE_KEYS}):
        files[f"{key} misspelt at the top"] = f"{GOOD}{key[:-1]}_: x\n".encode()
        files[f"{key} misspelt in an agent"] = f"{GOOD}    {key[:-1]}_: x\n".encode()
        files[f"{key} misspelt in a schedule"] = f"{GOOD}        {key[:-1]}_: x\n".encode()
    for code in {*range(0x20), 0x7F, 0x80, 0x9F} - {*b"\t\n\r"}:
        files[f"control character {code:02x}"] = GOOD.replace("Carry", f"Ca{chr(code)}rry").encode()
    for broken in NOT_UTF8:
        files[f"bytes {broken.hex()}"] = GOOD.encode().replace(b"Carry", broken)
    return files
