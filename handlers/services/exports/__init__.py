"""Exports: records as rows that imports take."""
