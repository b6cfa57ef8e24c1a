"""The commands of the command line, one module a group; `handlers.server.cli` joins them."""
