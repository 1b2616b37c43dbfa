"""Work in child processes and in threads: commands under a warden, and functions named by a text."""

from dutiful.process.command import DESCRIPTORS, GRACE, OUTPUT_LIMIT, Exit, environment_of, run

__all__ = ["DESCRIPTORS", "GRACE", "OUTPUT_LIMIT", "Exit", "environment_of", "run"]
