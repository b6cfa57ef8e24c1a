"""Copies of a configuration by files, with records that only exist in this state after others name them."""

from __future__ import annotations

import pytest

from handlers.http.local import LocalApi
from handlers.server.configuration_files import changes
from handlers.server.configuration_files.yaml_files import FaultyFiles, read_folder
from tests.builders.campaigns import effect, mint
from tests.builders.configuration_files import apply, copy_configuration
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, Shop, order, running

EVENT_TYPE = {"name": "App", "apiCode": "app-opened", "schemaType": "custom"}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def copy(api, tmp_path):
    """An empty organization, and a function that copies the configuration of a shop to it."""
    empty_shop = Shop(api.organization())

    def copy_from(shop):
        source_texts, target_texts = copy_configuration(api, shop.organization.id, empty_shop.organization.id, tmp_path)
        assert target_texts == source_texts
        local = LocalApi(api.settings, api.engine, "operator")
        assert changes.check_files(local, read_folder(tmp_path)) == ([], [])
        assert apply(api.engine, local, empty_shop.organization.id, tmp_path).changes == []
        return empty_shop

    return copy_from


@pytest.mark.parametrize(
    "account_settings",
    [
        {"expirationPolicies": [{"expirationType": "inactivity", "period": 1, "activities": ["app-opened"]}]},
        {"defaultAvailability": {"availableOn": {"eventTypes": ["app-opened"]}}},
    ],
    ids=["inactivity", "availability"],
)
def test_an_account_that_names_a_custom_event_type_is_copied(shop, copy, account_settings):
    shop.integration.post("/custom-event-types", EVENT_TYPE)
    shop.account(**account_settings)
    copy(shop)


def test_an_inactive_event_type_that_a_campaign_names_is_copied(shop, copy):
    shop.integration.post("/custom-event-types", EVENT_TYPE)
    shop.campaign(running(mint(("=", "1"))), eventType="app-opened")
    shop.integration.patch("/custom-event-types/app-opened", {"active": False})
    target_shop = copy(shop)
    event_type = target_shop.integration.get("/custom-event-types/app-opened")["eventType"]
    assert event_type["active"] is False


def test_an_archived_coupon_book_that_an_action_names_is_copied(shop, copy):
    body = {"name": "Free coffee", "type": "codeless", "publishingStatus": "published"}
    book_key = shop.integration.post("/coupon-books", body)["couponBook"]["couponBookKey"]
    shop.campaign(running(effect("assign-coupon", couponBookKey=book_key)))
    shop.integration.put(f"/coupon-books/{book_key}/status", {"publishingStatus": "archived"})
    target_shop = copy(shop)
    [target_book] = target_shop.integration.get("/coupon-books")["results"]
    assert target_book["publishingStatus"] == "archived"


def test_a_published_book_of_the_target_is_archived_by_a_file(api, shop, copy, tmp_path):
    body = {"name": "Free coffee", "type": "codeless", "publishingStatus": "published"}
    shop.integration.post("/coupon-books", body)
    target_shop = copy(shop)
    [book_file] = (tmp_path / "couponBook").iterdir()
    book_file.write_text(book_file.read_text().replace("published", "archived"))
    outcome = apply(api.engine, LocalApi(api.settings, api.engine, "operator"), target_shop.organization.id, tmp_path)
    [change] = outcome.changes
    assert change.fields == (("publishingStatus", "published", "archived"),)
    [target_book] = target_shop.integration.get("/coupon-books")["results"]
    assert target_book["publishingStatus"] == "archived"


def test_a_coupon_book_for_tiers_is_copied(shop, copy):
    tier_key = TierSchedule.new(shop, Silver=10).key("Silver")
    body = {"name": "Free coffee", "type": "codeless", "publishingStatus": "published", "tierKeys": [tier_key]}
    shop.integration.post("/coupon-books", body)
    target_shop = copy(shop)
    [target_book] = target_shop.integration.get("/coupon-books")["results"]
    target_tiers = target_shop.administration.get(
        f"/loyalty-programs/{target_shop.organization.defaults.loyalty_program_id}/tiers"
    )["results"]
    [silver] = [record for record in target_tiers if record["name"] == "Silver"]
    assert target_book["tierKeys"] == [silver["loyaltyTierKey"]]


def test_campaigns_and_missions_are_copied_in_the_order_of_their_creation(shop, copy):
    ten_off = running(effect("discount", type="amount", value=10))
    a_fifth_off = running(effect("discount", type="percentage", value=20))
    shop.campaign(ten_off, code="zeta")
    shop.campaign(a_fifth_off, code="alpha")
    for code in ("yard", "bar"):
        mission = {"code": code, "name": code, "eventType": ORDER_CREATED, "goalCount": 1, "maxRepetitions": 1}
        shop.administration.post("/missions", mission)
    target_shop = copy(shop)
    for customers_shop in (shop, target_shop):
        result = customers_shop.track_one(order(customers_shop.member(), 100))
        # 10 off, then 20 % of the remaining 90.
        assert result["discountTotal"] == 28
        assert [mission["code"] for mission in result["missions"]] == ["yard", "bar"]


def test_files_without_an_order_are_created_last_by_name(api, shop, tmp_path):
    local = LocalApi(api.settings, api.engine, "operator")
    fields = "fields: {{name: Campaign, code: {}}}\n"
    for code, order_entry in (("a", ""), ("b", ""), ("c", "order: 2\n"), ("d", "order: 1\n")):
        (tmp_path / f"{code}.yaml").write_text(f"record: campaign/{code}\n{order_entry}{fields.format(code)}")
    apply(api.engine, local, shop.organization.id, tmp_path)
    newest_first = shop.administration.get("/campaigns")["results"]
    assert [campaign["code"] for campaign in newest_first] == ["b", "a", "c", "d"]


def test_an_order_that_is_not_a_whole_number_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("record: campaign/a\norder: first\nfields: {name: Campaign, code: a}\n")
    with pytest.raises(FaultyFiles) as caught:
        read_folder(tmp_path)
    assert caught.value.faults == ["a.yaml, line 2: order is not a whole number"]
