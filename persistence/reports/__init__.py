"""Reports: totals kept by a worker, the changes that are not in them yet, and what both are made of."""
