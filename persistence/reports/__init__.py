"""Reports: totals kept by a worker, changes that are not in them yet, and the queries for both."""
