"""Names and types between the wire and inside, one module a subject, nothing else."""
