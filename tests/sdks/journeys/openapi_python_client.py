"""The journey by the clients that openapi-python-client makes; it prints what it saw as JSON."""

import datetime
import json
import os
from decimal import Decimal
from typing import Any, TypeVar

from loyalty_administration_client import AuthenticatedClient as Administration
from loyalty_administration_client.api.campaigns import create_action, create_campaign
from loyalty_administration_client.api.ledgers import create_ledger_account
from loyalty_administration_client.api.members import mint_member_points
from loyalty_administration_client.models import (
    ActionEffect,
    ActionEffectParam,
    ActionEffects,
    ActionRules,
    ActionStatus,
    CampaignActionBody,
    CampaignBody,
    CampaignEnvelope,
    LedgerAccountCreate,
    LedgerAccountEnvelope,
    MemberPointsRequest,
    SavedCampaignAction,
)
from loyalty_integration_client import AuthenticatedClient, Client
from loyalty_integration_client.api.auth import create_access_token
from loyalty_integration_client.api.coupon_books import (
    add_coupon_book_coupons,
    create_coupon_book,
    update_coupon_book,
)
from loyalty_integration_client.api.events import track_events
from loyalty_integration_client.api.member_coupons import assign_coupon, use_coupon
from loyalty_integration_client.api.members import create_member, get_member, list_members, update_member
from loyalty_integration_client.models import (
    AccessToken,
    AccessTokenRequest,
    AccessTokenRequestGrantType,
    AddedCoupons,
    CouponAssignment,
    CouponBookChange,
    CouponBookEnvelope,
    CouponBookInput,
    CouponBookInputPublishingStatus,
    CouponBookType,
    CouponCodes,
    CouponUsageAnswer,
    CouponUse,
    CustomAttributes,
    EnrolledLoyaltyMember,
    EventPayload,
    LoyaltyMemberEnvelope,
    LoyaltyMemberPage,
    MemberCreate,
    MemberProfileInput,
    MemberUpdate,
    OrderPayload,
    Problem,
    TrackedEvent,
    TrackRequest,
    TrackResponse,
)

Kind = TypeVar("Kind")


def expect(kind: type[Kind], answer: object) -> Kind:
    """The response, which has to be of this class."""
    if not isinstance(answer, kind):
        raise TypeError(f"{kind.__name__} was expected, not {answer}")
    return answer


def problem_of(answer: object) -> dict[str, Any]:
    """The parts of a problem by which programs decide."""
    problem = expect(Problem, answer)
    pointers = [fault.pointer for fault in problem.errors or []]
    return {"status": problem.status, "type": problem.type_, "pointers": pointers}


def in_utc(moment: datetime.datetime | None) -> str | None:
    """A moment as text, in one form for all languages."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


url = os.environ["JOURNEY_URL"]
organization_id = int(os.environ["JOURNEY_ORGANIZATION_ID"])
ledger_id = int(os.environ["JOURNEY_LEDGER_ID"])

credentials = AccessTokenRequest(
    grant_type=AccessTokenRequestGrantType.CLIENT_CREDENTIALS,
    client_id=os.environ["JOURNEY_CLIENT_ID"],
    client_secret=os.environ["JOURNEY_CLIENT_SECRET"],
)
token = expect(AccessToken, create_access_token.sync(client=Client(url), body=credentials))
shop = AuthenticatedClient(url, token.access_token)
office = Administration(url, os.environ["JOURNEY_ADMIN_TOKEN"])

# An account with six decimals, and a campaign that gives whole points and parts of gems.
gems = expect(
    LedgerAccountEnvelope,
    create_ledger_account.sync(
        organization_id,
        ledger_id,
        client=office,
        body=LedgerAccountCreate(
            name="Gems", alias="gems", active=True, is_revolving=True, chain_sync_enabled=False, decimals=6
        ),
    ),
).ledger_account
campaign = expect(
    CampaignEnvelope,
    create_campaign.sync(
        organization_id,
        client=office,
        body=CampaignBody(
            code="spend",
            name="Spend",
            event_type="member-purchase-order-created",
            valid_from=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
        ),
    ),
).campaign
points_effect = ActionEffect("mint-points", [ActionEffectParam("amount", expression="floor(order.total)")])
gems_effect = ActionEffect(
    "mint-points",
    [
        ActionEffectParam("amount", expression="order.total"),
        ActionEffectParam("ledgerAccountKey", value=str(gems.ledger_account_key)),
    ],
)
expect(
    SavedCampaignAction,
    create_action.sync(
        organization_id,
        campaign.campaign_id,
        client=office,
        body=CampaignActionBody(
            ActionEffects([points_effect, gems_effect]),
            ActionStatus.RUNNING,
            1,
            rules=ActionRules(expression="order.total >= 1"),
        ),
    ),
)

# Members, an event of one of them, and what it gave.
for name in ("ben", "cleo", "dora", "eve"):
    expect(EnrolledLoyaltyMember, create_member.sync(client=shop, body=MemberCreate(name)))
expect(
    EnrolledLoyaltyMember,
    create_member.sync(
        client=shop,
        body=MemberCreate(
            "ana",
            public_loyalty_member_id="A-1",
            profile=MemberProfileInput(birthdate=datetime.date(1992, 2, 29)),
            custom_attributes=CustomAttributes.from_dict({"drink": "flat white"}),
        ),
    ),
)
purchase = TrackedEvent(
    "ana",
    "sale-1",
    "member-purchase-order-created",
    payload=EventPayload(order=OrderPayload("order-1", total=16777217.55)),
    external_event_date=datetime.datetime(2026, 3, 2, 8, 15, tzinfo=datetime.UTC),
)
(result,) = expect(TrackResponse, track_events.sync(client=shop, body=TrackRequest([purchase]))).results
amounts = [param.value for effect in result.effects for param in effect.params if param.id == "amount"]

# A long decimal. The text of a response has all of its digits, where floats have 15.
amount = float(os.environ["JOURNEY_DECIMAL"])
mint_result = mint_member_points.sync_detailed(
    organization_id,
    "ben",
    client=office,
    body=MemberPointsRequest(amount, ledger_account_id=gems.ledger_account_id),
)
assert mint_result.status_code == 200, mint_result.content
ben = get_member.sync_detailed("ben", client=shop, include_balance=True)
(balance,) = (
    balance["balance"]
    for balance in json.loads(ben.content, parse_float=Decimal)["loyaltyMember"]["ledgerBalances"]
    if balance["ledgerAccountId"] == gems.ledger_account_id
)

# Updates: one field changes, the others stay; null clears.
update = MemberUpdate(public_loyalty_member_id="A-2")
patched_member = expect(LoyaltyMemberEnvelope, update_member.sync("ana", client=shop, body=update)).loyalty_member
update_to_null = MemberUpdate(public_loyalty_member_id=None)
cleared = expect(LoyaltyMemberEnvelope, update_member.sync("ana", client=shop, body=update_to_null)).loyalty_member

# A book with codes of its own: one is assigned and used.
book = expect(
    CouponBookEnvelope,
    create_coupon_book.sync(
        client=shop,
        body=CouponBookInput(
            CouponBookInputPublishingStatus.PUBLISHED,
            CouponBookType.LIST,
            "Free flat white",
            tags=["coffee"],
            channels=["app"],
            custom_attributes=CustomAttributes.from_dict({"cup": "large"}),
        ),
    ),
).coupon_book
codes = CouponCodes(["FLAT-1"])
expect(AddedCoupons, add_coupon_book_coupons.sync(book.coupon_book_key, client=shop, body=codes))
renamed_book = expect(
    CouponBookEnvelope,
    update_coupon_book.sync(book.coupon_book_key, client=shop, body=CouponBookChange(name="Free espresso")),
).coupon_book
assignment = expect(
    CouponUsageAnswer,
    assign_coupon.sync(
        "ana", book.coupon_book_key, client=shop, body=CouponAssignment(system_unique_key="assign-1", amount=1)
    ),
).coupon_usage
use = CouponUse(system_unique_key="use-1", code="FLAT-1")
usage = expect(CouponUsageAnswer, use_coupon.sync("ana", book.coupon_book_key, client=shop, body=use)).coupon_usage

# Lists: all pages, then filters.
listed_ids: list[str] = []
pages = 0
while True:
    page = expect(LoyaltyMemberPage, list_members.sync(client=shop, page=pages, limit=2, order="createdAt,asc"))
    if not page.results:
        break
    listed_ids += [member.loyalty_member_id for member in page.results]
    pages += 1
matches = expect(LoyaltyMemberPage, list_members.sync(client=shop, loyalty_member_id="cleo"))
later = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)
none = expect(LoyaltyMemberPage, list_members.sync(client=shop, from_created_at=later))

again = CouponUse(system_unique_key="use-2", code="FLAT-1")
print(
    json.dumps(
        {
            "amounts": [str(amount) for amount in amounts],
            "decimal": str(balance),
            "validFrom": in_utc(campaign.valid_from),
            "patched": {
                "publicLoyaltyMemberId": patched_member.public_loyalty_member_id,
                "birthdate": str(patched_member.profile.birthdate),
                "customAttributes": patched_member.custom_attributes.to_dict(),
            },
            "cleared": cleared.public_loyalty_member_id,
            "book": {
                "name": renamed_book.name,
                "tags": renamed_book.tags,
                "channels": renamed_book.channels,
                "customAttributes": renamed_book.custom_attributes.to_dict(),
            },
            "coupons": [assignment.code, usage.code],
            "members": listed_ids,
            "pages": pages,
            "found": [member.loyalty_member_id for member in matches.results],
            "later": none.total,
            "problems": [
                problem_of(create_member.sync(client=shop, body=MemberCreate(" ana"))),
                problem_of(get_member.sync("nobody", client=shop)),
                problem_of(create_member.sync(client=shop, body=MemberCreate("ana"))),
                problem_of(use_coupon.sync("ana", book.coupon_book_key, client=shop, body=again)),
            ],
        }
    )
)
