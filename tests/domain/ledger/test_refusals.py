"""Texts about ledgers and accounts that do not exist."""

from __future__ import annotations

import pytest

from domain.ledger.refusals import unknown_account, unknown_ledger


def test_the_refusal_of_an_unknown_ledger_contains_its_id():
    assert unknown_ledger(None) == "The organization has no default ledger."
    assert unknown_ledger(0) == "There is no ledger 0."
    assert unknown_ledger(7) == "There is no ledger 7."


@pytest.mark.parametrize(
    ("ledger", "account", "text"),
    [
        (None, None, "The default ledger has no default account."),
        (None, 5, "The default ledger has no account 5."),
        (7, None, "The ledger 7 has no default account."),
        (7, 0, "The ledger 7 has no account 0."),
    ],
)
def test_an_unknown_account_is_named_with_its_ledger(ledger, account, text):
    assert unknown_account(ledger, account) == text
