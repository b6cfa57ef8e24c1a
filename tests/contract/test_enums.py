"""The values of enums that a client cannot guess are explained where it reads them."""

from __future__ import annotations

import pytest

import openapi
from tests.contract.documents import resolve

# The interface, the schema and the field.
EXPLAINED = [
    ("integration", "CouponBookInput", "publishingStatus"),
    ("integration", "ExplanationReason", "code"),
    ("integration", "LedgerTransaction", "transactionType"),
    ("integration", "OrderPayload", "status"),
    ("integration", "ReferralResult", "status"),
    ("administration", "CampaignAction", "status"),
    ("administration", "Import", "status"),
    ("administration", "PurchaseOrder", "status"),
]


@pytest.mark.parametrize(("surface", "schema", "field_name"), EXPLAINED)
def test_an_enum_describes_each_of_its_values(surface, schema, field_name):
    document = openapi.bundle(surface)
    field = document["components"]["schemas"][schema]["properties"][field_name]
    target = resolve(document, field)
    description = field.get("description", "") + target.get("description", "")
    assert [value for value in target["enum"] if value is not None and f"`{value}`" not in description] == []
