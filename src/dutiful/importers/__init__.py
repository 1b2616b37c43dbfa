"""Readers of other schedulers' formats: a text becomes schedules and the differences in their meaning.

Nothing here reads a file, a clock or a service, and nothing runs foreign code.
"""
