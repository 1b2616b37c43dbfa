"""From instants to decisions: the planner and its parts."""
