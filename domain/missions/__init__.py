"""Missions: goals that members reach, possibly several times, by events that count, and the rewards for it."""
