"""`state.yaml`: what the schedules of a fleet did last."""
