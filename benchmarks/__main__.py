"""Run the benchmark sections, print a table for each, and fail when a goal is not met."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import cron, dashboard, declarative, engine, fleet, postgres, queues, service, startup
from benchmarks.report import Section, as_json, as_text, summary
from benchmarks.timing import calibration_ms
from dutiful.cli.output import progress_bar

SECTIONS = {
    "cron": cron.run,
    "startup": startup.run,
    "engine": engine.run,
    "declarative": declarative.run,
    "fleet": fleet.run,
    "service": service.run,
    "dashboard": dashboard.run,
    "queues": queues.run,
    "postgres": postgres.run,
}


def main() -> int:
    """Run what the command line names; 0 when every goal is met, 1 otherwise."""
    arguments = _arguments()
    machine = _machine()
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    wanted = [name for name in SECTIONS if name in arguments.sections or not arguments.sections]
    sections = [_run(wanted, number) for number in range(len(wanted))]
    print(f"\n{summary(sections)}")
    if arguments.json:
        _write(arguments.json, machine, sections)
    return 0 if all(row.met for section in sections for row in section.rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"of {', '.join(SECTIONS)}; default all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE")
    arguments = parser.parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    return arguments


def _machine() -> dict[str, Any]:
    return {
        "Python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def _run(names: list[str], number: int) -> Section:
    """Run one of the sections and print its table; on a terminal a bar shows how many have ended."""
    label = f"section {number + 1} of {len(names)}: {names[number]}, some minutes"
    with progress_bar(label, is_still=True) as progress:
        if progress is not None:
            progress(number / len(names))
        section = _measured(names[number])
    print(f"\n{as_text(section)}", flush=True)
    return section


def _measured(name: str) -> Section:
    """Return a section, with a note on the calibration loop that its limits in seconds refer to."""
    calibration_ms.cache_clear()
    section = SECTIONS[name]()
    note = f"calibration loop {calibration_ms():.1f} ms"
    return replace(section, notes=(*section.notes, note))


def _write(path: Path, machine: dict[str, Any], sections: list[Section]) -> None:
    result = machine | {"sections": [as_json(section) for section in sections]}
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
