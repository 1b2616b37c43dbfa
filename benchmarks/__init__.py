"""Ratios against peers and floors, measured in one run: `python -m benchmarks [section ...]`."""
