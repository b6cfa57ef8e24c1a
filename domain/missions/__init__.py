"""Missions: goals that members reach by events that count, again and again, and what they get for it."""
