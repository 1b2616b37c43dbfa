"""From instants to decisions: the planner and what it is made of."""
