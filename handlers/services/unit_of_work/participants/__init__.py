"""The participants of a unit of work: its state of each subject (badges, coupons, missions...).

A participant is opened once the members are locked, in a fixed number of statements; it is changed in memory, by
campaign effects, rewards and requests alike; and it is flushed once, in sets.
"""
