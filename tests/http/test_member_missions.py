"""The list of a member's missions: every filter and order, compared with a scan of all missions."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.builders.missions import advance, body, member_id_of
from tests.builders.tracking import ORDER_CREATED, Shop, event

DAYS = (-40, -10, 10, 40)
TAGS, TYPES = ("a", "b", "c"), ("visits", "orders", None)


def text_of(moment):
    return moment.isoformat().replace("+00:00", "Z")


def moment_of(value):
    return None if value is None else datetime.fromisoformat(value)


class Scan:
    """The 24 missions of one organization, and a model of a member's progress in them."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.random = shop, random.Random(seed)
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.member = shop.member()
        self.member_id = member_id_of(shop, self.member)
        self.path = f"/members/{self.member_id}/missions"
        audiences = [shop.administration.post("/audiences", {"matcherType": "list-matcher"}) for _ in range(2)]
        self.audiences = [audience["audience"]["audienceId"] for audience in audiences]
        change = {"add": [self.member_id]}
        shop.administration.patch(f"/audiences/{self.audiences[0]}/members", change)
        self.missions = [self.create(number) for number in range(24)]
        # Missions are restricted after the progress, because a closed mission has no progress.
        self.progress_by_mission = {mission["missionId"]: self.advance(mission) for mission in self.missions}
        self.missions = [self.restrict(mission) for mission in self.missions]

    def create(self, number: int) -> dict[str, Any]:
        """Create a random mission that is open for the member."""
        pick = self.random.choice
        period = pick((None, "daily", "weekly", "monthly", "yearly"))
        mission_body = body(
            name=f"Mission {pick('ABC')}",
            code=f"code-{number}" if number % 2 else None,
            type=pick(TYPES),
            tags=[tag for tag in TAGS if pick((True, False))],
            loyaltyProgramId=pick((None, self.shop.organization.defaults.loyalty_program_id)),
            eventType=ORDER_CREATED,
            goalCount=pick((1, 2, 3)),
            maxRepetitions=pick((1, 2, 100)),
            repetitionPeriod=period,
            periodLimit=None if period is None else pick((1, 2)),
            pointsAccrual=pick((None, number)),
        )
        return self.shop.administration.post("/missions", mission_body)["mission"]

    def advance(self, mission: dict[str, Any]) -> dict[str, Any]:
        """Advance the member's progress some times, today or long ago; return the progress."""
        amounts = self.random.choice(((), (1,), (2,), (3,), (1, 1), (4,)))
        progress, achieved_today = {"times": 0, "count": 0, "last": None}, 0
        for amount in amounts:
            day = self.random.choice((0, -400))
            if not self.can_progress(mission, progress, achieved_today, day):
                continue
            date = text_of(self.now + timedelta(days=day))
            response = advance(self.shop, self.member, mission["missionId"], amount=amount, externalEventDate=date)
            balance = response["balance"]
            achieved_today += balance["lastGoalsAchieved"] if day == 0 else 0
            progress = {
                "times": balance["timesAchieved"],
                "count": balance["currentCounterCount"],
                "last": balance["lastAchievedAt"],
            }
        return {**progress, "today": achieved_today}

    def can_progress(self, mission: dict[str, Any], progress: dict[str, Any], achieved_today: int, day: int) -> bool:
        """True if the mission can still be achieved, on a day that is 0 (today) or long ago."""
        remaining = mission["maxRepetitions"] - progress["times"]
        # Achievements of the earlier day use up the limit of that day.
        times_long_ago = progress["times"] - achieved_today
        achieved_on_day = achieved_today if day == 0 else times_long_ago
        return remaining > 0 and (mission["periodLimit"] is None or achieved_on_day < mission["periodLimit"])

    def restrict(self, mission: dict[str, Any]) -> dict[str, Any]:
        """Give the mission random dates and a random audience, or deactivate it."""
        pick = self.random.choice
        first_day, last_day = sorted((pick(DAYS), pick(DAYS)))
        changes = {
            "active": pick((True, True, False)),
            "validFrom": pick((None, text_of(self.now + timedelta(days=first_day)))),
            "validTo": pick((None, text_of(self.now + timedelta(days=last_day)))),
            "audienceId": pick((None, None, *self.audiences)),
        }
        unchanged_fields = ("organizationId", "missionId", "missionKey", "createdAt", "updatedAt")
        mission_body = {name: value for name, value in mission.items() if name not in unchanged_fields} | changes
        return self.shop.administration.put(f"/missions/{mission['missionId']}", mission_body)["mission"]

    def matches(self, mission: dict[str, Any], query: dict[str, Any]) -> bool:
        """True if the mission satisfies all filters of a query, by the model."""
        if {"validFrom", "validTo"} <= query.keys() and query["validTo"] < query["validFrom"]:
            # No moment is between the two.
            return False
        progress = self.progress_by_mission[mission["missionId"]]
        begins, ends = moment_of(mission["validFrom"]), moment_of(mission["validTo"])
        tests = {
            "loyaltyProgramId": lambda value: mission["loyaltyProgramId"] == value,
            "type": lambda value: mission["type"] == value,
            "codes": lambda value: mission["code"] in value.split(","),
            "tags": lambda value: set(value.split(",")) <= set(mission["tags"]),
            "missionKey": lambda value: mission["missionKey"] == value,
            "active": lambda value: mission["active"] == value,
            "validFrom": lambda value: ends is None or ends >= moment_of(value),
            "validTo": lambda value: begins is None or begins <= moment_of(value),
            "minTimesAchieved": lambda value: progress["times"] >= value,
            "minCounterCount": lambda value: progress["count"] >= value,
            "available": lambda value: self.is_available(mission, progress) == value,
            "inProgress": lambda value: (
                (0 < progress["count"] < mission["goalCount"] and progress["times"] < mission["maxRepetitions"])
                == value
            ),
        }
        return all(tests[name](value) for name, value in query.items())

    def is_available(self, mission: dict[str, Any], progress: dict[str, Any]) -> bool:
        """True if the mission can be achieved now, by the model."""
        begins, ends = moment_of(mission["validFrom"]), moment_of(mission["validTo"])
        return (
            mission["active"]
            and (begins is None or begins <= self.now)
            and (ends is None or ends >= self.now)
            and mission["audienceId"] in (None, self.audiences[0])
            and progress["times"] < mission["maxRepetitions"]
            and (mission["periodLimit"] is None or progress["today"] < mission["periodLimit"])
        )

    def query(self) -> dict[str, Any]:
        """One to three of the filters, with values that some missions have."""
        pick, mission = self.random.choice, self.random.choice(self.missions)
        values = {
            "loyaltyProgramId": self.shop.organization.defaults.loyalty_program_id,
            "type": pick(("visits", "orders")),
            "codes": ",".join(f"code-{self.random.randrange(24)}" for _ in range(6)),
            "tags": ",".join(self.random.sample(TAGS, pick((1, 2)))),
            "missionKey": mission["missionKey"],
            "active": pick((True, False)),
            "validFrom": text_of(self.now + timedelta(days=pick((-60, -20, 0, 20, 60)))),
            "validTo": text_of(self.now + timedelta(days=pick((-60, -20, 0, 20, 60)))),
            "minTimesAchieved": pick((0, 1, 2)),
            "minCounterCount": pick((0, 1, 2, 3)),
            "available": pick((True, False)),
            "inProgress": pick((True, False)),
        }
        return {name: values[name] for name in self.random.sample(sorted(values), pick((1, 1, 2, 3)))}

    def list_missions(self, **query: Any) -> list[dict[str, Any]]:
        return self.shop.administration.get(self.path, **query)["results"]


@pytest.fixture(scope="module")
def scan(api):
    return Scan(Shop(api.organization()), seed=7)


@pytest.mark.slow
def test_every_filter_finds_the_same_missions_as_a_scan(scan):
    sizes = []
    for _ in range(120):
        query = scan.query()
        expected_ids = [mission["missionId"] for mission in scan.missions[::-1] if scan.matches(mission, query)]
        assert [mission["missionId"] for mission in scan.list_missions(**query)] == expected_ids, query
        sizes.append(len(expected_ids))
    # The queries find some of the 24 missions, on average neither none nor nearly all.
    assert 0 < sum(sizes) / len(sizes) < 20


@pytest.mark.parametrize("name", ["available", "inProgress", "active"])
def test_every_mission_matches_one_of_the_two_values_of_a_boolean_filter(scan, name):
    counts = [len(scan.list_missions(**{name: value})) for value in (True, False)]
    assert sum(counts) == len(scan.missions)
    assert all(counts)


def test_each_mission_has_its_record_and_balance(scan):
    for mission in scan.list_missions():
        progress = scan.progress_by_mission[mission["missionId"]]
        balance = mission.pop("balance")
        assert mission == scan.shop.administration.get(f"/missions/{mission['missionId']}")["mission"]
        assert balance == {
            "memberId": scan.member_id,
            "timesAchieved": progress["times"],
            "currentCounterCount": progress["count"],
            "lastCounterCountWhenAchieved": mission["goalCount"] if progress["times"] else None,
            "lastAchievedAt": progress["last"],
        }


@pytest.mark.parametrize(
    "column", ["name", "goalCount", "validTo", "timesAchieved", "currentCounterCount", "lastAchievedAt"]
)
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_in_every_order_have_each_mission_once(scan, column, direction):
    pages = [scan.list_missions(order=f"{column},{direction}", limit=7, page=page) for page in range(5)]
    missions = [mission for page in pages for mission in page]
    assert {mission["missionId"] for mission in missions} == {mission["missionId"] for mission in scan.missions}
    assert [len(page) for page in pages] == [7, 7, 7, 3, 0]
    values = [mission.get(column, mission["balance"].get(column)) for mission in missions]
    # Missions without a value come last.
    present_values = [value for value in values if value is not None]
    count_of_missing_values = len(values) - len(present_values)
    assert values == sorted(present_values, reverse=direction == "desc") + [None] * count_of_missing_values
    assert scan.shop.administration.get(scan.path, limit=7, page=9)["totalCount"] == len(scan.missions)


def test_no_mission_is_valid_in_a_range_that_ends_before_it_begins(scan):
    early, late = (text_of(scan.now + timedelta(days=days)) for days in (-400, 400))
    assert len(scan.list_missions(validFrom=early, validTo=late)) == len(scan.missions)
    page = scan.shop.administration.get(scan.path, validFrom=late, validTo=early)
    assert (page["totalCount"], page["results"]) == (0, [])
    # The moments count, not their texts: this range, in two time zones, is one moment.
    local, utc = "2026-03-02T01:00:00+01:00", "2026-03-02T00:00:00Z"
    missions_at_moment = scan.list_missions(validFrom=utc, validTo=utc)
    assert missions_at_moment != []
    assert scan.list_missions(validFrom=local, validTo=utc) == missions_at_moment


def test_a_member_without_progress_has_all_missions_at_zero(scan):
    new_member_id = member_id_of(scan.shop, scan.shop.member())
    missions = scan.shop.administration.get(f"/members/{new_member_id}/missions")["results"]
    assert len(missions) == len(scan.missions)
    balances = [mission["balance"] for mission in missions]
    assert {balance["timesAchieved"] for balance in balances} == {0}
    assert {balance["currentCounterCount"] for balance in balances} == {0}


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 101},
        {"order": "tags"},
        {"minTimesAchieved": -1},
        {"minCounterCount": "x"},
        {"available": "maybe"},
        {"validFrom": "yesterday"},
        {"missionKey": "three"},
        {"loyaltyProgramId": 0},
        {"colour": "red"},
    ],
)
def test_invalid_parameters_are_refused(scan, query):
    problem = scan.shop.administration.get(scan.path, expect=400, **query)
    assert [error["parameter"] for error in problem["errors"]] == list(query)


def test_the_missions_of_an_unknown_member_are_not_found(scan, other_organization):
    foreign_member = other_organization.member()["loyaltyMemberId"]
    for member_id in (10**9, member_id_of(Shop(other_organization), foreign_member)):
        scan.shop.administration.get(f"/members/{member_id}/missions", expect=404)


def test_missions_that_count_orders_do_not_count_a_generic_event(scan):
    assert scan.shop.track_one(event(scan.member))["missions"] == []
