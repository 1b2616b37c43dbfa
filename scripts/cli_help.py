"""Write the help of every command into docs/reference/cli.md, where it stands today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from dutiful.cli.main import cli

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/cli.md"
HELP = re.compile(r"```console\n\$ (dutiful[^\n]* --help)\n.*?```", re.DOTALL)


def help_of(match: re.Match[str]) -> str:
    """Return the block of a command with the help that it prints now, on 80 columns."""
    _, *arguments = shlex.split(match[1])
    printed = CliRunner().invoke(cli, arguments, prog_name="dutiful", terminal_width=78).output
    return f"```console\n$ {match[1]}\n{printed}```"


PAGE.write_text(HELP.sub(help_of, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
