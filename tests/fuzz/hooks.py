"""Hooks of Schemathesis: put values into valid requests that a schema cannot express, such as ids of existing records.

They change only the parts of a request that were generated as valid, and leave one in eight of them unchanged, except
in requests that follow links, where a 404 means that a record was lost.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

from domain.exports import FILTERS_OF_KIND
from tests.fuzz.known import (
    PENDING,
    SETTLED,
    WORLD,
    are_known,
    dead_letters,
    deletable_documents,
    learn,
    open_badge_trackings,
    open_coupon_uses,
    open_events,
    open_transactions,
    removable_users,
)
from tests.fuzz.world import CONDITIONS, GIFT, REDEMPTION, REFERRAL_CODE, Client

MAX_URL_LENGTH = 8000
GOOD_PASSWORD = "espresso-and-rain-41"
FUTURE = "2099-12-31T23:00:00Z"
_numbers = itertools.count(1)
_following_links = False
_done_exports: list[int] = []

# A short run sends every fortieth boundary case of each kind of an operation: the first, the 41st and so on of about
# half of the kinds, and the 20th, the 60th and so on of the others.
SENT_ONE_OF = 40
# (operation, mode) -> kind -> the number of its cases so far. The mode is positive or negative.
_cases: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

Body = dict[str, Any]


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """In a short run, skip most boundary cases of the same kind, such as wrong types of fields."""
    if "FUZZ_SHORT" not in os.environ or case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
        return True
    operation, kind = case.operation.label, str(case.meta.phase.data.scenario)
    cases = _cases[operation, str(case.meta.generation.mode)]
    cases[kind] += 1
    number = list(cases).index(kind)
    # The first kind is sent, so that each operation gets valid and invalid data.
    is_sent_first = number == 0 or (number + zlib.crc32(operation.encode())) % 2
    return cases[kind] % SENT_ONE_OF == (1 if is_sent_first else SENT_ONE_OF // 2)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make the valid parts of a request succeed."""
    if case.meta is None:
        return
    global _following_links
    _following_links = case.meta.phase.name is TestPhase.STATEFUL
    operation = case.operation.definition.raw.get("operationId", "")
    # A request from examples may have information about only some parts; all its parts are valid.
    are_valid = dict.fromkeys(ParameterLocation, case.meta.generation.mode.is_positive)
    are_valid |= {place: info.mode.is_positive for place, info in case.meta.components.items()}
    if are_valid[ParameterLocation.PATH]:
        _use_real_ids(operation, case.path_parameters)
    if are_valid[ParameterLocation.BODY] and isinstance(case.body, dict):
        body = json.loads(json.dumps(case.body))
        _unique(body, "externalKey", 100)
        _keep_limits_of_times(body)
        if operation in _BODIES:
            _BODIES[operation](body, case.path_parameters)
        case.body = body
    if are_valid[ParameterLocation.BODY] and operation == "uploadImportPart" and not case.body:
        # Only the description says that a part has content: clients for Go do not compile bounds of files.
        case.body = b"loyaltyMemberId,name\nana,Ana\n"
    if are_valid[ParameterLocation.QUERY] and operation == "listDailyBalances":
        _use_few_days(case.query)
    if are_valid[ParameterLocation.QUERY] and operation.startswith("report"):
        _use_real_ranges(case.query)
    if are_valid[ParameterLocation.QUERY] and operation in ("listMemberTimeline", *_LONG_LISTS):
        _use_real_cursors(operation, case.query)
    if are_valid[ParameterLocation.QUERY] and operation in _OF_CONTENT:
        _use_real_fields(case.query)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Remember the records of a successful response for later requests."""
    is_json = response.headers.get("content-type", [""])[0].startswith("application/json")
    if 200 <= response.status_code < 300 and response.content and is_json:
        learn(case.operation.definition.raw.get("operationId", ""), case.body, response.json())


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """False for failures that are allowed: refusals that the documents cannot express."""
    if response.status_code == 414 and len(response.request.url) > MAX_URL_LENGTH:
        return False
    operation = case.operation.definition.raw.get("operationId")
    # The form of a token does not show who signed it.
    if operation == "redeemOfflineAllowance" and response.status_code == 400:
        return not response.json()["type"].endswith("/offline-allowance-invalid")
    # A document of a batch that has the wrong form is reported in the response, and refuses no other.
    return not (operation == "batchUpsertDocuments" and response.status_code == 200 and response.json()["failureCount"])


def _now_and_then() -> bool:
    """True for one call in eight, unless the run follows links."""
    return not _following_links and next(_numbers) % 8 == 0


def _use_real_ids(operation: str, path: dict[str, Any]) -> None:
    """Replace ids in the path by those of existing records that suit the operation."""
    real = {**WORLD.ids, **WORLD.changeable.get(operation, {})}
    if operation == "getOrganization":
        real["organizationId"] = str(real["organizationId"])
    if operation == "revertLedgerTransaction":
        real["ledgerTransactionId"] = next(iter(open_transactions[SETTLED]), real["ledgerTransactionId"])
    if operation == "revertBadgeTracking":
        name = next(iter(open_badge_trackings), real["badgeTrackingKey"])
        open_badge_trackings.pop(name, None)
        real |= {"badgeTrackingKey": name, "badgeTrackingIdentifier": name}
    if operation in ("revertMemberCouponUsage", "revertCouponUsage") and open_coupon_uses:
        name = next(iter(open_coupon_uses))
        real |= {"couponUsageKey": name, "couponUsageId": open_coupon_uses.pop(name)}
    if operation == "requeueDeadLetterEvent":
        real["loyaltyEventKey"] = next(iter(dead_letters), real["loyaltyEventKey"])
    if operation == "deleteDocument" and deletable_documents:
        real["documentKeyOrSlug"] = next(iter(deletable_documents))
        del deletable_documents[real["documentKeyOrSlug"]]
        path["documentKeyOrSlug"] = real["documentKeyOrSlug"]
    if operation == "cancelEvent":
        real["loyaltyEventKey"] = next(iter(open_events), real["loyaltyEventKey"])
    if operation == "getExportPart":
        real["exportId"] = _done_export()
    if operation == "removeUser" and removable_users:
        real["userId"] = removable_users.popitem()[0]
    # Other known programs do not have the tier of the body.
    programs = {"loyaltyProgramId", "loyaltyProgramKey"} if operation == "setMemberTier" else set()
    for name in path.keys() & {"organizationId", *programs}:
        path[name] = real[name]
    # A generated value may be the id of a record that other operations must find unchanged.
    for name, other in WORLD.changeable.get(operation, {}).items():
        if str(path.get(name)) == str(WORLD.ids.get(name)):
            path[name] = other
    if (are_known(path) and (_following_links or next(_numbers) % 2)) or _now_and_then():
        return
    for name in path:
        path[name] = real[name]


def _done_export() -> int:
    """The id of a completed export; a new one if the last one has expired, as by the erasure of a member."""
    call = Client(urlsplit(os.environ["FUZZ_URL"]).port or 0, WORLD.token)
    home = f"/organizations/{WORLD.ids['organizationId']}/exports"
    if not _done_exports or call("GET", f"{home}/{_done_exports[-1]}")["export"]["status"] != "done":
        # The number of waiting exports is limited.
        _wait_until(lambda: not call("GET", f"{home}?status=queued")["totalCount"])
        _done_exports.append(call("POST", home, {"kind": "members"})["export"]["exportId"])
    _wait_until(lambda: call("GET", f"{home}/{_done_exports[-1]}")["export"]["status"] == "done")
    return _done_exports[-1]


def _wait_until(is_true: Callable[[], bool]) -> None:
    """Wait half a minute at most."""
    for _ in range(300):
        if is_true():
            break
        time.sleep(0.1)


def _use_few_days(query: dict[str, Any]) -> None:
    """Let the range of days be in order and within the maximum."""
    today = datetime.now(UTC).date()
    for name, day in (("fromDate", today - timedelta(next(_numbers) % 365)), ("toDate", today)):
        if name in query:
            query[name] = day.isoformat()


def _use_real_ranges(query: dict[str, Any]) -> None:
    """Use a range that begins before it ends, and a time zone, an account and an event type that exist."""
    end = datetime.now(UTC)
    moments = {"sinceFrom": end - timedelta(hours=next(_numbers) % 5000), "sinceTo": end}
    real = {name: moment.isoformat().replace("+00:00", "Z") for name, moment in moments.items()}
    real |= {"tz": "Asia/Kathmandu", "eventType": WORLD.ids["apiCode"], "ledgerAccountId": WORLD.ids["ledgerAccountId"]}
    for name, value in real.items():
        if name in query:
            query[name] = value


# The parts of the cursors of long lists: the name of the list, and the values of a row that follow its id.
_LONG_LISTS: dict[str, tuple[str, list[int]]] = {
    "listAuditLog": ("audit_log.audit_log_id", []),
    "listCouponBookCoupons": ("coupons.position", []),
    "listCoupons": ("coupons.coupon_id", []),
    "listLedgerTransactions": ("ledger_transactions.ledger_transaction_id", [0]),
    "listMemberCouponUsages": ("coupon_usages.coupon_usage_id", []),
    "listMemberEvents": ("events.loyalty_event_id", []),
    "listMemberLedgerTransactions": ("e.ledger_transaction_id", [0]),
    "listMembers": ("members.member_id", []),
    "listPurchaseOrders": ("purchase_orders.order_id", []),
    "listTriggerDeliveries": ("trigger_deliveries.trigger_delivery_id", []),
}


def _use_real_cursors(operation: str, query: dict[str, Any]) -> None:
    """Use a cursor as the server returns it: of the timeline of a member, or of a long list in its default order."""
    if "cursor" not in query:
        return
    place: dict[str, Any] = {"events": next(_numbers)}
    if operation in _LONG_LISTS:
        name, rest = _LONG_LISTS[operation]
        place = {"list": name, "order": None, "page": 1, "total": 100, "last": [next(_numbers), *rest]}
        # The cursor does not fit these parameters.
        for other in ("order", "page", "couponBookKey", "walletId"):
            query.pop(other, None)
    query["cursor"] = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


_OF_CONTENT = (
    *("searchDocuments", "listMemberContentDocuments", "listMemberValidDocuments"),
    *("getDocument", "updateDocument", "deleteDocument"),
)


def _use_real_fields(query: dict[str, Any]) -> None:
    """Use fields that the collection declares, and the locale of its documents."""
    for name, value in (("sort", "price:asc"), ("facet", ["colour=red"]), ("range", ["price:1..20.5"])):
        if name in query:
            query[name] = value
    if "locale" in query and not _now_and_then():
        query["locale"] = ""


_UNREADABLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]")


def _unique(body: Body, name: str, longest: int = 255) -> None:
    """Put a new number before the generated value, so that it is unique."""
    if isinstance(body.get(name), str) and not _now_and_then():
        body[name] = f"{next(_numbers)}-{body[name]}"[:longest].rstrip()


def _real(body: Body, name: str, value: Any) -> None:
    """Replace the field if it has a value."""
    if body.get(name) is not None and not _now_and_then():
        body[name] = value


def _one_end(body: Body, first: str, last: str) -> None:
    """Clear one end of a period, so that it cannot end before it begins."""
    if body.get(first) is not None:
        body[last] = None
    elif body.get(last) is not None:
        body[first] = None


# Durations that every operation accepts, by the name of the field.
_DURATIONS = {"validFor": "PT1H", "availableAfter": "P14D", "cancelAfter": "P60D", "cooldown": "PT24H"}
# Dates that are in the year 0 or 10000 in UTC, because of their offset.
_BEYOND_THE_YEARS = re.compile(r"0001-01-01T.*\+\d\d:\d\d|9999-12-31T.*-\d\d:\d\d")


def _keep_limits_of_times(node: Any) -> None:
    """Replace durations and dates that satisfy the pattern and format, but exceed the limits of the operations."""
    if isinstance(node, list):
        for child in node:
            _keep_limits_of_times(child)
    elif isinstance(node, dict):
        for name, child in node.items():
            if isinstance(child, str) and name in _DURATIONS:
                node[name] = _DURATIONS[name]
            elif isinstance(child, str) and _BEYOND_THE_YEARS.fullmatch(child):
                node[name] = child[:19] + "Z"
            else:
                _keep_limits_of_times(child)


def _available(body: Body, *, is_mint: bool = True) -> None:
    """Remove terms of availability that exclude each other, or all of them if nothing is minted."""
    if not is_mint or body.get("availableAt"):
        for name in ("availableAfter", "availableRounding", "availableOn"):
            body.pop(name, None)
    if not is_mint:
        body.pop("availableAt", None)
    if body.get("availableOn") and not _now_and_then():
        body["availableOn"]["eventTypes"] = ["member-purchase-order-confirmed"]
    elif not body.get("availableAfter"):
        body.pop("availableRounding", None)


def _available_rewards(body: Body, *, is_mint: bool) -> None:
    """Remove contradictory terms, and clear those that are left out: an update would keep their stored values."""
    _available(body, is_mint=is_mint)
    for name in ("availableAt", "availableAfter", "availableOn"):
        body.setdefault(name, None)
    body.setdefault("availableRounding", "none")


def _pay(order: Body) -> None:
    """Let the payments of an order be one of its total."""
    if order.get("payments") is not None:
        order["payments"] = [{"tender": "card", "amount": order.get("total", 0)}]


def _whole(body: Body, *names: str) -> None:
    """Make the amounts whole numbers, for accounts without decimals."""
    for name in names:
        if body.get(name) is not None:
            body[name] = int(body[name])


def _expiry(body: Body, name: str) -> None:
    if body.get(name) is not None:
        body[name] = FUTURE


def _readable(body: Body, name: str) -> None:
    """Remove the characters from an id that the server refuses, and that no portable pattern can exclude."""
    if isinstance(body.get(name), str):
        body[name] = _UNREADABLE.sub("", body[name]).strip() or "x"


def _member(body: Body, path: Body) -> None:
    for name in ("loyaltyMemberId", "publicLoyaltyMemberId"):
        _readable(body, name)
        _unique(body, name)


def _members(body: Body, path: Body) -> None:
    for member in body["members"]:
        _member(member, path)


def _import_start(body: Body, path: Body) -> None:
    if not _now_and_then():
        body["parts"] = 1


def _export(body: Body, path: Body) -> None:
    filter_names = FILTERS_OF_KIND[body["kind"]]
    filters = {name: value for name, value in body.get("filters", {}).items() if name in filter_names}
    for name in ("memberId", "ledgerAccountId", "couponBookId"):
        _real(filters, name, WORLD.ids[name])
    if "filters" in body:
        body["filters"] = filters


def _member_change(body: Body, path: Body) -> None:
    _readable(body, "loyaltyMemberId")
    _readable(body, "publicLoyaltyMemberId")
    _unique(body, "publicLoyaltyMemberId")
    if "loyaltyMemberId" in body:
        if "loyaltyMemberId" in path:
            body["loyaltyMemberId"] = path["loyaltyMemberId"]
        elif _following_links:
            # Later links of the scenario name the member by the id that it was created with.
            del body["loyaltyMemberId"]
            body.setdefault("customAttributes", {})
        else:
            _unique(body, "loyaltyMemberId")


def _event_type(body: Body, path: Body) -> None:
    if "apiCode" in path:
        if "apiCode" in body:
            body["apiCode"] = path["apiCode"]
    else:
        _unique(body, "apiCode")


def _zone(body: Body) -> None:
    if body.get("timezone") is not None:
        body["timezone"] = "America/Buenos_Aires"


def _hours(body: Body) -> None:
    """Use one window of hours and no days of the week, which exclude each other; the stored record may have some."""
    if body.get("dayOfWeekSchedule"):
        body |= {"dayOfWeekSchedule": {"schedule": [{"day": 1, "from": "00:00", "to": "24:00"}]}, "daysOfWeek": []}
    elif body.get("daysOfWeek"):
        body["dayOfWeekSchedule"] = None


def _organization(body: Body, path: Body) -> None:
    _zone(body)
    if body.get("locationTimezones"):
        body["locationTimezones"] = {"centre": "America/Buenos_Aires"}
    # The default locale has to be one of the locales, of those that the organization has if none are sent.
    body["locales"] = [*body.get("locales", [])[:99], body["defaultLocale"]]
    _real(body, "defaultLoyaltyProgramId", WORLD.ids["loyaltyProgramId"])


def _program(body: Body, path: Body) -> None:
    for name, value in (
        ("ledgerId", WORLD.ids["ledgerId"]),
        ("tierPointsLedgerAccountId", WORLD.ids["ledgerAccountId"]),
        ("mainLedgerAccountId", WORLD.ids["ledgerAccountId"]),
        ("mainPortalId", None),
        ("defaultTierId", None),
    ):
        _real(body, name, value)
    if body.get("tierPolicy") is not None:
        body["tierPolicy"] = {"basis": "earned", "period": "rolling", "months": 12}


def _account(body: Body, path: Body) -> None:
    _unique(body, "alias", 100)
    _whole(body, "overdraftLimit", "maxSupply", "maxBalance")
    _zone(body)
    if body.get("offlineAllowance"):
        _whole(body["offlineAllowance"], "maxAmount")
    if body.get("redemption"):
        body["redemption"] = {"pointsPerUnit": 100, "currency": "EUR"}
    if body.get("defaultAvailability"):
        awaited_event = {"eventTypes": ["member-purchase-order-confirmed"], "cancelAfter": "P60D"}
        body["defaultAvailability"] = {"availableAfter": "P14D", "availableOn": awaited_event}
    if body.get("tierExpirations"):
        body["tierExpirations"] = [{"loyaltyTierKey": WORLD.keys["tier"], "months": 24}]
    if body.get("expirationPolicies"):
        body["expirationPolicies"] = [{"expirationType": "inactivity", "period": 12}]
    if not body.get("expiresInMonths"):
        # An update without it would keep that of the account, and round an expiry that the account no longer has.
        body["expiryRounding"] = "none"
        body.pop("tierExpirations", None)
    if not body["isRevolving"]:
        # An update without it would keep that of the account.
        body["overdraftLimit"] = 0
    if body.get("expiresInMonths") or body.get("expirationPolicies"):
        body.pop("pointTrackingEnabled", None)
    elif body.get("pointTrackingEnabled") is False:
        # An update without it would keep that of the account.
        body |= {"expiresInMonths": None, "tierExpirations": [], "expirationPolicies": []}


def _points(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "ledgerId", WORLD.ids["ledgerId"])
    _real(body, "ledgerAccountId", WORLD.ids["ledgerAccountId"])
    # The account has no fraction digits.
    _whole(body, "amount", "qualifyingAmount")
    _expiry(body, "expirationDate")
    _available(body)


def _expiry_extension(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "ledgerAccountId", WORLD.ids["ledgerAccountId"])
    _real(body, "memberId", WORLD.ids["memberId"])
    if body.get("memberId") is not None:
        body.pop("ledgerLotIds", None)
    _expiry(body, "until")
    body["months"] = 3 if body.get("until") is None else None


def _points_payment(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "ledgerAccountKey", None)
    _real(body, "currency", "EUR")
    if "systemUniqueKey" in body:
        body |= {"points": 1 + next(_numbers) % 3, "value": None}
    if "orderTotal" in body:
        body["orderTotal"] = 100


def _captured_payment(body: Body, path: Body) -> None:
    body.pop("points", None)


def _releases(body: Body, path: Body) -> None:
    if WORLD.waiting_mints and not _now_and_then():
        body["transactions"] = [{"ledgerTransactionId": str(WORLD.waiting_mints.pop())}]


def _allowance(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    body |= {"amount": 1 + int(body["amount"]) % 10, "ledgerAccountKey": None, "validFor": None}


def _redemption(body: Body, path: Body) -> None:
    # Sometimes a wrong token. A redemption has to match its token, which no schema can express.
    token = "wrong" if _now_and_then() else WORLD.keys["redemption"]
    body.clear()
    body |= {**REDEMPTION, "token": token}


def _burn(body: Body, path: Body) -> None:
    _points(body, path)
    if not _now_and_then():
        body["amount"] %= 10


def _movement(body: Body, path: Body) -> None:
    giver, receiver = WORLD.wallet_ids
    choices = [(None, giver), (giver, None), (giver, receiver), (receiver, giver)]
    body["fromWalletId"], body["toWalletId"] = choices[next(_numbers) % len(choices)]
    is_mint, is_burn = body["fromWalletId"] is None, body["toWalletId"] is None
    (_points if is_mint else _burn)(body, path)
    # A mint with a manual capture cannot have terms of availability.
    _available(body, is_mint=is_mint and body.get("captureMethod") != "manual")
    if not is_mint and not is_burn:
        body.pop("countsAsActivity", None)
    if not is_burn and not _now_and_then():
        for name in ("fiatValue", "fiatGrossAmount", "fiatCurrency"):
            body.pop(name, None)


def _movements(body: Body, path: Body) -> None:
    for item in body["create"]:
        _movement(item, path)


def _movement_batch(body: Body, path: Body) -> None:
    for item in body["items"]:
        _real(item, "organizationId", WORLD.ids["organizationId"])
        if item.get("revertedLedgerTransactionId"):
            for name in ("amount", "fromWalletId", "toWalletId", "captureMethod", "expirationDate", "countsAsActivity"):
                item.pop(name, None)
            _available(item, is_mint=False)
            _revert(item, path)
            for name in ("ledgerId", "ledgerAccountId"):
                _real(item, name, WORLD.ids[name])
            _real(item, "revertedLedgerTransactionId", next(iter(open_transactions[SETTLED]), None))
        else:
            item.update({"amount": item.get("amount") or 1, "ledgerAccountId": item.get("ledgerAccountId") or 1})
            _movement(item, path)
            if item["fromWalletId"] or item.get("captureMethod") == "manual":
                item.pop("expirationDate", None)


def _revert(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    if not _now_and_then():
        body.pop("partialFiatValue", None)


def _revert_batch(body: Body, path: Body) -> None:
    settled_ids = [str(open_transaction) for open_transaction in itertools.islice(open_transactions[SETTLED], 2)]
    body["transactionIds"][: len(settled_ids)] = settled_ids
    if "partialFiatValues" in body:
        # At most one value for each transaction of the request.
        pairs = zip(dict.fromkeys(body["transactionIds"]), body["partialFiatValues"], strict=False)
        body["partialFiatValues"] = [{**value, "ledgerTransactionId": identity} for identity, value in pairs]


def _captures(body: Body, path: Body) -> None:
    if open_transactions[PENDING] and not _now_and_then():
        identity, held_amount = next(iter(open_transactions[PENDING].items()))
        item = {**body["transactions"][0], "ledgerTransactionId": str(identity)}
        if item.get("captureAmount") is not None:
            item["captureAmount"] = int(min(item["captureAmount"], held_amount))
        body["transactions"] = [item]


def _supply(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _whole(body, "maxSupply")


def _tier(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    _real(body, "loyaltyTierId", WORLD.ids["loyaltyTierId"])
    _real(body, "loyaltyTierKey", WORLD.keys["tier"])
    if body.get("loyaltyTierId") is None and body.get("loyaltyTierKey") is None:
        body.pop("expiresAt", None)
        body.pop("tierHold", None)
    _expiry(body, "expiresAt")


def _campaign(body: Body, path: Body) -> None:
    _unique(body, "code")
    _zone(body)
    _hours(body)
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    _real(body, "eventType", "cup-returned")
    _real(body, "audienceKeys", [WORLD.keys["audience"]])
    _real(body, "loyaltyTierKeys", [WORLD.keys["tier"]])
    _real(body, "enabledTopics", ["cup-returned", "member-purchase-order-created"])
    for rule in body.get("limitRules", ()):
        _limit_rule(body, rule)
    _one_end(body, "validFrom", "validTo")


def _limit_rule(body: Body, rule: Body) -> None:
    _real(rule, "ledgerAccountKey", WORLD.keys["account"])
    # Rules that count together are equal, which those of different campaigns are not.
    _unique(rule, "sharedKey", longest=100)
    if rule.get("type") != "points":
        rule.pop("ledgerAccountKey", None)
        _whole(rule, "limit")
    if rule.get("type") == "money":
        body["currency"] = "EUR"
    if rule.get("scope") == "location":
        rule["locationLimits"] = {"centre": 5}
    else:
        rule.pop("locationLimits", None)
    if rule.get("scope") == "member":
        rule.pop("alertShares", None)


def _action(body: Body, path: Body) -> None:
    if body.get("rules"):
        n = next(_numbers) % len(CONDITIONS)
        body["rules"] = {"expression": CONDITIONS[n]} if "expression" in body["rules"] else {"node": WORLD.trees[n]}
    amount = {"id": "amount", "expression": "order.total * 2"}
    choices = [
        {"effectId": "mint-points", "params": [{"id": "amount", "value": 5}]},
        {"effectId": "burn-points", "params": [amount]},
        {"effectId": "advance-mission", "params": [{"id": "missionKey", "value": WORLD.keys["mission"]}]},
        {"effectId": "mint-points", "params": [amount, {"id": "ledgerAccountKey", "value": WORLD.keys["account"]}]},
        {"effectId": "assign-badge", "params": [{"id": "badgeKey", "value": WORLD.keys["badge"]}]},
        {"effectId": "assign-coupon", "params": [{"id": "couponBookKey", "value": WORLD.keys["gift"]}]},
        {
            "effectId": "set-tier",
            "params": [
                {"id": "loyaltyProgramKey", "value": WORLD.keys["program"]},
                {"id": "loyaltyTierKey", "value": WORLD.keys["tier"]},
            ],
        },
    ]
    # An action is in at most one group, and no stacking group has the generated key.
    if body.get("stackingGroupKey") is not None or body.get("exclusiveGroup") is not None:
        body["stackingGroupKey"] = None
    body["effects"]["items"] = [choices[next(_numbers) % len(choices)] for _ in body["effects"]["items"]]


def _badge(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    if not _now_and_then():
        body["amount"] = body.get("amount", 1) % 10 + 1


def _coupon(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "code", GIFT)
    _real(body, "memberId", WORLD.ids["memberId"])
    # A schema cannot express these rules, and a violation gets 400, so every generated value is replaced.
    for name in ("pendingCaptureLedgerTransactionId", "numberOfCodes"):
        body.pop(name, None)
    for name, value in (("pointsOverride", 0), ("expiresAt", FUTURE), ("expiredAt", FUTURE)):
        if body.get(name) is not None:
            body[name] = value
    if "systemUniqueKeys" in body:
        body["systemUniqueKeys"] = [f"{next(_numbers)}-codes"]
    if "codes" in body:
        body["codes"] = [GIFT] if body["codes"] else []


def _coupon_batch(body: Body, path: Body) -> None:
    for item in body["items"]:
        _unique(item, "systemUniqueKey")
        item.pop("loyaltyMemberId", None)
        item["memberId"] = WORLD.ids["memberId"]


def _matcher(body: Body, path: Body) -> None:
    if "organizationId" in body:
        body["organizationId"] = path["organizationId"]
    choices = [
        {"field": "productCode", "operator": "startsWith", "value": "latte"},
        {"field": "total", "operator": ">=", "value": 4.5},
        {"field": "customAttributes.sizes", "operator": "in", "value": ["small", 2, True]},
    ]
    conditions = body["matcher"]["conditions"]
    body["matcher"]["conditions"] = [choices[next(_numbers) % len(choices)] for _ in conditions]


def _audience(body: Body, path: Body) -> None:
    if "organizationId" in body:
        body["organizationId"] = path["organizationId"]
    if body["matcherType"] == "attribute-matcher":
        attributes = body.setdefault("matcher", {}).get("customAttributes")
        if attributes is not None:
            attributes["values"] = {"staff": True, "size": ["small", 2]}
    else:
        body.pop("matcher", None)


def _book(body: Body, path: Body) -> None:
    is_new = "couponBookKey" not in path and "couponBookId" not in path
    _real(body, "audienceKeys", [WORLD.keys["audience"]])
    _real(body, "tierKeys", [WORLD.keys["tier"]])
    _real(body, "loyaltyProgramKey", WORLD.ids["loyaltyProgramKey"])
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    _zone(body)
    _hours(body)
    if "tiers" in body:
        body["tiers"] = [WORLD.ids["loyaltyTierId"]] if body.get("tierKeys") or body["tiers"] else []
    body["requiredPointsConfig"] = {"ledgerAccountKey": WORLD.keys["account"]}
    _whole(body, "assignmentRequiredPoints", "usageRequiredPoints")
    for limit, period in (
        ("maxUsagesPerPeriod", "usagePeriodType"),
        ("maxDiscountPerPeriod", "discountPeriodType"),
    ):
        if limit in body or period in body:
            body[period] = None if body.setdefault(limit, None) is None else body.get(period) or "daily"
    if body.get("validFromDate") and (body.get("validToDate") or not is_new):
        body["validToDate"] = FUTURE
        body["validFromDate"] = "2020-01-01T00:00:00Z"
    elif not is_new:
        body.pop("validToDate", None)
    if body.get("condition"):
        body["condition"] = {"expression": "member.active && now > timestamp('2020-01-01T00:00:00Z')"}
    if is_new and body.get("isValueCoupon"):
        body["faceValue"] = 10
    elif not is_new:
        body.pop("isValueCoupon", None)
    if body.get("type") != "generated":
        body.pop("codePattern", None)
    elif body.get("codePattern") is not None:
        body["codePattern"] = {"length": 20}


def _book_status(body: Body, path: Body) -> None:
    # An archived book cannot be changed, and later requests change this one.
    if body["publishingStatus"] == "archived" and path.get("couponBookKey") in (
        identifiers["couponBookKey"] for identifiers in WORLD.changeable.values() if "couponBookKey" in identifiers
    ):
        body["publishingStatus"] = "disabled"


def _codes(body: Body, path: Body) -> None:
    body["codes"] = [f"{next(_numbers)}-{code}"[:255].rstrip() for code in body["codes"]]


def _code(body: Body, path: Body) -> None:
    _unique(body, "code")


def _collection(body: Body, path: Body) -> None:
    if "collectionKeyOrSlug" in path:
        body.pop("slug", None)
    _unique(body, "slug", 200)
    _real(body, "slug", f"slug-{next(_numbers)}")
    if "facetFields" in body:
        body["facetFields"] = {"colour": {}}
    if "jsonschema" in body:
        body["jsonschema"] = {"type": "object", "properties": {"price": {"type": "number"}}}


def _document(body: Body, path: Body) -> None:
    if "attrs" in body:
        # The collection may have been created by a request as one of coupons, whose documents need a book.
        about = {"couponBookKey": WORLD.ids["couponBookKey"]}
        body["attrs"] = {"title": "A drink", "price": 3.5, "colour": "red", **about}
    _real(body, "audienceKeys", [WORLD.keys["audience"]])
    for name in ("locale", "slug"):
        body.pop(name, None)
    if body.get("fromDate"):
        body["fromDate"] = "2020-01-01T00:00:00Z"
    if body.get("toDate"):
        body["toDate"] = FUTURE
    if body.get("dayOfWeekSchedule"):
        body["dayOfWeekSchedule"] = {
            "timezone": "Europe/Madrid",
            "schedule": [{"day": 1, "fromHour": 9, "toHour": 17}],
        }


def _audience_change(body: Body, path: Body) -> None:
    body["matcherType"] = "attribute-matcher"
    _audience(body, path)


def _audience_list(body: Body, path: Body) -> None:
    _real(body, "add", [WORLD.ids["memberId"]])
    if "remove" in body:
        body["remove"] = [member_id for member_id in body["remove"] if member_id not in body.get("add", ())]


def _trigger(body: Body, path: Body) -> None:
    _unique(body, "triggerKey")
    settings = body["settings"]
    settings["url"] = "https://hooks.invalid/loyalty"
    if settings.get("secret") is not None:
        settings["secret"] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    if "headers" in settings:
        settings["headers"] = {"X-Source": "fuzz"}
    _real(settings, "eventTypes", ["cup-returned"])
    settings.pop("eventTypes" if body["type"] == "EntityChangeWebhook" else "entities", None)


def _mission(body: Body, path: Body) -> None:
    _unique(body, "code", longest=100)
    _zone(body)
    for name in ("campaignId", "loyaltyProgramId", "audienceId", "matcherId", "ledgerId", "ledgerAccountId"):
        _real(body, name, WORLD.ids[name])
    for name in ("badgeKey", "couponBookKey"):
        _real(body, name, WORLD.ids[name])
    # An update keeps fields that it omits, so fields that exclude the new ones are cleared.
    if body.get("badgeMatcher") is not None:
        for condition in body["badgeMatcher"]["conditions"]:
            _real(condition, "badgeKey", WORLD.ids["badgeKey"])
        body["eventType"] = "badge-assigned"
        body |= dict.fromkeys(("matcherId", "inlineMatcher", "minSpendValue", "currency"))
    else:
        body |= {"eventType": "member-purchase-order-created", "badgeMatcher": None}
    if body.get("inlineMatcher") is not None:
        _matcher({"matcher": body["inlineMatcher"]}, path)
        body["matcherId"] = None
    elif body.get("matcherId") is not None:
        body["inlineMatcher"] = None
    if body.get("periodLimit") is None or body.get("repetitionPeriod") is None:
        body |= {"periodLimit": None, "repetitionPeriod": None}
    if body.get("countExpression") is not None:
        body["countExpression"] = "order.items.map(i, i.quantity).sum()" if next(_numbers) % 2 else "order.total / 10"
    # Points of the account never expire.
    body["manualExpiration"] = None
    _whole(body, "pointsAccrual")
    if body.get("pointsAccrual") is None:
        body |= dict.fromkeys(("pointsAccrual", "ledgerId", "ledgerAccountId"))
    _available_rewards(body, is_mint=bool(body["pointsAccrual"]))
    _one_end(body, "validFrom", "validTo")


def _mission_progress(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")


def _referral_program(body: Body, path: Body) -> None:
    _unique(body, "code")
    _zone(body)
    _real(body, "eventType", "cup-returned")
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    _real(body, "campaignId", WORLD.ids["campaignId"])
    _real(body, "audienceId", WORLD.ids["audienceId"])
    for side in ("referrer", "referred"):
        _real(body, f"{side}LedgerId", WORLD.ids["ledgerId"])
        _real(body, f"{side}LedgerAccountId", WORLD.ids["ledgerAccountId"])
        _real(body, f"{side}CouponBookKey", WORLD.ids["couponBookKey"])
        _whole(body, f"{side}PointsAccrual")
    _available_rewards(body, is_mint=bool(body.get("referrerPointsAccrual") or body.get("referredPointsAccrual")))
    _one_end(body, "validFromDate", "validToDate")


def _referral_codes(body: Body, path: Body) -> None:
    _real(body, "memberId", WORLD.ids["memberId"])
    if not _now_and_then():
        body["codes"] = [f"{next(_numbers)}-{code}"[:255] for code in body["codes"]]


def _payload(event: Body) -> None:
    if event.get("payload"):
        _real(event["payload"], "referralCode", REFERRAL_CODE)
        _pay(event["payload"].get("order") or {})


def _events(body: Body, path: Body) -> None:
    if body.get("executionMode", "full") != "dryRun" and not body.get("dryRun"):
        # Only dry runs accept these.
        body.pop("now", None)
        body.pop("trace", None)
    if "campaignKeys" in body:
        _real(body, "campaignKeys", [WORLD.keys["campaign"]])
    for event in body["events"]:
        _unique(event, "systemUniqueKey")
        _real(event, "loyaltyMemberId", WORLD.ids["loyaltyMemberId"])
        _real(event, "eventType", "cup-returned")
        _payload(event)


def _event(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "memberId", WORLD.ids["memberId"])
    _real(body, "eventType", "cup-returned")
    body["organizationId"] = path["organizationId"]
    _payload(body)


def _order(body: Body, path: Body) -> None:
    _unique(body, "externalId")
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])


def _orders(body: Body, path: Body) -> None:
    for order in body["orders"]:
        _order(order, path)
        _real(order, "loyaltyMemberId", WORLD.ids["loyaltyMemberId"])


def _user(body: Body, path: Body) -> None:
    _unique(body, "authClientId")
    body["isSystemAdmin"] = False
    _groups(body)
    is_person = body.get("email") is not None
    if is_person:
        body["email"] = f"{next(_numbers)}@corner-coffee.example"
    if body.get("password") is not None:
        body["password"] = GOOD_PASSWORD
    # A schema cannot express these rules: a breach is a 400.
    if body.get("isExternal"):
        body.pop("password", None)
    if body.get("isExternal") or not is_person:
        body.pop("passwordIsTemporary", None)
    if not is_person:
        body.pop("sendInvite", None)


def _user_change(body: Body, path: Body) -> None:
    body.pop("isSystemAdmin", None)
    _groups(body)
    # A repeated organization gets 400, and another one than that of the path 403.
    body["organizations"] = [
        {**organization, "organizationId": path["organizationId"]} for organization in body["organizations"][:1]
    ]


def _user_permissions(body: Body, path: Body) -> None:
    _groups(body)
    if not body.get("permissionGroupKeys"):
        body.setdefault("isAdmin", False)
        body.setdefault("roles", [])


def _groups(body: Body) -> None:
    if body.get("permissionGroupKeys"):
        body["permissionGroupKeys"] = [WORLD.ids["permissionGroupKey"]]


def _new_password(body: Body, path: Body) -> None:
    body["password"] = GOOD_PASSWORD
    body.pop("permanent", None)


def _addresses(body: Body, path: Body) -> None:
    _groups(body)
    body["emails"] = [f"{next(_numbers)}@corner-coffee.example" for _ in body["emails"]]


def _reassigned(body: Body, path: Body) -> None:
    _addresses(body, path)
    if not body.keys() & {"isAdmin", "roles", "permissionGroupKeys"}:
        body["isAdmin"] = False


def _permission_group(body: Body, path: Body) -> None:
    _unique(body, "permissionGroupKey", 100)


def _portal(body: Body, path: Body) -> None:
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    if body.get("authRedirectUrl") is not None:
        body["authRedirectUrl"] = "https://members.corner-coffee.example/callback"


def _credentials(body: Body, path: Body) -> None:
    if not _now_and_then():
        body |= {"client_id": WORLD.client_id, "client_secret": WORLD.client_secret}
    if "scope" in body:
        body["scope"] = "members:read"
    # The secret must stay valid, and the API user has only one organization.
    body.pop("new_password", None)
    body.pop("organization_id", None)


def _simulation(body: Body, path: Body) -> None:
    """Simulate only one of order, payment and event, for a stored or a hypothetical member."""
    happenings = [name for name in ("order", "payment", "event") if name in body] or ["order"]
    body.setdefault("order", {"total": 12.5})
    for name in ("order", "payment", "event"):
        if name != happenings[0]:
            body.pop(name, None)
    if body.get("loyaltyMemberId") is not None:
        body.pop("as", None)
    for name in ("order", "payment"):
        if name in body:
            _unique(body[name], "externalId")
            _unique(body[name], "paymentId")
            body[name].pop("status", None)
            _pay(body[name])
    if "event" in body:
        _real(body["event"], "eventType", "cup-returned")
        _payload(body["event"])
    _real(body, "loyaltyMemberId", WORLD.ids["loyaltyMemberId"])
    _real(body, "campaignKeys", [WORLD.keys["campaign"]])
    person = body.get("as") or {}
    _real(person, "tierKeys", [WORLD.keys["tier"]])
    _real(person, "audienceKeys", [WORLD.keys["audience"]])
    _real(person, "balances", {WORLD.keys["account"]: 120})
    _real(person, "badges", {WORLD.ids["badgeKey"]: 1})
    _real(person, "missions", {WORLD.keys["mission"]: {"timesAchieved": 1}})


def _payment_intent(body: Body, path: Body) -> None:
    _unique(body, "paymentId")
    _unique(body, "referenceId")
    _real(body, "organizationKey", WORLD.organization_key)
    if not _now_and_then():
        body["loyaltyMemberId"] = f"customer-{next(_numbers) % 50}"
        body["forceUserSubscription"] = True
        if info := body.get("memberInfo"):
            info.pop("loyaltyMemberId", None)
            _unique(info, "userGovId", 100)


_BODIES: dict[str, Callable[[Body, Body], None]] = {
    "createMember": _member,
    "createMembers": _members,
    "startImport": _import_start,
    "createExport": _export,
    "updateMember": _member_change,
    "createCustomEventType": _event_type,
    "updateCustomEventType": _event_type,
    "updateOrganization": _organization,
    "createLoyaltyProgram": _program,
    "updateLoyaltyProgram": _program,
    "createLedgerAccount": _account,
    "updateLedgerAccount": _account,
    "extendExpiry": _expiry_extension,
    "quotePointsPayment": _points_payment,
    "createPointsPayment": _points_payment,
    "capturePointsPayment": _captured_payment,
    "refundPointsPayment": _points_payment,
    "releaseLedgerTransactions": _releases,
    "lockCoupon": _coupon,
    "createOfflineAllowance": _allowance,
    "redeemOfflineAllowance": _redemption,
    "mintMemberPoints": _points,
    "burnMemberPoints": _burn,
    "mintWalletPoints": _points,
    "burnWalletPoints": _burn,
    "createLedgerTransaction": _movement,
    "createLedgerTransactionSet": _movements,
    "batchLedgerTransactions": _movement_batch,
    "revertLedgerTransaction": _revert,
    "batchRevertLedgerTransactions": _revert_batch,
    "captureLedgerTransactions": _captures,
    "updateMaxSupply": _supply,
    "setMemberTier": _tier,
    "setMemberTierByLoyaltyMemberId": _tier,
    "createCampaign": _campaign,
    "updateCampaign": _campaign,
    "assignBadge": _badge,
    "unassignBadge": _badge,
    "useCoupon": _coupon,
    "assignCoupon": _coupon,
    "assignCoupons": _coupon,
    "batchAssignCoupons": _coupon_batch,
    "useCouponCode": _coupon,
    "assignCouponCode": _coupon,
    "createMatcher": _matcher,
    "updateMatcher": _matcher,
    "createAudience": _audience,
    "updateAudience": _audience_change,
    "updateAudienceMembers": _audience_list,
    "createTrigger": _trigger,
    "updateTrigger": _trigger,
    "createMission": _mission,
    "updateMission": _mission,
    "updateMissionProgress": _mission_progress,
    "createCouponBook": _book,
    "updateCouponBook": _book,
    "updateCouponBookStatus": _book_status,
    "addCouponBookCoupons": _codes,
    "updateCouponCode": _code,
    "simulate": _simulation,
    "createPartnerAPaymentIntent": _payment_intent,
    "createPartnerBPaymentIntent": _payment_intent,
    "createCollection": _collection,
    "updateCollection": _collection,
    "updateDocument": _document,
    "upsertDocumentLocale": _document,
    "createReferralProgram": _referral_program,
    "updateReferralProgram": _referral_program,
    "createReferralCodes": _referral_codes,
    "createAction": _action,
    "updateAction": _action,
    "trackEvents": _events,
    "trackEventsAsync": _events,
    "trackEvent": _event,
    "createPurchaseOrder": _order,
    "batchCreatePurchaseOrders": _orders,
    "createAccessToken": _credentials,
    "createUser": _user,
    "updateUser": _user_change,
    "setUserPermissions": _user_permissions,
    "resetUserPassword": _new_password,
    "bulkAddUsers": _addresses,
    "bulkReassignUsers": _reassigned,
    "bulkRemoveUsers": _addresses,
    "createPermissionGroup": _permission_group,
    "createPortal": _portal,
    "updatePortal": _portal,
}
