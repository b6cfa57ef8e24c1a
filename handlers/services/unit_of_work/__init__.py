"""One unit of work: what it loads and locks, the subjects that take part in it, and what it flushes."""
