"""Work that has to run again, since it needs locks that it could not know of when it began."""


class StartOver(Exception):
    """Nothing has been stored: the transaction is rolled back, and its work is run again with all the locks."""
