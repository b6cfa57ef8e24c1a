"""A coffee shop: a program with records of every kind, and members with a history."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from handlers.http.local import LocalCalls
from handlers.services.events.evaluate_queued import record_failure
from persistence import organizations, queue

_ORDER = "member-purchase-order-created"
_COFFEES = 'order.items.filter(i, i.categoryCode == "coffee").map(i, i.quantity).sum()'
_PEOPLE = (("ana", "Costa", "regular"), ("ben", "Okoro", "new"), ("chloe", "Lind", "regular"))
_MENU = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "price": {"type": "number"}},
    "required": ["title"],
}


class CoffeeShop:
    """Creates the records of the sample by calls of the API at the moment `now`."""

    def __init__(self, db: Connection, calls: LocalCalls, now: datetime) -> None:
        self._db, self._calls, self._now = db, calls, now
        self._admin = calls.administration
        self._orders = 0

    def fill(self) -> list[tuple[str, str]]:
        """Create all records; return descriptions of them, each with the operation or command that shows it."""
        self._configure_program()
        self._create_rewards()
        self._create_campaigns()
        self._create_inactive_trigger()
        self._create_members_with_history()
        self._add_dead_letter()
        return [
            ("a program with the tiers Member, Silver and Gold", "listTiers"),
            ("points that expire after 12 months", "listLedgerAccounts"),
            (
                "campaigns: a bean for each unit spent, double for coffee lovers, a badge before nine",
                "listCampaigns",
            ),
            ("a mission, the tenth coffee, that gives a coupon", "listMissions"),
            ("coupon books: a free coffee for points, and codes to hand out", "listCouponBooks"),
            ("a referral program, in which ana brought ben", "listReferralCodes"),
            ("an audience, a matcher and an event type of the shop's own", "listAudiences"),
            ("a trigger, which is not active: its receiver does not exist", "listTriggers"),
            ("the menu, as content in two languages", "searchDocuments"),
            ("ana, whose tier moved: orders, a return, coupons, badges, missions", "loyalty member ana"),
            ("ben, who was referred and whose payment was cancelled", "loyalty member ben"),
            ("an event whose evaluation was given up, as if the server had failed", "listDeadLetterEvents"),
            ("chloe, to whom points were given and taken by hand", "loyalty member chloe"),
        ]

    def _configure_program(self) -> None:
        """Configure points and tiers of the default program; create an event type, a matcher and an audience."""
        organization = self._admin("getOrganization")["organization"]
        self._program_id = organization["defaultLoyaltyProgramId"]
        program = self._admin("getLoyaltyProgram", loyaltyProgramId=self._program_id)["loyaltyProgram"]
        ledger, account = program["ledgerId"], program["mainLedgerAccountId"]
        points = {"name": "Beans", "active": True, "isRevolving": True, "chainSyncEnabled": False}
        points |= {"expiresInMonths": 12, "pointTrackingEnabled": True}
        self._admin("updateLedgerAccount", points, ledgerId=ledger, ledgerAccountId=account)
        tiers = {}
        for order, (name, threshold) in enumerate((("Silver", 60), ("Gold", 150)), 1):
            body = {"name": name, "active": True, "minRequiredPoints": threshold, "tierOrder": order}
            tiers[name] = self._admin("createTier", body, loyaltyProgramId=self._program_id)["tier"]
        self._gold = tiers["Gold"]
        body = {"name": "App opened", "apiCode": "app-opened", "schemaType": "string", "active": True}
        self._admin("createCustomEventType", body)
        coffee = {"operator": "AND", "conditions": [{"field": "categoryCode", "operator": "equals", "value": "coffee"}]}
        self._admin("createMatcher", {"name": "Coffee", "type": "item-matcher", "matcher": coffee})
        regulars = {"memberTypes": ["regular"]}
        audience = {"active": True, "name": "Coffee lovers", "matcherType": "attribute-matcher", "matcher": regulars}
        self._lovers = self._admin("createAudience", audience)["audience"]

    def _create_rewards(self) -> None:
        """Create a badge, two coupon books, a mission, a referral program, and the menu as content documents."""
        integration = self._calls.integration
        badge = {"name": "Early bird", "description": "Coffee before nine", "maxAmount": 100, "active": True}
        self._badge = integration("createBadge", badge)["badge"]
        free_coffee = {"name": "Free coffee", "type": "codeless", "publishingStatus": "published"}
        self._coffee = integration("createCouponBook", free_coffee)["couponBook"]
        codes = {"name": "Welcome", "type": "list", "publishingStatus": "published", "discountAmount": 2}
        self._welcome = integration("createCouponBook", {**codes, "discountType": "fixed"})["couponBook"]
        key = {"couponBookKey": self._welcome["couponBookKey"]}
        integration("addCouponBookCoupons", {"codes": [f"HELLO{number}" for number in range(1, 6)]}, **key)
        mission = {
            "name": "The tenth coffee",
            "eventType": _ORDER,
            "maxRepetitions": 1000,
            "goalCount": 10,
            "countExpression": _COFFEES,
            "couponBookKey": self._coffee["couponBookKey"],
            "code": "tenth-coffee",
            "active": True,
        }
        self._admin("createMission", mission)
        friends = {
            "name": "Bring a friend",
            "active": True,
            "maxPerCode": 100,
            "code": "bring-a-friend",
            "eventType": _ORDER,
            "referrerPointsAccrual": 20,
            "referredPointsAccrual": 10,
        }
        self._friends = self._admin("createReferralProgram", friends)["referralProgram"]
        menu = {"name": "Menu", "description": "Drinks and cake", "slug": "menu", "jsonschema": _MENU}
        integration("createCollection", {**menu, "ftsFields": ["title"]})
        for slug, titles, price in (
            ("espresso", {"en": "Espresso", "es": "Café solo"}, 2),
            ("flat-white", {"en": "Flat white", "es": "Café con leche"}, 3),
        ):
            documents = [
                {
                    "documentKey": f"00000000-0000-4000-8000-{price:012d}",
                    "slug": slug,
                    "locale": "" if locale == "en" else locale,
                    "status": "published",
                    "attrs": {"title": title, "price": price},
                }
                for locale, title in titles.items()
            ]
            integration("batchUpsertDocuments", {"documents": documents}, collectionKeyOrSlug="menu")

    def _create_campaigns(self) -> None:
        """Create the campaigns, each with one running action."""

        def create_campaign(code: str, name: str, effect: dict[str, Any], rule: str | None = None, **more: Any) -> None:
            record = self._admin("createCampaign", {"code": code, "name": name, **more})["campaign"]
            rules = {} if rule is None else {"rules": {"expression": rule}}
            action = {"name": name, "effects": {"items": [effect]}, "status": "running", "priority": 1, **rules}
            self._admin("createAction", action, campaignId=record["campaignId"])

        def mint_effect(amount: dict[str, Any]) -> dict[str, Any]:
            return {"effectId": "mint-points", "params": [{"id": "amount", **amount}]}

        badge = {"effectId": "assign-badge", "params": [{"id": "badgeKey", "value": self._badge["badgeKey"]}]}
        book = {"id": "couponBookKey", "value": self._welcome["couponBookKey"]}
        create_campaign(
            "points", "A bean for each unit spent", mint_effect({"expression": "floor(order.total)"}), eventType=_ORDER
        )
        create_campaign(
            "coffee-lovers",
            "Double beans for coffee lovers",
            mint_effect({"expression": "floor(order.total)"}),
            eventType=_ORDER,
            audienceKeys=[self._lovers["audienceKey"]],
            limitRules=[{"scope": "member", "type": "points", "period": "monthly", "limit": 100}],
            allowPartialApplicationOnLimit=True,
        )
        create_campaign(
            "early-bird", "A badge before nine", badge, "event.externalEventDate.getHours() < 9", eventType=_ORDER
        )
        create_campaign(
            "welcome",
            "A coupon for new members",
            {"effectId": "assign-coupon", "params": [book]},
            eventType="member-created",
        )
        create_campaign("app", "Five beans for opening the app", mint_effect({"value": 5}), eventType="app-opened")

    def _create_inactive_trigger(self) -> None:
        """Create a trigger that sends no messages until it is switched on."""
        settings = {"url": "https://receiver.example/loyalty", "eventTypes": [_ORDER]}
        body = {"triggerKey": "mailer", "type": "WebHook", "name": "Mailer", "active": False, "settings": settings}
        self._admin("createTrigger", body)

    def _create_members_with_history(self) -> None:
        """Create ana, ben and chloe, and the orders, payments, gifts and uses that `fill` describes."""
        integration = self._calls.integration
        for name, last_name, kind in _PEOPLE:
            profile = {"name": name.capitalize(), "lastName": last_name, "email": f"{name}@example.com"}
            integration("createMember", {"loyaltyMemberId": name, "memberType": kind, "profile": profile})
        ana = integration("getMember", loyaltyMemberId="ana")["loyaltyMember"]
        codes = {"memberId": ana["memberId"], "codes": ["ANA-COFFEE"]}
        self._admin("createReferralCodes", codes, referralProgramId=self._friends["referralProgramId"])
        for day, coffees in ((40, 4), (25, 5), (10, 3), (3, 2)):
            self._track_order("ana", day, coffees)
        bought_event = self._track_order("ana", 2, 6)
        confirmed_event = {
            **bought_event,
            "eventType": "member-purchase-order-confirmed",
            "systemUniqueKey": "sample-confirmed",
        }
        self._track(confirmed_event)
        return_event = {
            **bought_event,
            "eventType": "member-purchase-order-returned",
            "systemUniqueKey": "sample-return",
        }
        self._track(return_event)
        self._track_order("ben", 1, 2, referralCode="ANA-COFFEE")
        mistaken_event = self._track_order("ben", 1, 1)
        # Tracked again, the event gets its first response, which has the key.
        event_key = self._track(mistaken_event)["loyaltyEventKey"]
        integration("cancelEvent", {"description": "Charged twice"}, loyaltyEventKey=event_key)
        self._track(self._event("chloe", 0, "app-opened", {"value": "ios"}))
        gift = {"amount": 25, "description": "For the spilt cappuccino"}
        self._admin("mintMemberPoints", gift, loyaltyMemberId="chloe")
        self._admin("burnMemberPoints", {"amount": 4, "description": "A cookie"}, loyaltyMemberId="chloe")
        update = {"profile": {"city": "Rosario"}, "updateReason": "Moved house"}
        integration("updateMember", update, loyaltyMemberId="chloe")
        book_key = self._coffee["couponBookKey"]
        integration("useCoupon", {"description": "Flat white"}, loyaltyMemberId="ana", couponBookKey=book_key)
        integration("assignBadge", {"amount": 1}, loyaltyMemberId="chloe", badgeKey=self._badge["badgeKey"])
        gold = {"loyaltyTierId": self._gold["loyaltyTierId"], "description": "Regular since the opening"}
        member = integration("getMember", loyaltyMemberId="chloe")["loyaltyMember"]["memberId"]
        self._admin("setMemberTier", gold, memberId=member, loyaltyProgramId=self._program_id)

    def _add_dead_letter(self) -> None:
        """Queue an event of chloe, and give up its evaluation."""
        member = self._calls.integration("getMember", loyaltyMemberId="chloe")["loyaltyMember"]
        event = self._event("chloe", 0, "app-opened", {"value": "android"})
        event["systemUniqueKey"] = "sample-dead-letter"
        self._calls.integration("trackEventsAsync", {"events": [event]})
        organization_id, member_id = member["organizationId"], member["memberId"]
        [queued] = queue.find_lines(self._db, organization_id, [member_id], 1)
        organization = organizations.find(self._db, organization_id)
        assert organization is not None
        record_failure(self._db, organization, queued, "the sample gave it up", wait=None, now=self._now)

    def _track_order(self, member: str, days_ago: int, coffees: int, **more: Any) -> dict[str, Any]:
        """Track a purchase of coffees, with a slice of cake if there are three or more; return the event."""
        self._orders += 1
        items = [{"productCode": "flat-white", "categoryCode": "coffee", "quantity": coffees, "total": 3 * coffees}]
        if coffees >= 3:
            items.append({"productCode": "carrot-cake", "categoryCode": "cake", "quantity": 1, "total": 4})
        total = sum(int(str(item["total"])) for item in items)
        order = {"externalId": f"sample-{self._orders}", "total": total, "items": items, **more}
        event = self._event(member, days_ago, _ORDER, {"order": order})
        self._track(event)
        return event

    def _event(self, member: str, days_ago: int, event_type: str, payload: dict[str, Any]) -> dict[str, Any]:
        """An event some days ago at 8:15, or now if `days_ago` is 0."""
        at = (self._now - timedelta(days=days_ago)).astimezone(UTC).replace(hour=8, minute=15, second=0, microsecond=0)
        event = {
            "loyaltyMemberId": member,
            "systemUniqueKey": f"sample-{event_type}-{self._orders}-{member}",
            "eventType": event_type,
            "payload": payload,
        }
        return event if at > self._now or not days_ago else {**event, "externalEventDate": at.isoformat()}

    def _track(self, event: dict[str, Any]) -> dict[str, Any]:
        """Track an event; return its result, which has to be a success."""
        [result] = self._calls.integration("trackEvents", {"events": [event]})["results"]
        if result["status"] != "success":
            raise AssertionError(f"an event of the sample was not evaluated: {result}")
        successful_result: dict[str, Any] = result
        return successful_result
