"""Points on hold for tills without a network: tokens, redemptions, and the release at the end of the hold."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt
import pytest

from domain.ledger.records import REVERTED, SETTLED
from handlers.services.ledger.expire import expire_next
from handlers.services.tokens import Authenticator
from persistence import organizations, transactions
from tests.builders import clock as clocks
from tests.builders.campaigns import mint
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports
from tests.builders.tracking import Shop, key, running

# Tokens are valid for at most 48 hours, and tills may send redemptions for 24 hours more.
POLICY = {"enabled": True, "maxAmount": 60, "maxHours": 48, "syncHours": 24}


@dataclass
class Till:
    """A till, and a member with 100 points on the default account, which allows offline allowances."""

    shop: Shop
    clock: clocks.Clock
    member: str

    @property
    def path(self) -> str:
        return f"/members/{self.member}/offline-allowances"

    @property
    def account_path(self) -> str:
        defaults = self.shop.organization.defaults
        return f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"

    def allow(self, policy: Any, expect: int = 200, **settings: Any) -> Any:
        """Change the allowance policy of the account; return the account, or the problem of another status."""
        body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False, **settings}
        response = self.shop.administration.put(self.account_path, {**body, "offlineAllowance": policy}, expect=expect)
        return response["ledgerAccount"] if expect == 200 else response

    def create(self, amount: Any = 40, *, expect: int = 201, **body: Any) -> Any:
        """Create an allowance; return it, or the problem if another status than 201 is expected."""
        request = {"amount": amount, "systemUniqueKey": key(), **body}
        response = self.shop.integration.post(self.path, request, expect=expect)
        return response["offlineAllowance"] if expect == 201 else response

    def redemption(self, allowance: Any, amount: Any = 25, **body: Any) -> dict[str, Any]:
        """The body of a redemption for a purchase that happens now."""
        defaults = {"systemUniqueKey": key(), "externalEventDate": self.clock.moment()}
        return {"token": allowance["token"], "amount": amount, **defaults, **body}

    def redeem(self, allowance: Any, amount: Any = 25, *, expect: int = 200, **body: Any) -> Any:
        """Redeem an amount of the allowance for a purchase that happens now; return the response."""
        return self.send(self.redemption(allowance, amount, **body), expect=expect)

    def send(self, redemption: Any, *, expect: int = 200) -> Any:
        """Send the body of a redemption; return the response."""
        return self.shop.integration.post("/offline-allowances/redeem", redemption, expect=expect)

    def cancel(self, allowance: Any, *, expect: int = 200) -> Any:
        """Cancel the allowance; return the response."""
        path = f"/offline-allowances/{allowance['offlineAllowanceKey']}/cancel"
        return self.shop.integration.post(path, expect=expect)

    def statuses(self) -> list[str]:
        """The statuses of the member's allowances, the newest first."""
        return [allowance["status"] for allowance in self.shop.integration.get(self.path)["results"]]

    @property
    def balance_and_available(self) -> tuple[Any, Any]:
        """The member's balance and its amount that is not on hold; assert that all reads agree."""
        record = self.shop.integration.get(f"/members/{self.member}")["loyaltyMember"]
        wallet = self.shop.administration.get(
            f"{self.account_path}/wallets/{record['ledgerWalletId']}", include="lots"
        )["wallet"]
        available = wallet["currentBalance"] - wallet["pendingDebitBalance"]
        assert wallet["lots"]["available"] == available
        assert sum(lot["available"] for lot in wallet["lots"]["expiring"]) == available
        assert wallet["currentBalance"] == record["ledgerBalances"][0]["balance"]
        return wallet["currentBalance"], available

    def spendable(self) -> Any:
        """The points that a burn can take; assert that one more is refused."""
        _, available = self.balance_and_available
        path = f"/members/by-loyalty-member-id/{self.member}/burn"
        problem = self.shop.administration.post(path, {"amount": available + 1}, expect=409)
        assert problem["type"] == "/problems/insufficient-balance"
        return available

    def run_expiry_job(self) -> None:
        """Post the releases of holds that have ended, and the expiry of points."""
        organization_id = self.shop.organization.id
        transactions.run(
            self.shop.engine,
            lambda db: expire_next(db, organizations.find(db, organization_id), 0, self.clock.now()),
        )
        self.shop.check_ledger()


@pytest.fixture
def till(organization, monkeypatch):
    """A till with the policy POLICY, whose member has 100 points."""
    shop, clock = Shop(organization), clocks.install_clock(monkeypatch)
    till = Till(shop, clock, shop.member())
    till.allow(POLICY)
    shop.give(till.member, 100)
    return till


def type_of(problem):
    """The last part of the type of a problem."""
    return problem["type"].removeprefix("/problems/")


# --- creation ----------------------------------------------------------------------------------------------------


def test_an_allowance_puts_its_amount_on_hold(till):
    allowance = till.create(40, validFor="PT36H")
    assert {**allowance, "token": "..."} == {
        "offlineAllowanceId": allowance["offlineAllowanceId"],
        "offlineAllowanceKey": allowance["offlineAllowanceKey"],
        "amount": 40,
        "ledgerAccountKey": till.shop.organization.defaults.ledger_account_key,
        "status": "open",
        "expiresAt": allowance["expiresAt"],
        "heldUntil": allowance["heldUntil"],
        "ledgerTransactionId": allowance["ledgerTransactionId"],
        "redeemedAmount": None,
        "orderExternalId": None,
        "createdAt": allowance["createdAt"],
        "updatedAt": allowance["createdAt"],
        "token": "...",
    }
    created_at, expires_at, held_until = (
        datetime.fromisoformat(allowance[name]) for name in ("createdAt", "expiresAt", "heldUntil")
    )
    assert expires_at == created_at.replace(microsecond=0) + timedelta(hours=36)
    # The policy gives tills 24 hours more.
    assert held_until - expires_at == timedelta(hours=24)
    assert till.balance_and_available == (100, 100 - 40)
    assert till.spendable() == 100 - 40


def test_the_token_can_be_verified_by_the_published_key_set(till):
    allowance = till.create(40)
    api = till.shop.organization.api
    keys = jwt.PyJWKSet.from_dict(Authenticator(api.settings, api.engine).jwks())
    token = allowance["token"]
    key_id = jwt.get_unverified_header(token)["kid"]
    [public] = [jwk for jwk in keys.keys if jwk.key_id == key_id]
    claims = jwt.decode(token, public, algorithms=["ES256"], audience="offline-allowance")
    assert claims["jti"] == allowance["offlineAllowanceKey"]
    assert (claims["amount"], claims["account"]) == ("40", allowance["ledgerAccountKey"])
    assert (claims["organizationId"], claims["iss"]) == (till.shop.organization.id, api.settings.token_issuer)
    # The maximum of the policy.
    assert claims["exp"] - claims["iat"] == 48 * 3600
    assert abs(claims["exp"] - datetime.fromisoformat(allowance["expiresAt"]).timestamp()) <= 1


def test_a_token_of_an_allowance_is_no_access_token(till):
    token = till.create(40)["token"]
    till.shop.integration.with_token(token).get(f"/members/{till.member}", expect=401)


def test_a_repeated_request_gets_the_first_response(till):
    fields = {"systemUniqueKey": key(), "validFor": "PT24H"}
    allowance = till.create(40, **fields)
    repeated_allowance = till.create(40, **fields)
    # Two signatures of the same claims differ.
    assert {**repeated_allowance, "token": None} == {**allowance, "token": None}
    claims, repeated_claims = (
        jwt.decode(response["token"], options={"verify_signature": False})
        for response in (allowance, repeated_allowance)
    )
    assert claims == repeated_claims
    till.redeem(allowance, 25)
    assert {**till.create(40, **fields), "token": None} == {**allowance, "token": None}
    for change in ({"amount": 41}, {"validFor": "PT23H"}):
        assert type_of(till.create(**{"amount": 40, **fields, **change}, expect=409)) == "key-reused"
    till.shop.take(till.member, 1, systemUniqueKey="a-burn")
    assert type_of(till.create(40, systemUniqueKey="a-burn", expect=409)) == "key-reused"
    # 25 were redeemed, and 1 was burned.
    assert till.balance_and_available == (100 - 25 - 1, 100 - 25 - 1)


def test_accounts_without_an_enabled_policy_have_no_allowances(till):
    assert till.allow({**POLICY, "enabled": False})["offlineAllowance"]["enabled"] is False
    assert type_of(till.create(expect=409)) == "offline-allowance-disabled"
    assert "offlineAllowance" not in till.allow(None)
    assert type_of(till.create(expect=409)) == "offline-allowance-disabled"
    stars = till.shop.account(name="Stars")
    problem = till.create(ledgerAccountKey=stars["ledgerAccountKey"], expect=409)
    assert type_of(problem) == "offline-allowance-disabled"
    assert type_of(till.create(ledgerAccountKey=str(uuid.uuid4()), expect=404)) == "unknown-ledger-account"


def test_the_policy_of_an_account_has_defaults_and_bounds(till):
    assert till.allow({"enabled": True, "maxAmount": 60})["offlineAllowance"] == {
        "enabled": True,
        "maxAmount": 60,
        "maxHours": 24,
        "syncHours": 24,
    }
    for name, value in (
        ("maxHours", 0),
        ("maxHours", 49),
        ("syncHours", -1),
        ("syncHours", 169),
        ("maxAmount", -1),
        # The account has no decimals.
        ("maxAmount", 1.5),
    ):
        problem = till.allow({**POLICY, name: value}, expect=400)
        assert [error["pointer"] for error in problem["errors"]] == [f"/offlineAllowance/{name}"]


def test_an_allowance_above_the_limits_of_the_account_is_refused(till):
    # The maximum of the policy is 60.
    assert type_of(till.create(61, expect=409)) == "offline-allowance-limit"
    till.shop.take(till.member, 60)
    # 100 - 60 points remain.
    assert type_of(till.create(41, expect=409)) == "insufficient-balance"
    # The maximum of the policy is 48 hours.
    for invalid_duration in ("PT48H1S", "P3D", "PT0S", "P1", "PT", "PTH"):
        problem = till.create(validFor=invalid_duration, expect=400)
        assert [error["pointer"] for error in problem["errors"]] == ["/validFor"]
    # The account has no decimals.
    assert till.create(0, expect=400)["errors"][0]["pointer"] == "/amount"
    assert till.create(1.5, expect=400)["errors"][0]["pointer"] == "/amount"
    # Two days are exactly 48 hours.
    assert till.create(40, validFor="P2D")["amount"] == 40


def test_a_member_can_have_one_open_allowance_on_each_account(till):
    allowance = till.create(10)
    assert type_of(till.create(10, expect=409)) == "offline-allowance-limit"
    stars = till.shop.account(name="Stars", offlineAllowance=POLICY)
    till.shop.give(till.member, 5, ledgerAccountId=stars["ledgerAccountId"])
    assert till.create(5, ledgerAccountKey=stars["ledgerAccountKey"])["status"] == "open"
    till.redeem(allowance, 10)
    assert till.create(10)["status"] == "open"
    assert till.statuses() == ["open", "open", "redeemed"]


def test_an_account_with_an_overdraft_limit_has_no_allowances(till):
    overdraft_account = till.shop.account(name="Debts", overdraftLimit=50, offlineAllowance=POLICY)
    till.shop.give(till.member, 50, ledgerAccountId=overdraft_account["ledgerAccountId"])
    problem = till.create(5, ledgerAccountKey=overdraft_account["ledgerAccountKey"], expect=409)
    assert type_of(problem) == "capture-not-supported"


def test_the_policy_of_an_account_cannot_be_removed_while_allowances_are_open(till):
    allowance = till.create(10)
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    problem = till.shop.administration.put(till.account_path, {**body, "offlineAllowance": None}, expect=409)
    assert type_of(problem) == "ledger-account-in-use"
    till.cancel(allowance)
    assert "offlineAllowance" not in till.allow(None)


def test_a_member_token_creates_and_lists_the_members_own_allowances(till):
    member_surface = till.shop.integration.with_token(till.shop.organization.member_token(till.member))
    other_member = till.shop.member()
    own_allowance = member_surface.post(till.path, {"amount": 40, "systemUniqueKey": key()})["offlineAllowance"]
    assert [allowance["status"] for allowance in member_surface.get(till.path)["results"]] == ["open"]
    member_surface.post(
        f"/members/{other_member}/offline-allowances", {"amount": 1, "systemUniqueKey": key()}, expect=403
    )
    member_surface.get(f"/members/{other_member}/offline-allowances", expect=403)
    member_surface.post(f"/offline-allowances/{own_allowance['offlineAllowanceKey']}/cancel", expect=403)
    member_surface.post("/offline-allowances/redeem", till.redemption(own_allowance), expect=403)
    reader = till.shop.integration.with_token(till.shop.organization.token_of("benefits:write", "members:write"))
    reader.get(till.path, expect=403)
    reader.post(till.path, {"amount": 40, "systemUniqueKey": key()}, expect=403)


# --- redemption --------------------------------------------------------------------------------------------------


def test_a_redemption_burns_its_amount_and_releases_the_rest(till):
    allowance = till.create(40)
    till.clock.wait(hours=2)
    date = till.clock.moment(hours=-1)
    response = till.redeem(
        allowance, 25, externalEventDate=date, orderExternalId="1718", fiatValue=2.5, fiatCurrency="EUR"
    )
    assert till.balance_and_available == (100 - 25, 100 - 25)
    redeemed_allowance = response["offlineAllowance"]
    assert redeemed_allowance["status"] == "redeemed"
    assert redeemed_allowance["redeemedAmount"] == 25
    assert redeemed_allowance["orderExternalId"] == "1718"
    assert "token" not in redeemed_allowance
    [burn] = response["transactions"]
    assert burn["ledgerTransactionId"] == allowance["ledgerTransactionId"]
    assert (burn["transactionType"], burn["status"]) == ("burn", SETTLED)
    assert (burn["amount"], burn["updatedBalance"]) == (25, 100 - 25)
    assert (burn["fiatValue"], burn["fiatCurrency"], burn["externalEventDate"]) == (2.5, "EUR", date)
    assert till.shop.integration.get(till.path)["results"] == [redeemed_allowance]
    till.shop.check_ledger()


def test_a_repeated_redemption_returns_the_first_response(till):
    allowance = till.create(40)
    redemption = till.redemption(allowance, 25)
    first_response = till.send(redemption)
    assert till.send(redemption) == first_response
    till.shop.administration.post(
        f"{till.account_path}/transactions/{allowance['ledgerTransactionId']}/revert", {}, expect=200
    )
    assert till.send(redemption) == first_response
    assert type_of(till.send({**redemption, "amount": 24}, expect=409)) == "key-reused"
    second_allowance = till.create(40)
    assert type_of(till.send({**redemption, "token": second_allowance["token"]}, expect=409)) == "key-reused"
    # The redemption was reverted; the second allowance holds 40.
    assert till.balance_and_available == (100, 100 - 40)


def test_an_allowance_can_be_redeemed_only_once(till):
    allowance = till.create(40)
    till.redeem(allowance, 25)
    assert type_of(till.redeem(allowance, 25, expect=409)) == "offline-allowance-redeemed"
    assert type_of(till.cancel(allowance, expect=409)) == "offline-allowance-redeemed"
    assert till.balance_and_available == (100 - 25, 100 - 25)


def test_a_redemption_cannot_exceed_the_hold(till):
    allowance = till.create(40)
    assert type_of(till.redeem(allowance, 41, expect=409)) == "capture-exceeds-hold"
    assert till.redeem(allowance, 40)["offlineAllowance"]["status"] == "redeemed"
    assert till.balance_and_available == (100 - 40, 100 - 40)


def test_a_redemption_of_nothing_or_of_half_a_point_is_refused(till):
    allowance = till.create(40)
    assert till.redeem(allowance, 0, expect=400)["errors"][0]["pointer"] == "/amount"
    # The account has no decimals.
    assert till.redeem(allowance, 1.5, expect=400)["errors"][0]["pointer"] == "/amount"
    assert till.balance_and_available == (100, 100 - 40)


def test_a_purchase_after_the_end_of_the_token_is_refused(till):
    allowance = till.create(40)
    after_the_end = (datetime.fromisoformat(allowance["expiresAt"]) + timedelta(seconds=1)).isoformat()
    problem = till.redeem(allowance, externalEventDate=after_the_end, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/externalEventDate"]
    response = till.redeem(allowance, externalEventDate=allowance["expiresAt"])
    assert response["offlineAllowance"]["status"] == "redeemed"


def test_only_valid_tokens_of_the_organization_can_be_redeemed(till, other_organization):
    allowance = till.create(40)
    token = allowance["token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    forged_token = jwt.encode(claims, "x" * 32, algorithm="HS256")
    foreign_shop = Shop(other_organization)
    for invalid_token in (
        forged_token,
        token[:-6] + "AAAAAA",
        "nonsense",
        foreign_shop.organization.token,
        till.shop.organization.token,
    ):
        problem = till.send({**till.redemption(allowance), "token": invalid_token}, expect=400)
        assert type_of(problem) == "offline-allowance-invalid"
    problem = foreign_shop.integration.post("/offline-allowances/redeem", till.redemption(allowance), expect=400)
    assert type_of(problem) == "offline-allowance-invalid"
    cancel = f"/offline-allowances/{allowance['offlineAllowanceKey']}/cancel"
    foreign_shop.integration.post(cancel, expect=404)
    assert till.statuses() == ["open"]


def test_a_reverted_redemption_restores_the_points_and_not_the_allowance(till):
    allowance = till.create(40)
    till.redeem(allowance, 25)
    path = f"{till.account_path}/transactions/{allowance['ledgerTransactionId']}/revert"
    till.shop.administration.post(path, {}, expect=200)
    assert till.balance_and_available == (100, 100)
    assert till.statuses() == ["redeemed"]
    assert type_of(till.redeem(allowance, 15, expect=409)) == "offline-allowance-redeemed"
    till.shop.check_ledger()


def test_captures_and_reverts_of_the_hold_count_like_redemptions_and_cancellations(till):
    path = f"{till.account_path}/transactions"

    def capture(allowance, amount):
        """Capture an amount of the hold of an allowance."""
        transaction = {"ledgerTransactionId": str(allowance["ledgerTransactionId"]), "captureAmount": amount}
        till.shop.administration.post(f"{till.account_path}/captures", {"transactions": [transaction]}, expect=200)

    captured_allowance = till.create(40)
    capture(captured_allowance, 5)
    assert type_of(till.redeem(captured_allowance, expect=409)) == "offline-allowance-redeemed"
    reverted_allowance = till.create(40)
    till.shop.administration.post(f"{path}/{reverted_allowance['ledgerTransactionId']}/revert", {}, expect=200)
    assert type_of(till.redeem(reverted_allowance, expect=409)) == "offline-allowance-closed"
    capture(till.create(40), 0)
    # Newest first.
    assert till.statuses() == ["cancelled", "cancelled", "redeemed"]
    assert till.balance_and_available == (100 - 5, 100 - 5)


# --- the end of the hold -----------------------------------------------------------------------------------------


def test_points_can_be_spent_after_the_end_of_their_hold_even_if_its_release_is_not_posted(till):
    """The hold ends 72 hours after the creation: the token is valid for 48 hours, and tills have 24 more."""
    till.create(40, validFor="PT48H")
    till.clock.wait(hours=71, minutes=59)
    assert (till.balance_and_available, till.statuses()) == ((100, 100 - 40), ["open"])
    till.clock.wait(minutes=1)
    assert (till.balance_and_available, till.statuses()) == ((100, 100), ["expired"])
    assert till.spendable() == 100
    till.shop.take(till.member, 100)
    assert till.balance_and_available == (0, 0)
    till.shop.check_ledger()


def test_the_job_posts_the_release_at_the_end_of_the_hold(till):
    allowance = till.create(40)
    # After the end of the hold, 72 hours after the creation.
    till.clock.wait(hours=80)
    till.run_expiry_job()
    rows = till.shop.integration.get(f"/members/{till.member}/ledger-transactions")["results"]
    [release] = [row for row in rows if row["transactionType"] == "revert"]
    assert release["revertedLedgerTransactionId"] == allowance["ledgerTransactionId"]
    assert (release["status"], release["amount"], release["updatedBalance"]) == (REVERTED, 40, 100)
    assert release["externalEventDate"] == allowance["heldUntil"]
    assert (till.balance_and_available, till.statuses()) == ((100, 100), ["expired"])
    till.run_expiry_job()
    assert len(till.shop.integration.get(f"/members/{till.member}/ledger-transactions")["results"]) == len(rows)


def test_a_till_can_send_a_redemption_after_the_end_of_the_token(till):
    """The purchase happens in hour 47; the till sends the redemption in hour 60."""
    allowance = till.create(40, validFor="PT48H")
    till.clock.wait(hours=47)
    date = till.clock.moment()
    till.clock.wait(hours=13)
    assert till.redeem(allowance, 40, externalEventDate=date)["offlineAllowance"]["status"] == "redeemed"
    assert till.balance_and_available == (100 - 40, 100 - 40)


@pytest.mark.parametrize("is_release_posted", [False, True])
def test_an_allowance_cannot_be_redeemed_or_cancelled_after_its_hold(till, is_release_posted):
    allowance = till.create(40)
    date = till.clock.moment()
    # The hold ends: 48 hours of the token, and 24 for the tills.
    till.clock.wait(hours=72)
    if is_release_posted:
        till.run_expiry_job()
    assert type_of(till.redeem(allowance, externalEventDate=date, expect=409)) == "offline-allowance-closed"
    assert type_of(till.cancel(allowance, expect=409)) == "offline-allowance-closed"
    assert till.create(40)["status"] == "open"
    assert till.statuses() == ["open", "expired"]
    till.shop.check_ledger()


def test_a_hold_that_has_ended_cannot_be_captured_or_reverted(till):
    allowance = till.create(40)
    till.clock.wait(hours=72)
    path = f"{till.account_path}/transactions"
    problem = till.shop.administration.post(f"{path}/{allowance['ledgerTransactionId']}/revert", {}, expect=409)
    assert type_of(problem) == "already-reverted"
    capture = {"transactions": [{"ledgerTransactionId": str(allowance["ledgerTransactionId"])}]}
    assert type_of(till.shop.administration.post(f"{till.account_path}/captures", capture, expect=409)) == "not-pending"
    assert till.balance_and_available == (100, 100)


def test_points_that_expire_during_a_hold_expire_when_it_ends(till):
    """70 of 100 points expire after a day, while 40 of the 70 are on hold."""
    till.shop.take(till.member, 100)
    wallet = till.shop.integration.get(f"/members/{till.member}")["loyaltyMember"]["ledgerWalletId"]
    soon = till.clock.moment(days=1)
    for amount, expires_at in ((70, soon), (30, None)):
        mint_id = till.shop.give(till.member, amount)["ledgerTransactionId"]
        with till.shop.engine.begin() as db:
            lots = "UPDATE ledger_lots SET expires_at = %s WHERE organization_id = %s AND ledger_transaction_id = %s"
            db.exec_driver_sql(lots, (expires_at, till.shop.organization.id, int(mint_id)))
    allowance = till.create(40, validFor="PT48H")
    till.clock.wait(hours=25)
    # 30 of the 70 have expired; the other 40 are on hold.
    assert till.balance_and_available == (40 + 30, 30)
    # 72 hours after the creation, the hold ends.
    till.clock.wait(hours=47)
    assert (till.balance_and_available, till.spendable()) == ((30, 30), 30)
    days = till.shop.administration.get(
        f"/ledgers/{till.shop.organization.defaults.ledger_id}/wallets/{wallet}/daily-balances",
        fromDate=till.clock.now().date().isoformat(),
        toDate=till.clock.now().date().isoformat(),
    )["results"]
    assert days[0]["amount"] == 30
    till.run_expiry_job()
    assert till.balance_and_available == (30, 30)
    rows = till.shop.integration.get(f"/members/{till.member}/ledger-transactions")["results"]
    expiries = [row for row in rows if row["description"] == "Expired"]
    assert {(row["amount"], row["externalEventDate"]) for row in expiries} == {(30, soon), (40, allowance["heldUntil"])}


def test_the_export_of_balances_has_the_points_of_holds_that_have_ended(till):
    till.create(40)
    till.clock.wait(hours=72)
    # The export uses the real time instead of the clock of the test: the hold must have ended by then, too.
    with till.shop.engine.begin() as db:
        past = "UPDATE ledger_transactions SET held_until = now() - interval '1 hour' WHERE held_until IS NOT NULL"
        db.exec_driver_sql(f"{past} AND organization_id = {till.shop.organization.id}")
    rows = [json.loads(line) for line in exported_lines(till.shop.organization, "balances")]
    assert sum(row["amount"] for row in rows if row["loyaltyMemberId"] == till.member) == 100


# --- cancellation, deactivation, erasing -------------------------------------------------------------------------


def test_cancelling_an_allowance_releases_its_hold(till):
    allowance = till.create(40)
    cancelled_allowance = till.cancel(allowance)["offlineAllowance"]
    assert (cancelled_allowance["status"], till.balance_and_available) == ("cancelled", (100, 100))
    assert till.cancel(allowance)["offlineAllowance"] == cancelled_allowance
    assert type_of(till.redeem(allowance, expect=409)) == "offline-allowance-closed"
    till.clock.wait(hours=100)
    assert till.statuses() == ["cancelled"]
    till.shop.check_ledger()


def test_deactivating_a_member_cancels_the_allowances(till):
    allowance = till.create(40)
    till.shop.integration.patch(f"/members/{till.member}", {"active": False})
    assert (till.statuses(), till.balance_and_available) == (["cancelled"], (100, 100))
    assert type_of(till.redeem(allowance, expect=409)) == "offline-allowance-closed"
    assert type_of(till.create(expect=409)) == "member-inactive"
    till.shop.check_ledger()


def test_an_import_that_deactivates_a_member_cancels_the_allowances(till):
    till.create(40)
    Imports(till.shop.organization).run(f"loyaltyMemberId,active\n{till.member},false\n", mode="upsert")
    assert (till.statuses(), till.balance_and_available) == (["cancelled"], (100, 100))


def test_erasing_a_member_cancels_the_allowances(till):
    redemption = till.redemption(till.create(40), 5, orderExternalId="receipt-of-ana")
    till.send(redemption)
    open_allowance = till.create(40)
    member = till.shop.integration.get(f"/members/{till.member}")["loyaltyMember"]
    till.shop.administration.delete(f"/members/{member['memberId']}", expect=200)
    assert type_of(till.redeem(open_allowance, expect=409)) == "offline-allowance-closed"
    assert type_of(till.send(redemption, expect=409)) == "key-reused"
    assert [row.order_external_id for row in till.shop.rows("offline_allowances", "order_external_id")] == [None, None]
    till.shop.check_ledger()


def test_campaigns_and_the_timeline_report_the_hold(till):
    # A campaign counts the events about transactions by the points of another account.
    account = till.shop.account(name="Seen")
    rule = f'event.payload.ledgerTransaction.ledgerAccountKey != "{account["ledgerAccountKey"]}"'
    one_point = mint(1, ledgerAccountKey=account["ledgerAccountKey"])
    till.shop.campaign(running(one_point, rule=rule), eventType="ledger-transaction-created")
    till.create(40)
    till.clock.wait(hours=72)
    till.run_expiry_job()
    # The hold is reported as a transaction; its release by time is not.
    assert till.shop.balance(till.member, account["ledgerAccountId"]) == 1
    rows = till.shop.integration.get(f"/members/{till.member}/timeline", kinds="points")["results"]
    [text_of_release] = [row["text"] for row in rows if "cancelled" in row["text"]]
    assert text_of_release.startswith("40 Points were cancelled while they were pending")


def test_the_audit_log_has_creations_redemptions_and_cancellations(till):
    allowance = till.create(40)
    till.redeem(allowance, 25)
    till.cancel(till.create(10))
    # Newest first.
    entries = till.shop.administration.get("/audit-log", entityType="offline-allowance")["results"]
    assert [entry["operationId"] for entry in entries] == [
        "cancelOfflineAllowance",
        "createOfflineAllowance",
        "redeemOfflineAllowance",
        "createOfflineAllowance",
    ]
    assert entries[2]["changes"]["status"] == {"from": "open", "to": "redeemed"}
