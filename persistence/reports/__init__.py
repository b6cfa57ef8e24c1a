"""Reports: totals, which a worker updates, changes that are not in the totals yet, and the queries of both."""
