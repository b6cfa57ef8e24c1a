"""The rules of the double-entry ledger, as pure functions over values."""
