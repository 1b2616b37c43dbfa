"""The fleet file: from YAML to agents."""
