"""Work that has to run again, since it needs further locks, which were not known when it began."""


class StartOver(Exception):
    """Nothing has been stored: the transaction is rolled back, and its work is run again with all the locks."""
