"""Participants: what one unit of work keeps of each subject (badges, coupons, missions...) while it is under way.

A desk is opened once the members are locked, in a fixed number of statements; it is changed in memory, by campaign
effects, rewards and requests alike; and it is written once, in sets. `desks.Participants` holds all those of a unit.
"""
