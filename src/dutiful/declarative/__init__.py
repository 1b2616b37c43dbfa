"""Door 1: the declarative scheduler, `initialize` and `stop`."""
