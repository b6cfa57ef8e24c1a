"""Simulations: what an order would give a member, and what is missing to the next reward."""
