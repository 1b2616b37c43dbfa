"""Drawings of ticks as SVG text: pure functions that know no web framework.

One sentence holds for every drawing: above the line a tick ran, below the line it did not, on the line it is
still to come. Geometry is in attributes and colour in classes, so the pages need no inline style.
"""
