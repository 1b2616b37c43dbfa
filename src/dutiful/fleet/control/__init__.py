"""A running fleet as a program, and the commands that reach it."""
