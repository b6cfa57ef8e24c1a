"""The participants of a unit of work: the state of one subject each (badges, coupons, missions...).

A participant is loaded after the members are locked, in a fixed number of statements. Campaign effects, rewards and
requests change it in memory. A flush stores all its changes, each table at once.
"""
