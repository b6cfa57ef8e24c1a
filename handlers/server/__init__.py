"""The server as a process: how connections are kept in bounds."""
