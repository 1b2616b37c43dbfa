"""Ways to carry a run to its task; one file each."""
