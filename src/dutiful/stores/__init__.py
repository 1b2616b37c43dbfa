"""Stores: implementations of `ports.Store`, tested by one contract suite."""
