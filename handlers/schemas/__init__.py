"""Translation of names and types between the wire and the code, one module for each subject."""
