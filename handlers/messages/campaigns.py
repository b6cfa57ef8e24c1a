"""Limits of campaigns in the form of responses and messages."""

from collections.abc import Mapping
from typing import Any


def limit_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A limit rule in the form of the API; fields that the rule does not have are null or empty."""
    return {"ledgerAccountKey": None, "sharedKey": None, "locationLimits": {}, "alertShares": [], **rule}
