"""Exports: records as rows, in the form that imports read."""
