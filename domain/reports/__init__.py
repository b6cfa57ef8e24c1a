"""Reports: their ranges of time, and how stored totals cover them."""
