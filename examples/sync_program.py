# examples/sync_program.py
"""A synchronous program with tasks beside it: they run on a thread of their own, in a loop of their own."""

import sys

import dutiful


def clean_up():
    print("cleaning up", flush=True)


TASKS = [("clean-up", "* * * * *", dutiful.in_thread(clean_up), 60)]

if __name__ == "__main__":
    with dutiful.in_background(TASKS, "sqlite:state.db"):
        # The program's own work: it ends with its input, and the tasks end with it.
        for line in sys.stdin:
            print("read", line.strip(), flush=True)
