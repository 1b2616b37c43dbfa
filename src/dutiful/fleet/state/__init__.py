"""`state.yaml`: the last run of every schedule of a fleet."""
