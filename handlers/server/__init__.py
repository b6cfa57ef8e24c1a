"""The processes of the server: commands, gunicorn and its connections, the worker and its jobs."""
