"""Work that has to run again: it needs further locks, or another transaction has removed a record that it found."""


class StartOver(Exception):
    """Nothing has been stored: the transaction is rolled back, and its work is run again with all the locks."""
