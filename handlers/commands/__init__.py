"""The commands of the command line, one module a group; `handlers.cli` joins them."""
