"""Translation of names and types between the wire and inside, one module a subject."""
