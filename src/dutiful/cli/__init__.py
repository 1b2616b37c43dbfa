"""The command line: one file per command group, over the doors and the core."""
