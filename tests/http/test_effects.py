"""The catalogue of effects over HTTP."""

from __future__ import annotations

import pytest

from domain.event_types import BUILT_IN_EVENT_TYPES

# Ordered by id, which is also the order by name.
IDS = [
    "advance-mission",
    "assign-badge",
    "assign-coupon",
    "burn-points",
    "discount",
    "extend-expiry",
    "mint-points",
    "notify",
    "set-tier",
    "unassign-badge",
    "use-coupon",
]


@pytest.fixture
def administration(organization):
    return organization.administration


def test_the_catalogue_is_listed_by_id(organization, administration):
    catalogue = administration.get("/effects")
    assert (catalogue["totalCount"], catalogue["page"], catalogue["limit"]) == (len(IDS), 0, 100)
    assert [result["effectId"] for result in catalogue["results"]] == IDS
    for result in catalogue["results"]:
        assert result["organizationId"] == organization.id
        assert sorted(result["supportedEventTypes"].values()) == sorted(BUILT_IN_EVENT_TYPES)
        assert result["supportedEventTypes"]["MemberPurchaseOrderCreated"] == "member-purchase-order-created"
        assert administration.get(f"/effects/{result['effectId']}") == {"effect": result}


def test_the_catalogue_describes_the_parameters_of_each_effect(administration):
    catalogue = administration.get("/effects")
    params = {result["effectId"]: result["params"] for result in catalogue["results"]}
    # The fields of the tuples below.
    assert list(params["mint-points"][0]) == ["id", "label", "type", "defaultValue", "isOptional"]
    assert [tuple(param.values()) for param in params["mint-points"]] == [
        ("amount", "Amount", "decimal", None, False),
        ("ledgerAccountKey", "Ledger account", "string", None, True),
        ("recipient", "Recipient", "string", "member", True),
        ("expirationDate", "Expiration date", "timestamp", None, True),
        ("description", "Description", "string", None, True),
        ("qualifyingAmount", "Qualifying amount", "decimal", None, True),
        ("availableAt", "Available at", "timestamp", None, True),
        ("availableAfter", "Available after", "string", None, True),
        ("availableRounding", "Rounding of availability", "string", None, True),
        ("availableOn", "Available on an event", "map<string, dyn>", None, True),
    ]
    assert [param["id"] for param in params["burn-points"]] == [
        "amount",
        "ledgerAccountKey",
        "recipient",
        "description",
    ]
    for effect_id in ("assign-badge", "unassign-badge"):
        assert [tuple(param.values()) for param in params[effect_id]] == [
            ("badgeKey", "Badge", "string", None, False),
            ("amount", "Amount", "decimal", 1, True),
        ]
    for effect_id in ("assign-coupon", "use-coupon"):
        assert [tuple(param.values()) for param in params[effect_id]] == [
            ("couponBookKey", "Coupon book", "string", None, False),
            ("amount", "Amount", "decimal", 1, True),
        ]
    assert [tuple(param.values()) for param in params["set-tier"]] == [
        ("loyaltyProgramKey", "Loyalty program", "string", None, False),
        ("loyaltyTierKey", "Tier", "string", None, False),
        ("expiresAt", "Expires at", "timestamp", None, True),
        ("tierHold", "Tier hold", "string", "fixed", True),
    ]
    assert [(param["id"], param["isOptional"]) for param in params["discount"]] == [
        ("type", False),
        ("value", False),
        ("base", True),
        ("itemFilter", True),
        ("per", True),
        ("maxAmount", True),
    ]
    assert [(param["id"], param["type"], param["isOptional"]) for param in params["notify"]] == [
        ("name", "string", False),
        ("data", "map<string, dyn>", True),
    ]


def test_the_catalogue_can_be_ordered_and_paged(administration):
    def ids(**query):
        """The ids of the effects on the page."""
        return [result["effectId"] for result in administration.get("/effects", **query)["results"]]

    for column in ("effectId", "name"):
        assert ids(order=column) == ids(order=f"{column},asc") == IDS
        assert ids(order=f"{column},desc") == IDS[::-1]
    assert ids(limit=2) == IDS[:2]
    assert ids(limit=2, page=1) == IDS[2:4]
    assert ids(page=9) == []
    assert administration.get("/effects", page=9)["totalCount"] == len(IDS)


@pytest.mark.parametrize(
    ("parameter", "value"), [("order", "params"), ("limit", 101), ("limit", 0), ("page", -1), ("colour", "red")]
)
def test_an_invalid_query_of_the_catalogue_is_refused(administration, parameter, value):
    problem = administration.get("/effects", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_an_unknown_effect_is_not_found(administration):
    assert administration.get("/effects/give-cake", expect=404)["type"] == "/problems/not-found"
    # An id of an effect has no spaces.
    problem = administration.get("/effects/Mint%20points", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["effectId"]
