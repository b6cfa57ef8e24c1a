"""Organizations over HTTP: reads and updates."""

from __future__ import annotations


def test_an_organization_is_read_by_its_id(organization):
    record = organization.administration.get("")["organization"]
    assert record == {
        "organizationId": organization.id,
        "organizationKey": organization.defaults.organization_key,
        "environment": "live",
        "name": "Corner Coffee",
        "description": None,
        "pictureUrl": None,
        "defaultLoyaltyProgramId": organization.defaults.loyalty_program_id,
        "subscriptionLevel": "not-initialized",
        "subscriptionExpirationDate": None,
        "paymentProcessorCustomerId": None,
        "defaultLocale": "en",
        "locales": ["en"],
        "timezone": "UTC",
        "currency": None,
        "lateEventTiers": "event-date",
        "locationTimezones": {},
        "customAttributes": {},
        "createdAt": record["createdAt"],
        "updatedAt": record["createdAt"],
    }


def test_a_malformed_id_is_refused_with_400_and_another_organization_with_403(api, organization, other_organization):
    problem = api.surface(token=organization.token).get("/organizations/one", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["organizationId"]
    administration = api.surface(f"/organizations/{other_organization.id}", organization.token)
    assert administration.get("", expect=403)["type"] == "/problems/forbidden"
    assert administration.put("", {"defaultLocale": "en"}, expect=403)["type"] == "/problems/forbidden"


def test_an_update_changes_every_property(organization):
    program_body = {"ledgerId": organization.defaults.ledger_id, "description": "Another one", "setAsDefault": False}
    program = organization.administration.post("/loyalty-programs", program_body)["loyaltyProgram"]
    body = {
        "name": "Corner Coffee & Cake",
        "description": "Coffee bars in three towns.",
        "pictureUrl": "https://cornercoffee.example/logo.png",
        "defaultLoyaltyProgramId": program["loyaltyProgramId"],
        "defaultLocale": "es-AR",
        "locales": ["en", "es-AR"],
        "timezone": "Europe/Madrid",
        "currency": "EUR",
        "lateEventTiers": "evaluation",
        "locationTimezones": {"LPA": "Atlantic/Canary"},
        "customAttributes": {"founded": 1999, "towns": ["a", "b"]},
    }
    updated_organization = organization.administration.put("", body)["organization"]
    assert {name: updated_organization[name] for name in body} == body
    assert updated_organization["updatedAt"] > updated_organization["createdAt"]
    assert organization.administration.get("")["organization"] == updated_organization


def test_an_update_keeps_missing_fields_and_removes_fields_that_are_null(organization):
    organization.administration.put(
        "",
        {
            "name": "Kept",
            "description": "Forgotten",
            "pictureUrl": "https://x.example",
            "defaultLocale": "es",
            "locales": ["es", "en"],
            "customAttributes": {"a": 1},
        },
    )
    record_before = organization.administration.get("")["organization"]
    body = {"defaultLocale": "en", "description": None, "defaultLoyaltyProgramId": None}
    updated_organization = organization.administration.put("", body)["organization"]
    assert updated_organization == {**record_before, **body, "updatedAt": updated_organization["updatedAt"]}
    # Without a default program, a new member has no tier.
    assert organization.member()["tiers"] == []


def test_an_update_without_a_default_locale_or_with_an_empty_name_is_refused(organization):
    faults = organization.administration.put("", {"name": ""}, expect=400)["errors"]
    assert {fault["pointer"]: fault["detail"] for fault in faults} == {
        "/defaultLocale": "defaultLocale is missing.",
        "/name": "name is empty.",
    }


def test_the_default_locale_must_be_one_of_the_new_or_kept_locales(organization):
    administration = organization.administration
    # The organization has the locale en.
    for body in ({"defaultLocale": "fr"}, {"defaultLocale": "en", "locales": ["fr"]}):
        [fault] = administration.put("", {**body, "name": "Changed"}, expect=400)["errors"]
        detail = f"defaultLocale is {body['defaultLocale']}, which is not one of the locales."
        assert fault == {"detail": detail, "pointer": "/defaultLocale"}
    record = administration.get("")["organization"]
    assert (record["name"], record["defaultLocale"], record["locales"]) == ("Corner Coffee", "en", ["en"])
    administration.put("", {"defaultLocale": "fr", "locales": ["en", "fr"]})
    assert administration.put("", {"defaultLocale": "en"})["organization"]["locales"] == ["en", "fr"]
    # Without locales any default locale is allowed.
    record = administration.put("", {"defaultLocale": "de", "locales": []})["organization"]
    assert (record["defaultLocale"], record["locales"]) == ("de", [])


def test_the_default_program_must_belong_to_the_organization(organization, other_organization):
    for program_id in (other_organization.defaults.loyalty_program_id, 2**63 - 1):
        body = {"defaultLocale": "en", "name": "Changed", "defaultLoyaltyProgramId": program_id}
        problem = organization.administration.put("", body, expect=404)
        assert problem["type"] == "/problems/unknown-loyalty-program"
    assert organization.administration.get("")["organization"]["name"] == "Corner Coffee"


def test_only_an_administrator_can_update_the_organization(organization):
    reader = organization.administration.with_token(organization.token_of("tiers:write", "users:write"))
    assert reader.get("")["organization"]["organizationId"] == organization.id
    reader.put("", {"defaultLocale": "en"}, expect=403)
