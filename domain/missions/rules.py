"""Rules of missions: validation, which events count, and when rewarded points expire."""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.calendar import add_days, add_months, zone_named
from domain.campaigns.context import EventFacts
from domain.event_types import BADGE_ASSIGNED, BADGE_UNASSIGNED, PAYMENT_CONFIRMED
from domain.expressions import Budget, Program
from domain.fields import wire_name
from domain.ledger.availability import Availability
from domain.ledger.records import LedgerAccount
from domain.matchers import ItemPredicate, compile_matcher
from domain.missions.progress import compile_count
from domain.missions.records import Mission, MissionClosed
from domain.orders import STATUS_OF_EVENT
from domain.problems import FieldFault, InvalidRequest

INLINE_MATCHER = "/inlineMatcher"
BADGE_EVENTS = frozenset({BADGE_ASSIGNED, BADGE_UNASSIGNED})

COUNT_COST = 20
"""Cost units of a mission that counts an event, in a budget of their own: some 50 microseconds for the whole count."""

DAYS, WEEKS, MONTHS, YEARS = "days", "weeks", "months", "years"

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class CompiledMission:
    """A compiled mission: an event counts only if one of its items meets all `item_predicates`, if there are any.

    `audience_keys` has the key of the audience whose members take part: None for all members, empty if the audience can
    match no member. Points go to `account`; None if it does not exist. `count` is the program that computes the count
    of an event; None counts 1. `fault` is the reason why a mission saved under earlier rules cannot count, None if it
    can.
    """

    mission: Mission
    item_predicates: Sequence[ItemPredicate]
    audience_keys: frozenset[str] | None
    account: LedgerAccount | None
    count: Program | None = None
    fault: str | None = None

    def is_open(self, at: datetime, audience_keys: Collection[str]) -> bool:
        """True if the mission is open at `at` to a member who is in these audiences."""
        mission = self.mission
        return (
            mission.active
            and (mission.valid_from is None or mission.valid_from <= at)
            and (mission.valid_to is None or at <= mission.valid_to)
            and (self.audience_keys is None or not self.audience_keys.isdisjoint(audience_keys))
        )

    def refuse_closed(self, at: datetime, audience_keys: Collection[str]) -> None:
        """Raise MissionClosed unless the mission `is_open`."""
        if self.is_open(at, audience_keys):
            return
        mission = self.mission
        if not mission.active:
            raise MissionClosed(f"The mission {mission.name} is not active.")
        if mission.valid_from is not None and at < mission.valid_from:
            raise MissionClosed(f"The mission {mission.name} begins at {mission.valid_from.isoformat()}.")
        if mission.valid_to is not None and at > mission.valid_to:
            raise MissionClosed(f"The mission {mission.name} ended at {mission.valid_to.isoformat()}.")
        raise MissionClosed(f"The member is not in the audience of the mission {mission.name}.")

    def counts(self, event: EventFacts, budget: Budget) -> bool:
        """True if the event counts for the mission, apart from limits on how often it may be achieved.

        Conditions on items use the budget; raises CostExceeded or TimeExceeded.
        """
        return (
            event.event_type == self.mission.event_type
            and self.is_open(event.at, event.audience_keys)
            and self._meets_conditions(event, budget)
        )

    def _meets_conditions(self, event: EventFacts, budget: Budget) -> bool:
        """True if amount, currency, items and badges of the event meet the conditions of the mission."""
        minimum = self.mission.min_spend_value
        if minimum is not None and (event.spend is None or event.spend < minimum):
            return False
        if self.mission.currency is not None and event.currency != self.mission.currency:
            return False
        if self.item_predicates and not any(self._matches(item, budget) for item in _items_of(event.context)):
            return False
        return self.mission.badge_matcher is None or _badges_match(self.mission.badge_matcher, event.context["badges"])

    def _matches(self, item: Mapping[str, Any], budget: Budget) -> bool:
        """True if the item meets the matcher that the mission names and its inline matcher."""
        for predicate in self.item_predicates:
            budget.charge(predicate.cost(item))
            if not predicate(item):
                return False
        return True


def _items_of(context: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The items of the order, or the products of the payment, each with its `sku` as `productCode`; else nothing."""
    if context["order"] is not None:
        items: Iterable[Mapping[str, Any]] = context["order"]["items"]
        return items
    if context["payment"] is not None:
        return [{**product, "productCode": product["sku"]} for product in context["payment"]["products"]]
    return ()


def _badges_match(matcher: Mapping[str, Any], badges: Mapping[str, Decimal]) -> bool:
    """True if the member's badges meet all the conditions, or with OR any of them."""
    matches = (
        _COMPARISONS[condition["operator"]](badges.get(condition["badgeKey"], 0), condition["value"])
        for condition in matcher["conditions"]
    )
    return all(matches) if matcher["operator"] == "AND" else any(matches)


def compile_mission(
    mission: Mission,
    matchers: Mapping[int, ItemPredicate],
    audience_keys: Mapping[int, str],
    accounts: Mapping[int, LedgerAccount],
    default_account: LedgerAccount | None,
) -> CompiledMission:
    """Compile a stored mission; a count expression that no longer compiles becomes the `fault`.

    The mappings are by id. `audience_keys` has the key of each audience that is active and can match members. A mission
    whose audience is not among them is open to no member. A mission without an account of its own has the
    `default_account`.
    """
    own_audience_keys: frozenset[str] | None = None
    if mission.audience_id is not None:
        key = audience_keys.get(mission.audience_id)
        own_audience_keys = frozenset() if key is None else frozenset([key])
    account_id = mission.ledger_account_id
    count, fault = _count_program(mission)
    return CompiledMission(
        mission=mission,
        item_predicates=_item_predicates(mission, matchers),
        audience_keys=own_audience_keys,
        account=default_account if account_id is None else accounts.get(account_id),
        count=count,
        fault=fault,
    )


def _count_program(mission: Mission) -> tuple[Program | None, str | None]:
    """The program that computes the count of an event, and the fault if it does not compile; (None, None) counts 1."""
    if mission.count_expression is None:
        return None, None
    try:
        return compile_count(mission.count_expression), None
    except InvalidRequest as refusal:
        return None, refusal.faults[0].detail


def _item_predicates(mission: Mission, matchers: Mapping[int, ItemPredicate]) -> Sequence[ItemPredicate]:
    """The conditions on an item: the matcher that the mission names, and the mission's inline matcher, if any."""
    predicates = [] if mission.matcher_id is None else [matchers[mission.matcher_id]]
    if mission.inline_matcher is not None:
        predicates.append(compile_matcher(mission.inline_matcher, INLINE_MATCHER))
    return predicates


def expiry_of_reward(mission: Mission, at: datetime) -> datetime | None:
    """The expiry of points that the mission pays at `at`, by its own rule and in its zone.

    None if the mission has no rule: then the policy of the account decides.
    """
    manual_expiration, zone = mission.manual_expiration, zone_named(mission.timezone)
    if manual_expiration is None:
        return None
    value, unit = int(manual_expiration["value"]), manual_expiration["unit"]
    if unit in (MONTHS, YEARS):
        return add_months(at, value if unit == MONTHS else 12 * value, zone)
    return add_days(at, value if unit == DAYS else 7 * value, zone)


# Pairs of fields: the first has no effect without the second.
_NEEDS = (
    ("period_limit", "repetition_period"),
    ("repetition_period", "period_limit"),
    ("ledger_id", "points_accrual"),
    ("ledger_account_id", "points_accrual"),
    ("manual_expiration", "points_accrual"),
)


def faults_of(body: Mapping[str, Any]) -> list[FieldFault]:
    """The contradictions between the fields of a mission; `body` has their Python names."""
    return [FieldFault(detail, pointer=pointer) for pointer, detail in _faults(body)]


def _faults(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The faults, each as the pointer to a field and a text."""
    event_type = body["event_type"]
    has_items = event_type == PAYMENT_CONFIRMED or event_type in STATUS_OF_EVENT
    if body["valid_from"] and body["valid_to"] and body["valid_to"] < body["valid_from"]:
        yield "/validTo", "validTo is before validFrom"
    if body["min_spend_value"] is not None and not has_items:
        detail = f"minSpendValue cannot be used with the event type {event_type}, which has no amount of money"
        yield "/minSpendValue", detail
    if body["currency"] is not None and not has_items:
        yield "/currency", f"currency cannot be used with the event type {event_type}, which has no amount of money"
    for name, pointer in (("matcher_id", "/matcherId"), ("inline_matcher", INLINE_MATCHER)):
        if body[name] is None:
            continue
        if not has_items:
            yield pointer, f"{pointer[1:]} cannot be used with the event type {event_type}, which has no items"
        if body["badge_matcher"] is not None:
            yield pointer, f"{pointer[1:]} and badgeMatcher cannot be sent together"
    if body["badge_matcher"] is not None and event_type not in BADGE_EVENTS:
        yield "/badgeMatcher", f"badgeMatcher cannot be used with the event type {event_type}, which has no badge"
    for name, other_name in _NEEDS:
        if body[name] is not None and body[other_name] is None:
            yield f"/{wire_name(name)}", f"{wire_name(name)} needs {wire_name(other_name)}"
    terms = Availability(
        body["available_at"], body["available_after"], body["available_rounding"], body["available_on"]
    )
    yield from ((f"/{name}", detail) for name, detail in terms.faults())
    if body["points_accrual"] is None:
        yield from ((f"/{name}", f"{name} needs pointsAccrual") for name in terms.term_names)
