"""Sample programs with members and a history; each fills an empty test organization."""
