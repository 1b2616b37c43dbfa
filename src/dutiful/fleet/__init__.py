"""Door 2: a fleet of agents with named schedules in YAML."""
