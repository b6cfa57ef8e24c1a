"""Use cases shared by operations, campaign effects, the command line and the worker."""
