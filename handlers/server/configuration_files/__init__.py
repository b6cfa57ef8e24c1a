"""The configuration of an organization as YAML files, one for each record, with names instead of ids and keys.

Records are read and written by the operations that clients call, so files are checked by the same rules.
"""
