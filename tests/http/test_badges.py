"""Badges over HTTP: created, read, changed and listed."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.builders.badges import Badges, badge_body
from tests.builders.tracking import Shop

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def badges(organization):
    return Badges(Shop(organization))


@pytest.fixture
def integration(organization):
    return organization.integration


def test_a_badge_is_stored_with_all_its_fields(badges, integration):
    body = badge_body(
        description="Came before eight.",
        pictureUrl="https://images.example.com/early.png",
        maxAmount=2**53 - 1,
        tags=["morning", "fun"],
        customAttributes={"colour": "gold", "steps": [1, {"a": None}]},
        externalKey="early-bird",
    )
    badge = integration.post("/badges", body)["badge"]
    generated_fields = {name: badge[name] for name in ("badgeId", "badgeKey", "createdAt", "updatedAt")}
    assert badge == {**body, **generated_fields}
    assert integration.get(f"/badges/{badge['badgeKey']}") == {"badge": badge}
    assert integration.get(f"/badges/{badge['badgeKey'].upper()}") == {"badge": badge}


def test_missing_fields_of_a_badge_are_empty(integration):
    badge = integration.post("/badges", {"name": "A", "maxAmount": 1, "active": False})["badge"]
    empty_fields = {"description": None, "pictureUrl": None, "tags": [], "customAttributes": {}, "externalKey": None}
    assert {name: badge[name] for name in empty_fields} == empty_fields
    assert badge["active"] is False


def test_an_update_changes_only_the_fields_it_sends(badges, integration):
    badge = badges.create(description="A", pictureUrl="https://b.example", tags=["x"], customAttributes={"a": 1})
    for change in (
        {"name": "Late bird"},
        {"description": None},
        {"pictureUrl": None},
        {"maxAmount": 9},
        {"active": False},
        {"tags": []},
        {"customAttributes": {"b": 2}},
    ):
        updated_badge = badges.change(badge, **change)
        assert updated_badge == {**badge, **change, "updatedAt": updated_badge["updatedAt"]}
        assert updated_badge["updatedAt"] > badge["updatedAt"]
        badge = updated_badge
    assert integration.get(f"/badges/{badge['badgeKey']}") == {"badge": badge}
    unchanged_badge = badges.change(badge)
    assert unchanged_badge == {**badge, "updatedAt": unchanged_badge["updatedAt"]}


@pytest.mark.parametrize(
    ("fault", "pointer"),
    [
        ({"name": None}, "/name"),
        ({"name": ""}, "/name"),
        ({"maxAmount": 0}, "/maxAmount"),
        ({"maxAmount": 1.5}, "/maxAmount"),
        ({"maxAmount": 2**53}, "/maxAmount"),
        ({"maxAmount": "3"}, "/maxAmount"),
        ({"active": "yes"}, "/active"),
        ({"active": None}, "/active"),
        ({"tags": ["a,b"]}, "/tags/0"),
        ({"customAttributes": []}, "/customAttributes"),
        ({"badgeKey": UNKNOWN}, "/badgeKey"),
    ],
)
def test_faults_of_badges_are_reported_with_pointers(badges, integration, fault, pointer):
    badge = badges.create()
    for problem in (
        integration.post("/badges", badge_body(**fault), expect=400),
        integration.patch(f"/badges/{badge['badgeKey']}", fault, expect=400),
    ):
        assert {error["pointer"] for error in problem["errors"]} == {pointer}
    assert integration.get("/badges")["results"] == [badge]


@pytest.mark.parametrize("field", ["name", "maxAmount", "active"])
def test_a_badge_without_a_required_field_is_refused(integration, field):
    body = badge_body()
    del body[field]
    assert integration.post("/badges", body, expect=400)["type"] == "/problems/invalid-request"


def test_unknown_and_foreign_badges_are_not_found(badges, integration, other_organization):
    foreign_badge = Badges(Shop(other_organization)).create()
    for key in (UNKNOWN, foreign_badge["badgeKey"]):
        assert integration.get(f"/badges/{key}", expect=404)["type"] == "/problems/not-found"
        assert integration.patch(f"/badges/{key}", {}, expect=404)["type"] == "/problems/not-found"
    assert integration.get("/badges/early-bird", expect=400)["errors"][0]["parameter"] == "badgeKey"
    assert integration.get("/badges")["totalCount"] == 0


def test_badges_are_listed_newest_first_in_pages(badges, integration):
    badge_ids = [badges.create(name=f"B{n}")["badgeId"] for n in range(5)]
    page = integration.get("/badges", limit=2, page=1)
    assert (page["totalCount"], page["page"], page["limit"]) == (5, 1, 2)
    assert [result["badgeId"] for result in page["results"]] == [badge_ids[2], badge_ids[1]]
    assert integration.get("/badges")["limit"] == 25
    assert integration.get("/badges", page=9)["results"] == []
    assert integration.get("/badges", page=9)["totalCount"] == 5


def test_badges_can_be_ordered_by_every_column(badges, integration):
    records = [
        badges.create(name=name, maxAmount=maximum, active=active)
        for name, maximum, active in (("b", 3, True), ("a", 3, False), ("c", 1, True))
    ]
    for column in ("badgeId", "name", "active", "maxAmount", "createdAt", "updatedAt"):
        for direction in ("asc", "desc"):
            ids = [result["badgeId"] for result in integration.get("/badges", order=f"{column},{direction}")["results"]]
            reverse = direction == "desc"
            ordered_records = sorted(records, key=lambda record: (record[column], record["badgeId"]), reverse=reverse)
            assert ids == [record["badgeId"] for record in ordered_records]


# The tags are no column to order by, and the maximum limit is 25.
@pytest.mark.parametrize(
    ("parameter", "value"),
    [("order", "tags"), ("limit", 26), ("limit", 0), ("page", -1), ("active", "x"), ("colour", "red")],
)
def test_an_invalid_query_of_the_list_of_badges_is_refused(integration, parameter, value):
    problem = integration.get("/badges", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_filters_find_the_same_badges_as_a_full_scan(badges, integration):
    # The eight sets of the tags a, b and c.
    tag_sets = [tags for size in range(4) for tags in combinations("abc", size)]
    records = [badges.create(tags=list(tags), active=bool(n % 2)) for n, tags in enumerate(tag_sets)]
    for filter_tags in tag_sets:
        for active in (None, True, False):
            query = {} if active is None else {"active": active}
            query |= {"tags": ",".join(filter_tags)} if filter_tags else {}
            page = integration.get("/badges", **query)
            expected_ids = [
                record["badgeId"]
                for record in reversed(records)
                if set(filter_tags) <= set(record["tags"]) and active in (None, record["active"])
            ]
            assert [result["badgeId"] for result in page["results"]] == expected_ids
            assert page["totalCount"] == len(expected_ids)


def test_the_error_of_an_unknown_order_lists_the_columns_and_suggests_one(integration):
    [fault] = integration.get("/badges", order="tags", expect=400)["errors"]
    assert fault["detail"].startswith("order is not one of these columns, without or with ,asc or ,desc after it: ")
    assert fault["detail"].endswith(" badgeId, name, active, maxAmount, createdAt, updatedAt.")
    [fault] = integration.get("/badges", order="creatdAt,desc", expect=400)["errors"]
    assert fault["detail"].endswith("updatedAt. Did you mean createdAt?")
    [fault] = integration.get("/badges", ordr="name", expect=400)["errors"]
    assert fault["detail"] == "The query parameter ordr is not known here. Did you mean order?"
