"""One unit of work: loading and locking, the participants of each subject, and the flush."""
