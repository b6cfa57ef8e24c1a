"""The server as a process: commands, settings of gunicorn, limits of connections, jobs."""
