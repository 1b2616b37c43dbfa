"""Work in child processes: commands under a warden, and their output."""

from dutiful.process.command import (
    DESCRIPTORS,
    GRACE,
    OUTPUT_LIMIT,
    Exit,
    allow_many_commands,
    environment_of,
    run,
)

__all__ = [
    "DESCRIPTORS",
    "GRACE",
    "OUTPUT_LIMIT",
    "Exit",
    "allow_many_commands",
    "environment_of",
    "run",
]
