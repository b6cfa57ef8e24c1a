"""The timeline of a member: what happened, in one list, each row with one sentence for people and ids for machines.

Rows are made from the records of other subjects, here called facts. The sentences are in English.
"""
