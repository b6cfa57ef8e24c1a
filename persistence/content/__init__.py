"""Collections and documents in the database."""
