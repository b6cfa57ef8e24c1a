"""The journey by the clients that openapi-generator makes for Python; it prints what it saw as JSON."""

import datetime
import json
import os
from collections.abc import Callable

import loyalty_administration_client as administration
import loyalty_integration_client as integration
from loyalty_integration_client.exceptions import ApiException

Seen = dict[str, object]


def problem_of(call: Callable[[], object]) -> Seen:
    """The parts of the problem, by which programs decide, that a call is refused with."""
    try:
        call()
    except ApiException as refusal:
        problem = refusal.data
        assert isinstance(problem, integration.Problem), problem
        pointers = [fault.pointer for fault in problem.errors or []]
        return {"status": problem.status, "type": problem.type, "pointers": pointers}
    raise AssertionError("a problem was expected")


def in_utc(moment: datetime.datetime | None) -> str | None:
    """A moment as text, in one form for all languages."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


url = os.environ["JOURNEY_URL"]
organization_id = int(os.environ["JOURNEY_ORGANIZATION_ID"])
ledger_id = int(os.environ["JOURNEY_LEDGER_ID"])

anonymous = integration.ApiClient(integration.Configuration(url))
token = integration.AuthApi(anonymous).create_access_token(
    "client_credentials",
    client_id=os.environ["JOURNEY_CLIENT_ID"],
    client_secret=os.environ["JOURNEY_CLIENT_SECRET"],
)
shop = integration.ApiClient(integration.Configuration(url, access_token=token.access_token))
members = integration.MembersApi(shop)
books = integration.CouponBooksApi(shop)
coupons = integration.MemberCouponsApi(shop)
office = administration.ApiClient(administration.Configuration(url, access_token=os.environ["JOURNEY_ADMIN_TOKEN"]))

# An account with six decimals, and a campaign that gives whole points and parts of gems.
gems = (
    administration.LedgersApi(office)
    .create_ledger_account(
        organization_id,
        ledger_id,
        administration.LedgerAccountCreate(
            name="Gems", alias="gems", active=True, is_revolving=True, chain_sync_enabled=False, decimals=6
        ),
    )
    .ledger_account
)
campaigns = administration.CampaignsApi(office)
campaign = campaigns.create_campaign(
    organization_id,
    administration.CampaignBody(
        code="spend",
        name="Spend",
        event_type="member-purchase-order-created",
        valid_from=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
    ),
).campaign
param = administration.ActionEffectParam
points_effect = administration.ActionEffect(
    effect_id="mint-points", params=[param(id="amount", expression="floor(order.total)")]
)
gems_effect = administration.ActionEffect(
    effect_id="mint-points",
    params=[
        param(id="amount", expression="order.total"),
        param(id="ledgerAccountKey", value=str(gems.ledger_account_key)),
    ],
)
campaigns.create_action(
    organization_id,
    campaign.campaign_id,
    administration.CampaignActionBody(
        rules=administration.ActionRules(expression="order.total >= 1"),
        effects=administration.ActionEffects(items=[points_effect, gems_effect]),
        status=administration.ActionStatus.RUNNING,
        priority=1,
    ),
)

# Members, an event of one of them, and what it gave.
for name in ("ben", "cleo", "dora", "eve"):
    members.create_member(integration.MemberCreate(loyalty_member_id=name))
members.create_member(
    integration.MemberCreate(
        loyalty_member_id="ana",
        public_loyalty_member_id="A-1",
        profile=integration.MemberProfileInput(birthdate=datetime.date(1992, 2, 29)),
        custom_attributes={"drink": "flat white"},
    )
)
purchase = integration.TrackedEvent(
    loyalty_member_id="ana",
    system_unique_key="sale-1",
    event_type="member-purchase-order-created",
    external_event_date=datetime.datetime(2026, 3, 2, 8, 15, tzinfo=datetime.UTC),
    payload=integration.EventPayload(order=integration.OrderPayload(external_id="order-1", total=16777217.55)),
)
(result,) = integration.EventsApi(shop).track_events(integration.TrackRequest(events=[purchase])).results
amounts = [str(parameter.value) for effect in result.effects for parameter in effect.params if parameter.id == "amount"]

# A long decimal; floats have 15 digits.
administration.MembersApi(office).mint_member_points(
    organization_id,
    "ben",
    administration.MemberPointsRequest(
        amount=float(os.environ["JOURNEY_DECIMAL"]), ledger_account_id=gems.ledger_account_id
    ),
)
(balance,) = (
    account_balance.balance
    for account_balance in members.get_member("ben", include_balance=True).loyalty_member.ledger_balances or []
    if account_balance.ledger_account_id == gems.ledger_account_id
)

# Updates: one field changes, the others stay; null clears.
update = integration.MemberUpdate(public_loyalty_member_id="A-2")
patched_member = members.update_member("ana", update).loyalty_member
update_to_null = integration.MemberUpdate(public_loyalty_member_id=None)
cleared = members.update_member("ana", update_to_null).loyalty_member

# A book with codes of its own: one is assigned and used.
book = books.create_coupon_book(
    integration.CouponBookInput(
        publishing_status="published",
        type=integration.CouponBookType.LIST,
        name="Free flat white",
        tags=["coffee"],
        channels=["app"],
        custom_attributes={"cup": "large"},
    )
).coupon_book.coupon_book_key
books.add_coupon_book_coupons(book, integration.CouponCodes(codes=["FLAT-1"]))
renamed_book = books.update_coupon_book(book, integration.CouponBookChange(name="Free espresso")).coupon_book
assignment = coupons.assign_coupon(
    "ana", book, integration.CouponAssignment(system_unique_key="assign-1", amount=1)
).coupon_usage
use = integration.CouponUse(system_unique_key="use-1", code="FLAT-1")
usage = coupons.use_coupon("ana", book, use).coupon_usage

# Lists: all pages, then filters.
listed_ids: list[str] = []
pages = 0
while results := members.list_members(page=pages, limit=2, order="createdAt,asc").results:
    listed_ids += [member.loyalty_member_id for member in results]
    pages += 1
matches = members.list_members(loyalty_member_id="cleo").results
later = members.list_members(from_created_at=datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC))

again = integration.CouponUse(system_unique_key="use-2", code="FLAT-1")
# The models refuse by themselves what the document forbids, unless they are made without being checked.
faulty = integration.MemberCreate.model_construct(loyalty_member_id=" ana")
print(
    json.dumps(
        {
            "amounts": amounts,
            "decimal": str(balance),
            "validFrom": in_utc(campaign.valid_from),
            "patched": {
                "publicLoyaltyMemberId": patched_member.public_loyalty_member_id,
                "birthdate": str(patched_member.profile.birthdate),
                "customAttributes": patched_member.custom_attributes,
            },
            "cleared": cleared.public_loyalty_member_id,
            "book": {
                "name": renamed_book.name,
                "tags": renamed_book.tags,
                "channels": renamed_book.channels,
                "customAttributes": renamed_book.custom_attributes,
            },
            "coupons": [assignment.code, usage.code],
            "members": listed_ids,
            "pages": pages,
            "found": [member.loyalty_member_id for member in matches],
            "later": later.total,
            "problems": [
                problem_of(lambda: members.create_member(faulty)),
                problem_of(lambda: members.get_member("nobody")),
                problem_of(lambda: members.create_member(integration.MemberCreate(loyalty_member_id="ana"))),
                problem_of(lambda: coupons.use_coupon("ana", book, again)),
            ],
        }
    )
)
