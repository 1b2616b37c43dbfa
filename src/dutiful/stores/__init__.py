"""Durable memories behind one interface, held to one contract suite."""
